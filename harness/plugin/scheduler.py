"""Which worker runs which test: one worker a phone, the tests of one phone in order and never in two places."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdist.workermanage import WorkerController


class PhoneScheduling:
    """A scheduler for pytest-xdist (see ``xdist.scheduler.protocol``).

    Every worker collects the same tests. The phones are dealt to the workers; a worker that replaces a dead one takes
    over its phone from the test after the one that killed it.
    """

    def __init__(self, phones: Sequence[str], phone_of: Callable[[str], str]) -> None:
        self._phones = list(phones)
        self._phone_of = phone_of
        self._waiting: dict[str, list[int]] = {}
        self._assigned: dict[WorkerController, str | None] = {}
        self._pending: dict[WorkerController, list[int]] = {}
        self._collections: dict[WorkerController, list[str]] = {}
        self._started: set[WorkerController] = set()
        self._dealt = False

    @property
    def nodes(self) -> list[WorkerController]:
        """All workers that are alive."""
        return list(self._pending)

    @property
    def collection_is_completed(self) -> bool:
        """Whether every first worker has collected."""
        return self._dealt or len(self._collections) >= len(self._phones)

    @property
    def tests_finished(self) -> bool:
        """Whether no test is left for anybody; workers get their shutdown with their last tests."""
        return self._dealt and not any(self._waiting.values()) and not any(self._pending.values())

    @property
    def has_pending(self) -> bool:
        """Whether tests are being run."""
        return any(self._pending.values())

    def add_node(self, node: WorkerController) -> None:
        """A worker started."""
        self._pending[node] = []
        self._assigned[node] = None

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """A worker collected its tests."""
        self._collections[node] = list(collection)

    def schedule(self) -> None:
        """Deal the phones to workers that have none, and send each its tests."""
        if not self._dealt:
            self._dealt = True
            collection = next(iter(self._collections.values()))
            for index, nodeid in enumerate(collection):
                self._waiting.setdefault(self._phone_of(nodeid), []).append(index)
        for node in self.nodes:
            if node in self._started or node not in self._collections:
                continue
            self._started.add(node)
            phone = next((name for name, indices in self._waiting.items() if indices), None)
            if phone is not None:
                self._assigned[node] = phone
                self._pending[node] = self._waiting.pop(phone)
                node.send_runtest_some(self._pending[node])
            node.shutdown()

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """A test is done."""
        self._pending[node].remove(item_index)

    def mark_test_pending(self, item: str) -> None:
        """Run a test again: never, a cell has one record per attempt."""
        raise NotImplementedError

    def remove_pending_tests_from_node(self, node: WorkerController, indices: Sequence[int]) -> None:
        """Take tests back: never asked for, since tests are not stolen."""
        raise NotImplementedError

    def remove_node(self, node: WorkerController) -> str | None:
        """A worker ended. Return the test that it died in, if any; the rest waits for its replacement."""
        pending = self._pending.pop(node)
        if not pending:
            return None
        phone = self._assigned[node]
        if phone is not None:
            self._waiting[phone] = pending[1:]
        return self._collections[node][pending[0]]
