"""Changes in a series of runs: what is one, where, and how often noise is taken for one. All series are made up."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable

import pytest

from harness.report.history_changes import Found, Step, changes_of

RUNS = 20
NOISE = 0.03


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 -- the same noise every time, no secret


def series(chance: random.Random, level: Callable[[int], float], noise: float = NOISE, runs: int = RUNS) -> list[float]:
    """Return speeds around 40 tok/s; ``level`` is the logarithm of what is added to it."""
    return [40 * math.exp(level(run) + chance.gauss(0, noise)) for run in range(runs)]


@pytest.mark.parametrize("runs", [8, RUNS, 50])
def test_noise_between_runs_is_seldom_called_a_change(runs: int) -> None:
    chance = seeded(20260101 + runs)
    courses = Counter(changes_of(series(chance, lambda _: 0.0, runs=runs)).course for _ in range(200))
    assert courses["steady"] >= 0.95 * 200


def test_a_step_by_a_tenth_is_found_where_it_is() -> None:
    chance = seeded(7)
    found = 0
    for _ in range(400):
        at, step = chance.randrange(3, RUNS - 2), chance.choice((-1, 1)) * math.log(1.1)
        steps = changes_of(series(chance, lambda run, at=at, step=step: step * (run >= at))).steps
        found += len(steps) == 1 and abs(steps[0].at - at) <= 1 and (steps[0].ratio > 1) is (step > 0)
    assert found >= 0.9 * 400


def test_a_dip_that_came_and_went_is_two_steps() -> None:
    chance = seeded(8)
    made = [changes_of(series(chance, lambda run: -0.1 * (7 <= run < 14))) for _ in range(200)]
    assert sum(len(found.steps) == 2 for found in made) >= 0.85 * 200


def test_a_slow_drift_is_named_so() -> None:
    chance = seeded(9)
    made = [changes_of(series(chance, lambda run: -0.15 * run / (RUNS - 1), noise=0.015)) for _ in range(200)]
    assert sum(found.course == "drift" and 0.8 < found.total < 0.92 for found in made) >= 0.9 * 200


def test_one_run_that_differs_is_a_stray_and_no_change() -> None:
    chance = seeded(10)
    made = [changes_of(series(chance, lambda run: -0.35 * (run == 11))) for _ in range(200)]
    assert sum(found.course == "steady" and found.strays == (11,) for found in made) >= 0.95 * 200


@pytest.mark.parametrize("place", [0, 1, 8, 9])
def test_a_stray_is_found_at_the_ends_too(place: int) -> None:
    values = [40.0, 40.1, 39.9, 40.0, 40.2, 39.8, 40.0, 40.1, 39.9, 40.0]
    values[place] = 20.0
    assert changes_of(values) == Found("steady", (), (place,))


def test_the_newest_runs_are_a_change_when_there_are_three_of_them() -> None:
    quiet = [40.0, 40.1, 39.9, 40.0, 40.2, 39.8, 40.0]
    assert changes_of([*quiet, 36.0]).course == "steady"
    found = changes_of([*quiet, 36.0, 36.1, 35.9])
    assert [step.at for step in found.steps] == [7]
    assert found.steps[0].ratio == pytest.approx(0.9, abs=0.005)
    assert found.total == found.steps[0].ratio


def test_the_same_figures_again_and_again_are_steady() -> None:
    assert changes_of([40.0] * 12) == Found("steady")
    assert changes_of([40.0] * 6 + [40.4] * 6) == Found("steady")


def test_a_step_without_any_noise_is_found() -> None:
    assert changes_of([40.0] * 6 + [44.0] * 6).steps == (Step(6, pytest.approx(1.1)),)


def test_runs_that_are_unsure_of_themselves_weigh_less() -> None:
    values = [40.0, 40.1, 39.9, 40.0, 39.9, 40.1, 40.0, 36.9, 37.1, 36.9]
    sure, unsure = [0.01] * 10, [0.01] * 7 + [0.3] * 3
    assert [step.at for step in changes_of(values, sure).steps] == [7]
    assert changes_of(values, unsure).course == "steady"


def test_fewer_than_three_runs_on_each_side_tell_nothing() -> None:
    assert changes_of([]).course == "too few runs"
    assert changes_of([40.0, 40.0, 20.0, 20.0, 20.0]).course == "too few runs"
