"""The scheduler against workers that only remember what they were told."""

from __future__ import annotations

from typing import Any

from harness.plugin.scheduler import PhoneScheduling

TESTS = ["t[a-1]", "t[b-1]", "t[a-2]", "t[b-2]", "t[a-3]"]


class Worker:
    def __init__(self) -> None:
        self.sent: list[int] = []
        self.ended = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.ended = True


def phone_of(nodeid: str) -> str:
    return nodeid[2]


def started(count: int) -> tuple[PhoneScheduling, list[Any]]:
    scheduling = PhoneScheduling(["a", "b"], phone_of)
    workers: list[Any] = [Worker() for _ in range(count)]
    for worker in workers:
        scheduling.add_node(worker)
        scheduling.add_node_collection(worker, TESTS)
    scheduling.schedule()
    return scheduling, workers


def test_each_worker_gets_one_phone_and_its_tests_in_order() -> None:
    _, (first, second) = started(2)
    assert (first.sent, second.sent) == ([0, 2, 4], [1, 3])
    assert first.ended
    assert second.ended


def test_nothing_is_dealt_before_every_worker_has_collected() -> None:
    scheduling = PhoneScheduling(["a", "b"], phone_of)
    worker: Any = Worker()
    scheduling.add_node(worker)
    scheduling.add_node_collection(worker, TESTS)
    assert not scheduling.collection_is_completed
    assert not scheduling.tests_finished


def test_it_is_finished_when_every_test_is_done() -> None:
    scheduling, (first, second) = started(2)
    for index in (0, 2, 4):
        scheduling.mark_test_complete(first, index)
    assert not scheduling.tests_finished
    for index in (1, 3):
        scheduling.mark_test_complete(second, index)
    assert scheduling.tests_finished
    assert not scheduling.has_pending


def test_a_replacement_goes_on_after_the_test_that_killed_its_predecessor() -> None:
    scheduling, (first, _) = started(2)
    scheduling.mark_test_complete(first, 0)
    assert scheduling.remove_node(first) == "t[a-2]"
    assert not scheduling.tests_finished
    replacement: Any = Worker()
    scheduling.add_node(replacement)
    scheduling.add_node_collection(replacement, TESTS)
    scheduling.schedule()
    assert replacement.sent == [4]


def test_a_worker_that_dies_in_its_last_test_leaves_nothing_to_do() -> None:
    scheduling, (first, second) = started(2)
    for index in (0, 2):
        scheduling.mark_test_complete(first, index)
    for index in (1, 3):
        scheduling.mark_test_complete(second, index)
    assert scheduling.remove_node(first) == "t[a-3]"
    assert scheduling.tests_finished


def test_a_worker_that_ends_with_nothing_left_names_no_test() -> None:
    scheduling, (_, second) = started(2)
    for index in (1, 3):
        scheduling.mark_test_complete(second, index)
    assert scheduling.remove_node(second) is None
