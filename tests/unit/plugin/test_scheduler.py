"""The scheduler against workers that only remember what they were told."""

from __future__ import annotations

from typing import Any

from harness.plugin.leaving import LEAVE_ID
from harness.plugin.scheduler import PhoneScheduling

TESTS = ["t[a-1]", "t[b-1]", "t[a-2]", "t[b-2]", "t[a-3]"]
# Three phones for two places, phone by phone; the step between two phones comes last.
MANY = ["t[a-1]", "t[a-2]", "t[b-1]", "t[c-1]", "t[c-2]", LEAVE_ID]
LEAVE = MANY.index(LEAVE_ID)


class Worker:
    def __init__(self) -> None:
        self.sent: list[int] = []
        self.ended = False

    def send_runtest_some(self, indices: list[int]) -> None:
        assert not self.ended, "a worker that was told to end would never run these"
        self.sent += indices

    def shutdown(self) -> None:
        self.ended = True


def phone_of(nodeid: str) -> str:
    return nodeid[2]


def join(scheduling: PhoneScheduling, tests: list[str]) -> Any:
    """A worker that starts and collects."""
    worker = Worker()
    scheduling.add_node(worker)  # type: ignore[arg-type]
    scheduling.add_node_collection(worker, tests)  # type: ignore[arg-type]
    return worker


def started(count: int, tests: list[str] = TESTS) -> tuple[PhoneScheduling, list[Any]]:
    scheduling = PhoneScheduling(count, phone_of)
    workers = [join(scheduling, tests) for _ in range(count)]
    scheduling.schedule()
    return scheduling, workers


def test_each_worker_gets_one_phone_and_its_tests_in_order() -> None:
    _, (first, second) = started(2)
    assert (first.sent, second.sent) == ([0, 2, 4], [1, 3])
    assert first.ended
    assert second.ended


def test_nothing_is_dealt_before_every_worker_has_collected() -> None:
    scheduling = PhoneScheduling(2, phone_of)
    join(scheduling, TESTS)
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
    replacement = join(scheduling, TESTS)
    scheduling.schedule()
    assert replacement.sent == [4]


def test_the_test_in_flight_is_run_again_first_where_it_is_wanted_even_if_it_was_the_last() -> None:
    scheduling, (first, second) = started(2)
    scheduling.mark_test_complete(first, 0)
    scheduling.mark_test_pending(str(scheduling.remove_node(first)))
    replacement = join(scheduling, TESTS)
    scheduling.schedule()
    assert replacement.sent == [2, 4]
    scheduling.mark_test_complete(second, 1)
    scheduling.mark_test_pending(str(scheduling.remove_node(second)))
    assert not scheduling.tests_finished
    another = join(scheduling, TESTS)
    scheduling.schedule()
    assert another.sent == [3]


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


def test_a_phone_that_ends_early_gives_its_place_to_the_next_after_it_was_left() -> None:
    scheduling, (first, second) = started(2, MANY)
    assert (first.sent, second.sent) == ([0, 1, LEAVE], [2, LEAVE])
    assert not first.ended
    scheduling.mark_test_complete(second, 2)  # phone b is done, while a is at its first cell
    assert second.sent == [2, LEAVE, 3, 4, LEAVE]
    assert first.sent == [0, 1, LEAVE]
    for index in (LEAVE, 3, 4):
        assert not second.ended
        scheduling.mark_test_complete(second, index)
    assert second.ended
    scheduling.mark_test_complete(second, LEAVE)
    for index in (0, 1, LEAVE):
        scheduling.mark_test_complete(first, index)
    assert first.ended
    assert scheduling.tests_finished


def test_the_phone_of_a_dead_worker_goes_before_phones_that_were_not_begun() -> None:
    scheduling, (first, _) = started(2, MANY)
    scheduling.mark_test_pending(str(scheduling.remove_node(first)))
    replacement = join(scheduling, MANY)
    scheduling.schedule()
    assert replacement.sent == [0, 1, LEAVE]


def test_of_a_worker_that_dies_while_it_leaves_a_phone_the_next_phone_is_whole() -> None:
    scheduling, (_, second) = started(2, MANY)
    scheduling.mark_test_complete(second, 2)
    assert scheduling.remove_node(second) is None
    replacement = join(scheduling, MANY)
    scheduling.schedule()
    assert replacement.sent == [3, 4, LEAVE]
