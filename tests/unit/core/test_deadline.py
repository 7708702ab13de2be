from __future__ import annotations

import pytest

from harness.core.deadline import Deadline
from harness.core.errors import DeadlineError


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_time_left_is_told_until_it_is_over() -> None:
    clock = Clock()
    deadline = Deadline(5.0, "pushing", "toy-1", clock=clock)
    clock.now += 3
    assert (deadline.remaining_s(), deadline.passed) == (2.0, False)
    clock.now += 2
    assert deadline.passed
    with pytest.raises(DeadlineError, match=r"^toy-1: pushing was not done after 5 s$") as caught:
        deadline.remaining_s()
    assert (caught.value.phone, caught.value.what, caught.value.seconds) == ("toy-1", "pushing", 5.0)
    assert caught.value.reason.code == "link_stalled"
    assert caught.value.transient


@pytest.mark.parametrize(("wanted", "given"), [(1.0, 1.0), (2.0, 2.0), (100.0, 2.0)])
def test_a_step_never_outlives_its_parent(wanted: float, given: float) -> None:
    clock = Clock()
    parent = Deadline(5.0, "the whole", "toy-1", clock=clock)
    clock.now += 3
    step = parent.within(wanted, "a step")
    assert step.remaining_s() == given
    clock.now += given
    with pytest.raises(DeadlineError, match="toy-1: a step was not done"):
        step.remaining_s()
    assert parent.passed == (given == 2.0)


def test_no_step_begins_after_the_parents_end() -> None:
    clock = Clock()
    parent = Deadline(5.0, "the whole", "toy-1", clock=clock)
    clock.now += 5
    with pytest.raises(DeadlineError, match="the whole was not done after 5 s"):
        parent.within(1.0, "a step")
