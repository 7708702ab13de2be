"""Which worker runs which test: the tests of one phone in order, on one worker, never in two places."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdist.workermanage import WorkerController

from harness.plugin.leaving import LEAVE_ID


class PhoneScheduling:
    """A scheduler for pytest-xdist (see ``xdist.scheduler.protocol``).

    Every worker collects the same tests. The phones are dealt to the workers, which are ``places`` many. Where phones
    are more than places, a worker that is done with a phone gets the next that waits: it leaves the one before it takes
    the other (see :mod:`harness.plugin.leaving`). A phone whose worker died comes first, from the test after the one in
    flight; that one too is run again where :meth:`mark_test_pending` says so.
    """

    def __init__(self, places: int, phone_of: Callable[[str], str]) -> None:
        self._places = places
        self._phone_of = phone_of
        self._waiting: dict[str, list[int]] = {}
        self._assigned: dict[WorkerController, str] = {}
        self._pending: dict[WorkerController, list[int]] = {}
        self._collections: dict[WorkerController, list[str]] = {}
        self._started: set[WorkerController] = set()
        self._leave: int | None = None
        self._dealt = False

    @property
    def nodes(self) -> list[WorkerController]:
        """All workers that are alive."""
        return list(self._pending)

    @property
    def collection_is_completed(self) -> bool:
        """Whether every first worker has collected."""
        return self._dealt or len(self._collections) >= self._places

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

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """A worker collected its tests."""
        self._collections[node] = list(collection)

    def schedule(self) -> None:
        """Deal phones to workers that have none yet, and send each its tests."""
        if not self._dealt:
            self._dealt = True
            for index, nodeid in enumerate(next(iter(self._collections.values()))):
                if nodeid == LEAVE_ID:
                    self._leave = index
                else:
                    self._waiting.setdefault(self._phone_of(nodeid), []).append(index)
        for node in self.nodes:
            if node not in self._started and node in self._collections:
                self._started.add(node)
                self._deal(node)

    def _deal(self, node: WorkerController) -> None:
        """Give a worker the next phone; one that will get no other may end after it."""
        phone = next((name for name, indices in self._waiting.items() if indices), None)
        if phone is not None:
            # A worker begins a test only when it knows the next one, or that there is none. With a phone's last test it
            # knows that it will leave the phone, but not yet what comes then: that is decided when the test is done.
            indices = self._waiting.pop(phone) + ([] if self._leave is None else [self._leave])
            self._assigned[node] = phone
            self._pending[node] += indices
            node.send_runtest_some(indices)
        if phone is None or self._leave is None:
            node.shutdown()

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """A test is done. After a phone's last one its place is free."""
        self._pending[node].remove(item_index)
        if item_index != self._leave and self._pending[node] == [self._leave]:
            self._deal(node)

    def mark_test_pending(self, item: str) -> None:
        """Run the test in which a worker died again, before what else its phone has to do."""
        index = next(iter(self._collections.values())).index(item)
        phone = self._phone_of(item)
        self._put_first(phone, [index, *self._waiting.get(phone, [])])

    def remove_pending_tests_from_node(self, node: WorkerController, indices: Sequence[int]) -> None:
        """Take tests back: never asked for, since tests are not stolen."""
        raise NotImplementedError

    def remove_node(self, node: WorkerController) -> str | None:
        """A worker ended. Return the test that it died in, if any; the rest waits for another worker."""
        pending = self._pending.pop(node)
        if not pending:
            return None
        first, *rest = pending
        self._put_first(self._assigned[node], [index for index in rest if index != self._leave])
        return None if first == self._leave else self._collections[node][first]

    def _put_first(self, phone: str, indices: list[int]) -> None:
        self._waiting = {phone: indices, **{name: left for name, left in self._waiting.items() if name != phone}}
