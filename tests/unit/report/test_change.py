"""Whether a speed changed, or only the noise did: proven on repeats whose truth is known, from fixed seeds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from numpy.random import Generator

from harness.report.change import change_of

Side = list[float]
Make = Callable[[Generator], tuple[Side, Side]]

TRIALS = 1000
# What is promised, and what a thousand trials may stray from a true rate of that (two standard deviations).
PROMISED, STRAY = 0.05, 0.014


def bell(rng: Generator, n: int, cv: float, mean: float = 50.0) -> Side:
    return [float(value) for value in mean * (1 + cv * rng.standard_normal(n))]


def with_outliers(rng: Generator, n: int, mean: float = 50.0) -> Side:
    """Every tenth repeat is a third slower, as when another app woke up."""
    slow = np.where(rng.random(n) < 0.1, 0.67, 1.0)
    return [float(value) for value in np.array(bell(rng, n, 0.015, mean)) * slow]


def heavy_tails(rng: Generator, n: int) -> Side:
    return [float(value) for value in 50 * np.exp(0.02 * rng.standard_t(2, n))]


def like_their_neighbours(rng: Generator, n: int, cv: float, correlation: float) -> Side:
    pushes, values = rng.standard_normal(n), [float(rng.standard_normal())]
    for push in pushes[1:]:
        values.append(correlation * values[-1] + math.sqrt(1 - correlation**2) * float(push))
    return [50 * math.exp(cv * value) for value in values]


def drifting(rng: Generator, n: int) -> Side:
    """Each cell gets slower by 5 % while it runs."""
    return [value * (1 - 0.05 * place / (n - 1)) for place, value in enumerate(bell(rng, n, 0.01))]


def rates(make: Make, trials: int = TRIALS, seed: int = 20260101) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    counts = Counter(change_of(*make(rng)).verdict for _ in range(trials))
    return {verdict: count / trials for verdict, count in counts.items()}


def wrong(make: Make, trials: int = TRIALS) -> float:
    """How often a change is called."""
    found = rates(make, trials)
    return found.get("faster", 0.0) + found.get("slower", 0.0)


@pytest.mark.parametrize(("n", "cv"), [(10, 0.03), (10, 0.01), (5, 0.03), (5, 0.08)])
def test_of_two_hundred_pairs_without_a_change_at_most_a_twentieth_is_called_one(n: int, cv: float) -> None:
    assert wrong(lambda rng: (bell(rng, n, cv), bell(rng, n, cv)), 200) <= PROMISED


def test_a_slow_down_by_a_twentieth_is_found_in_nine_of_ten() -> None:
    found = rates(lambda rng: (bell(rng, 10, 0.03), bell(rng, 10, 0.03, 47.5)))
    assert found["slower"] >= 0.9
    assert "faster" not in found
    assert "same" not in found


def test_so_is_a_time_that_grew_by_as_much() -> None:
    rng = np.random.default_rng(7)
    found = [
        change_of(bell(rng, 10, 0.03, 100), bell(rng, 10, 0.03, 105.3), higher_is_better=False) for _ in range(300)
    ]
    assert sum(change.verdict == "slower" for change in found) >= 270


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda rng: (bell(rng, 3, 0.03), bell(rng, 3, 0.03)), id="three repeats"),
        pytest.param(lambda rng: (bell(rng, 4, 0.05), bell(rng, 4, 0.05)), id="four repeats"),
        pytest.param(lambda rng: (bell(rng, 5, 0.06), bell(rng, 20, 0.03)), id="unequal number and spread"),
        pytest.param(lambda rng: (bell(rng, 20, 0.06), bell(rng, 5, 0.03)), id="unequal the other way"),
        pytest.param(lambda rng: (with_outliers(rng, 10), with_outliers(rng, 10)), id="outliers"),
        pytest.param(lambda rng: (with_outliers(rng, 5), with_outliers(rng, 20)), id="outliers, unequal number"),
        pytest.param(lambda rng: (heavy_tails(rng, 8), heavy_tails(rng, 8)), id="heavy tails"),
        pytest.param(lambda rng: (drifting(rng, 8), drifting(rng, 8)), id="drift within a side"),
        pytest.param(
            lambda rng: (like_their_neighbours(rng, 10, 0.02, 0.4), like_their_neighbours(rng, 10, 0.02, 0.4)),
            id="neighbours alike",
        ),
        pytest.param(
            lambda rng: (like_their_neighbours(rng, 30, 0.03, 0.6), like_their_neighbours(rng, 30, 0.03, 0.6)),
            id="neighbours alike, many",
        ),
        pytest.param(
            lambda rng: ([round(v) for v in bell(rng, 5, 0.04, 9.4)], [round(v) for v in bell(rng, 5, 0.04, 9.4)]),
            id="whole numbers",
        ),
    ],
)
def test_a_change_is_not_called_too_often_where_repeats_are_no_bell(make: Make) -> None:
    assert wrong(make) <= PROMISED + STRAY


def test_ten_repeats_that_wander_widely_are_the_known_limit() -> None:
    """Few repeats do not tell how alike neighbours are: up to one in six is called. --verify and --ab find it out."""
    few = wrong(lambda rng: (like_their_neighbours(rng, 10, 0.03, 0.5), like_their_neighbours(rng, 10, 0.03, 0.5)))
    assert PROMISED < few <= 1 / 6


def test_an_outlier_does_not_hide_a_slow_down() -> None:
    found = rates(lambda rng: (with_outliers(rng, 10), with_outliers(rng, 10, 46.5)), 300)
    assert found["slower"] > 0.8


def test_the_interval_holds_the_truth_in_at_least_95_of_100() -> None:
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(TRIALS):
        interval = change_of(bell(rng, 6, 0.04), bell(rng, 6, 0.04, 45.0)).ci95
        assert interval is not None
        held += interval[0] <= 0.9 <= interval[1]
    assert held / TRIALS >= 0.95 - STRAY


def test_a_proven_change_below_the_bound_is_none() -> None:
    base, new = [100.0, 100.1, 99.9, 100.05], [99.0, 99.1, 98.9, 99.05]
    assert change_of(base, new).verdict == "same"
    assert change_of(base, new, bound=0.005).verdict == "slower"


def test_where_it_cannot_be_told_as_many_repeats_as_it_says_are_enough() -> None:
    rng = np.random.default_rng(11)
    told = [change_of(bell(rng, 5, 0.03), bell(rng, 5, 0.03, 47.0)) for _ in range(200)]
    more = [change.more_repeats for change in told if change.verdict == "cannot tell"]
    assert len(more) > 50
    assert all(count is not None and count >= 1 for count in more)
    typical = 5 + int(np.median([count for count in more if count is not None]))
    again = [change_of(bell(rng, typical, 0.03), bell(rng, typical, 0.03, 47.0)).verdict for _ in range(200)]
    assert again.count("cannot tell") < len(more) * 0.6
    first = next(change for change in told if change.verdict == "cannot tell" and change.more_repeats != 1)
    assert first.words == f"cannot tell: needs {first.more_repeats} more repeats"


def test_what_is_known_of_runs_widens_the_interval_and_more_repeats_do_not_help() -> None:
    base, new = [50.0, 50.1, 49.9, 50.05], [47.0, 47.1, 46.9, 47.05]
    assert change_of(base, new).verdict == "slower"
    change = change_of(base, new, between_cv=0.03)
    assert (change.verdict, change.more_repeats) == ("cannot tell", None)
    assert change.ratio == pytest.approx(0.94, abs=0.001)
    assert change.words.startswith("cannot tell: runs differ too much from one to another to tell a change by 3 %")


def test_runs_that_are_moved_as_a_whole_are_no_change_once_that_is_known() -> None:
    """A phone that lies otherwise is 3 % faster or slower in all its repeats: the repeats of a cell cannot know."""

    def moved(rng: Generator) -> Side:
        return bell(rng, 8, 0.01, 50 * (1 + 0.03 * float(rng.standard_normal())))

    rng = np.random.default_rng(5)
    pairs = [(moved(rng), moved(rng)) for _ in range(400)]
    blind = sum(change_of(*pair).verdict in ("slower", "faster") for pair in pairs) / len(pairs)
    knowing = sum(change_of(*pair, between_cv=0.03).verdict in ("slower", "faster") for pair in pairs) / len(pairs)
    assert blind > 0.2
    assert knowing <= PROMISED + STRAY


def test_one_value_a_side_is_judged_by_what_is_known_of_runs() -> None:
    assert change_of([200.0], [260.0], higher_is_better=False, between_cv=0.02).verdict == "slower"
    assert change_of([200.0], [204.0], higher_is_better=False, between_cv=0.02).verdict == "cannot tell"
    assert change_of([200.0], [201.0], higher_is_better=False, between_cv=0.005).verdict == "same"
    assert change_of([200.0], [260.0]).verdict == "cannot tell"


def test_figures_that_are_all_the_same_are_as_exact_as_their_digits() -> None:
    assert change_of([48.37] * 3, [48.37] * 3).verdict == "same"
    assert change_of([48.0] * 5, [45.0] * 5).verdict == "slower"
    # 9 and 10 may be 9.4 and 9.6.
    assert change_of([9.0] * 5, [10.0] * 5).verdict == "cannot tell"


def test_a_side_with_no_spread_does_not_make_the_other_exact() -> None:
    assert change_of([50.0, 50.0, 50.0], [40.1, 55.3, 47.2]).verdict == "cannot tell"


@pytest.mark.parametrize("nothing", [None, 0.0, math.nan, math.inf, -1.0])
def test_what_is_no_figure_is_left_out(nothing: float | None) -> None:
    base, new = [100.0, 101.0, 99.0], [90.0, 91.0, 89.5]
    assert change_of([*base, nothing], new) == change_of(base, new)
    assert change_of([nothing, *base[:2]], new).more_repeats == 1


def test_two_repeats_tell_nothing() -> None:
    change = change_of([10.0, 10.1], [12.0, 12.1, 11.9])
    assert (change.verdict, change.ratio, change.ci95, change.more_repeats) == ("cannot tell", None, None, 1)
    assert change.words == "cannot tell: needs 1 more repeat"
    assert change_of([], []).more_repeats == 3


def test_more_milliseconds_are_slower() -> None:
    assert change_of([10.0, 10.1, 9.9], [12.0, 12.1, 11.9], higher_is_better=False).verdict == "slower"
    assert change_of([12.0, 12.1, 11.9], [10.0, 10.1, 9.9], higher_is_better=False).verdict == "faster"


def test_it_does_not_matter_in_which_unit() -> None:
    base, new = [10.01, 10.12, 9.93], [12.02, 12.11, 11.94]
    scaled = change_of([value * 4096 for value in base], [value * 4096 for value in new])
    plain = change_of(base, new)
    assert scaled.verdict == plain.verdict
    assert scaled.ratio == pytest.approx(plain.ratio)
    assert scaled.ci95 == pytest.approx(plain.ci95)
