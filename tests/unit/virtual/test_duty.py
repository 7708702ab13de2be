from __future__ import annotations

import random

import pytest

from harness.virtual.duty import PERIOD_S, Duty


def share_of(duty: Duty, wanted: float, seconds: float, late_s: float) -> float:
    """Play the caller, who comes up to ``late_s`` late each time, and return the share of time that was run."""
    chance = random.Random(1)  # noqa: S311 - the same lateness each time
    now, ran = 100.0, 0.0
    end = now + seconds
    while now < end:
        due = duty.next_change(now, wanted)
        assert due > now
        then = due + chance.uniform(0, late_s)
        ran += (then - now) * duty.running
        now = then
    return ran / seconds


@pytest.mark.parametrize("wanted", [0.3, 0.47, 0.5, 0.7, 0.88, 0.95])
@pytest.mark.parametrize("late_s", [0.0, 0.002, 0.015])
def test_processes_get_their_share_however_late_the_caller_is(wanted: float, late_s: float) -> None:
    assert share_of(Duty(), wanted, 60.0, late_s) == pytest.approx(wanted, rel=0.03)


def test_no_stop_lasts_longer_than_a_period() -> None:
    duty, now = Duty(), 0.0
    for _ in range(500):
        due = duty.next_change(now, 0.5)
        assert due - now <= PERIOD_S
        now = due


def test_a_reset_lets_all_run() -> None:
    duty = Duty()
    now = 0.0
    while duty.running:
        now = duty.next_change(now, 0.5)
    duty.reset()
    assert duty.running
    duty.next_change(now, 0.5)
    assert duty.running
