"""Speed, clocks and heat in all combinations: each alone lies."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from harness.bench.throttle import Throttling, throttling_of

AFTER_S = 30.0
Judge = Callable[..., Throttling]


@pytest.fixture
def judge(runs: ModuleType) -> Judge:
    """Judge a run of 80 s whose speed falls by ``by`` after 30 s."""

    def run(by: float = 0.4, sensed: Any = None, *, speed: Any = None, **how: Any) -> Throttling:
        backend, statuses = how.pop("backend", "cpu"), how.pop("statuses", ())
        rng = np.random.default_rng(how.pop("seed", 1))
        generations = runs.made_up(rng, speed or runs.drop(AFTER_S, by), **{"seconds": 80.0, **how})
        return throttling_of(runs.timeline(generations, sensed), backend=backend, statuses=statuses)

    return run


def sensors(
    cap: float = 1.0, clock: float | None = None, cap_s: float = AFTER_S, skin: float = 33.0, chip: float = 55.0
) -> Callable[[float], dict[str, Any]]:
    """What is readable: cap (and current clock) fall at ``cap_s``, the phone is as warm as told throughout."""

    def sensed(at_s: float) -> dict[str, Any]:
        fell = at_s >= cap_s
        now = cap if clock is None else clock
        return {
            "celsius": {"skin": skin, "cpu": chip},
            "lead_c": skin if at_s < cap_s - 5 else skin + 4.0,
            "cap_ratio": cap if fell else 1.0,
            "clock_ratio": now if fell else 1.0,
        }

    return sensed


def test_a_cap_and_the_speed_fall_together(judge: Judge) -> None:
    seen = judge(0.4, sensors(0.6), statuses=(0, 2))
    assert seen.throttled is True
    assert seen.onset_s == pytest.approx(AFTER_S, abs=0.15)
    assert (seen.judged_by, seen.notes) == ("speed, clocks, heat, status", ())
    assert seen.burst_tps == pytest.approx(20.0, rel=0.02)
    assert seen.sustained_tps == pytest.approx(12.0, rel=0.02)
    assert seen.sustained_ratio == pytest.approx(0.6, rel=0.02)


def test_with_the_cap_as_a_witness_a_fall_of_a_twentieth_counts(judge: Judge) -> None:
    seen = judge(0.05, sensors(0.95))
    assert seen.throttled is True
    assert seen.onset_s == pytest.approx(AFTER_S, abs=0.15)
    assert judge(0.05, sensors(1.0)).throttled is False


def test_a_cap_that_falls_without_the_speed_is_noted(judge: Judge) -> None:
    seen = judge(0.0, sensors(0.7))
    assert (seen.throttled, seen.onset_s) == (False, None)
    assert seen.notes == ("a clock's cap fell after 30.0 s, and speed did not fall with it",)


def test_a_cap_that_dips_for_a_moment_is_none(judge: Judge) -> None:
    def dips(at_s: float) -> dict[str, Any]:
        return {"cap_ratio": 0.5 if int(at_s) % 10 == 0 and at_s % 1 < 0.4 else 1.0}

    seen = judge(0.0, dips)
    assert (seen.throttled, seen.notes) == (False, ())


def test_speed_that_falls_while_clocks_are_steady_is_something_else(judge: Judge) -> None:
    seen = judge(0.4, sensors())
    assert (seen.throttled, seen.onset_s) == (False, None)
    assert "while clocks were steady and the phone was not hot" in seen.notes[0]
    assert seen.sustained_ratio is not None
    assert seen.sustained_ratio < 0.75, "what was measured is told all the same"


@pytest.mark.parametrize(
    ("sensed", "statuses"),
    [
        (sensors(skin=43.5), ()),
        (sensors(chip=88.0), ()),
        (sensors(), (0, 1)),
        (sensors(cap=1.0, clock=0.6), ()),
    ],
    ids=["hot skin", "hot chip", "status", "current clock"],
)
def test_a_steady_cap_does_not_hide_what_heat_status_or_the_current_clock_say(
    judge: Judge, sensed: Any, statuses: tuple[int, ...]
) -> None:
    seen = judge(0.4, sensed, statuses=statuses)
    assert seen.throttled is True
    assert seen.onset_s == pytest.approx(AFTER_S, abs=1.0)


def test_a_current_clock_that_falls_on_a_phone_that_stayed_cold_proves_nothing(judge: Judge) -> None:
    def waits(at_s: float) -> dict[str, Any]:
        return {"lead_c": 30.0, "celsius": {"skin": 30.0}, "cap_ratio": 1.0, "clock_ratio": 0.9 if at_s < 30 else 0.5}

    assert judge(0.4, waits).throttled is False


def test_unreadable_sensors_leave_speed_alone(judge: Judge) -> None:
    seen = judge(0.4)
    assert (seen.throttled, seen.judged_by) == (True, "speed alone")
    assert seen.onset_s == pytest.approx(AFTER_S, abs=1.0)
    assert judge(0.0).throttled is False


def test_the_processors_clocks_say_nothing_of_a_gpu(judge: Judge) -> None:
    seen = judge(0.4, sensors(), backend="opencl")
    assert (seen.throttled, seen.judged_by) == (True, "speed, heat")
    assert judge(0.0, sensors(0.5), backend="opencl").throttled is False


def test_an_oscillating_governor_is_throttling_from_its_first_step(judge: Judge, runs: ModuleType) -> None:
    def cap(at_s: Any) -> Any:
        return np.where((np.asarray(at_s) >= 20.0) & (np.asarray(at_s) % 6.0 < 4.0), 0.6, 1.0)

    seen = judge(speed=cap, sensed=lambda at_s: {"cap_ratio": float(cap(at_s))}, seconds=120.0)
    assert seen.throttled is True
    assert seen.onset_s == pytest.approx(20.0, abs=0.5)
    assert seen.sustained_tps == pytest.approx(20.0 / (1 / 3 + 2 / 3 / 0.6) * 1.0, rel=0.1)


def test_a_speed_that_still_falls_at_the_end_is_noted(judge: Judge, runs: ModuleType) -> None:
    seen = judge(speed=runs.decay(10.0, 90.0, 0.7), seconds=60.0)
    assert seen.throttled is True
    assert any("still fell at the end" in note for note in seen.notes)


def test_a_speed_that_rises_again_is_noted(judge: Judge, runs: ModuleType) -> None:
    seen = judge(speed=runs.drop(30.0, 0.4, until_s=60.0), seconds=100.0)
    assert seen.onset_s == pytest.approx(30.0, abs=1.0)
    assert seen.recovered_s == pytest.approx(60.0, abs=2.0)
    assert seen.sustained_ratio == pytest.approx(1.0, abs=0.03)


def test_a_cap_that_was_low_from_the_first_token_has_not_fallen(judge: Judge) -> None:
    assert judge(0.0, sensors(0.6, cap_s=0.0)).throttled is False


def test_a_cap_that_falls_at_once_is_believed(judge: Judge) -> None:
    seen = judge(0.0, sensors(0.6, cap_s=0.15))
    assert (seen.throttled, seen.onset_s) == (True, pytest.approx(0.2, abs=0.1))


def test_without_tokens_and_clocks_nothing_is_known(runs: ModuleType) -> None:
    nothing = runs.Timeline((), (), None)
    assert throttling_of(nothing) == Throttling(None, judged_by="nothing")
