"""Where a series of runs changed: steps, drift and stray runs told from the noise between runs. Pure.

Figures are compared by their logarithms, so a change is a ratio. The noise is estimated from the differences between
neighbouring runs, which a step spoils in one place only. Steps are found by binary segmentation (Scott and Knott 1974)
with weights by each run's own interval, each then moved to where it fits best between its neighbours. A straight line
that explains the series with less (by the Bayesian information criterion) is named drift instead.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

Course = Literal["steady", "changed", "drift", "too few runs"]

# A step has this many runs on each side: one run that differs is a stray, and so are two.
LEAST_SEGMENT: Final = 3
# Of the differences between neighbours these, the smallest, tell the noise: steps and strays, which spoil two, are
# among the rest.
_NOISE_KEPT: Final = 0.8
# Less than this share is no change for anybody; the same bound as in the comparison of two runs.
LEAST_CHANGE: Final = 0.03
# Runs repeat each other no better than this, whatever their own intervals say.
_LEAST_NOISE: Final = 0.005
# How far the means of two sides must lie apart, in standard errors. Chosen by simulation: with it 3 to 4 % of series of
# 20 runs without a change are called changed, and 91 % of steps by 10 % are found where the runs differ by 3 %.
_STEP_ERRORS: Final = 3.2
_LINE_ERRORS: Final = 4.0
# What a step costs in the information criterion, its level and its place together; a line's slope costs 1. Chosen by
# simulation: with more, steps are named drift; with less, drift is named steps.
_CUT_COST: Final = 1.5
# A stray run differs from both neighbours by this many standard deviations of the noise.
_STRAY_SIGMAS: Final = 4.0
# Half a 95 % interval in standard errors.
_Z95: Final = 1.96


@dataclass(frozen=True)
class Step:
    """The figure changed between the runs ``at - 1`` and ``at`` (counted from 0); ``ratio`` is after over before."""

    at: int
    ratio: float


@dataclass(frozen=True)
class Found:
    """What became of a series.

    ``total`` is last level over first, or what the drift adds up to. ``strays`` are the places of single runs that
    differ from both neighbours: they are shown, and count for nothing.
    """

    course: Course
    steps: tuple[Step, ...] = ()
    strays: tuple[int, ...] = ()
    total: float = 1.0


def changes_of(values: Sequence[float], errors: Sequence[float | None] = ()) -> Found:
    """Find the steps of a series of positive figures, oldest first.

    Args:
        values: one per run, all above 0.
        errors: of each value, as a share of it: half its 95 % interval over the value; ``None`` where not known.
    """
    if len(values) < 2 * LEAST_SEGMENT:
        return Found("too few runs")
    logs = [math.log(value) for value in values]
    noise = _noise(logs)
    strays = _strays(logs, noise)
    kept = [place for place in range(len(logs)) if place not in strays]
    if len(kept) < 2 * LEAST_SEGMENT:
        return Found("too few runs", (), strays)
    series = _Series([logs[place] for place in kept], _weights(kept, errors, noise))
    cuts = _segments(series)
    line = _line(series)
    if line is not None and series.cost_of(cuts) > line.cost:
        return Found("drift", (), strays, math.exp(line.rise))
    levels = series.levels(cuts)
    rises = [after - before for before, after in itertools.pairwise(levels)]
    steps = tuple(Step(kept[cut], math.exp(rise)) for cut, rise in zip(cuts, rises, strict=True))
    if not steps:
        return Found("steady", (), strays)
    return Found("changed", steps, strays, math.exp(levels[-1] - levels[0]))


def _noise(logs: Sequence[float]) -> float:
    """Return the standard deviation between runs, from neighbours' differences without the few largest."""
    squares = sorted((after - before) ** 2 for before, after in itertools.pairwise(logs))
    kept = squares[: min(math.ceil(len(squares) * _NOISE_KEPT), len(squares) - 2)]
    share = _variance_below(len(kept) / len(squares))
    return max(_LEAST_NOISE, math.sqrt(statistics.fmean(kept) / 2 / share))


@cache
def _variance_below(share: float) -> float:
    """Return the variance of the ``share`` of normal values that lie nearest their mean; that of all is 1."""
    normal = statistics.NormalDist()
    end = normal.inv_cdf((1 + share) / 2)
    return 1 - 2 * end * normal.pdf(end) / share


def _strays(logs: Sequence[float], noise: float) -> tuple[int, ...]:
    far = _STRAY_SIGMAS * noise
    last = len(logs) - 1
    found = []
    for place, value in enumerate(logs):
        beside = [value - logs[near] for near in (place - 1, place + 1) if 0 <= near <= last]
        # At an end there is one neighbour only: the next but one has to agree with it.
        if place in (0, last):
            beside.append(value - logs[2 if place == 0 else last - 2])
        if all(gap > far for gap in beside) or all(gap < -far for gap in beside):
            found.append(place)
    return tuple(found)


def _weights(kept: Sequence[int], errors: Sequence[float | None], noise: float) -> list[float]:
    """Return one over the variance of each run: what it says of itself, and at least the noise between runs."""
    told = [error for error in errors if error is not None]
    usual = statistics.median(told) / _Z95 if told else 0.0
    between = max(noise**2 - usual**2, _LEAST_NOISE**2)
    given = {place: error / _Z95 for place, error in enumerate(errors) if error is not None}
    own = [given.get(place, usual) for place in kept]
    return [1 / (between + error**2) for error in own]


@dataclass(frozen=True)
class _Line:
    cost: float
    rise: float


class _Series:
    """Sums from the start on, so that the weighted mean and spread of any stretch cost nothing."""

    def __init__(self, values: Sequence[float], weights: Sequence[float]) -> None:
        self.values, self.weights, self.size = values, weights, len(values)
        self._w, self._wx, self._wxx = [0.0], [0.0], [0.0]
        for value, weight in zip(values, weights, strict=True):
            self._w.append(self._w[-1] + weight)
            self._wx.append(self._wx[-1] + weight * value)
            self._wxx.append(self._wxx[-1] + weight * value * value)

    def mean(self, start: int, end: int) -> float:
        return (self._wx[end] - self._wx[start]) / (self._w[end] - self._w[start])

    def spread(self, start: int, end: int) -> float:
        """Return the weighted squares around the stretch's mean."""
        sums = self._wx[end] - self._wx[start]
        return self._wxx[end] - self._wxx[start] - sums * sums / (self._w[end] - self._w[start])

    def errors_apart(self, start: int, cut: int, end: int) -> float:
        """Return how far the two sides of ``cut`` lie apart, in standard errors."""
        left, right = self._w[cut] - self._w[start], self._w[end] - self._w[cut]
        return abs(self.mean(start, cut) - self.mean(cut, end)) / math.sqrt(1 / left + 1 / right)

    def best(self, start: int, end: int) -> int:
        """Return the cut with the largest step, of those with enough runs on each side."""
        return max(
            range(start + LEAST_SEGMENT, end - LEAST_SEGMENT + 1), key=lambda cut: self.errors_apart(start, cut, end)
        )

    def levels(self, cuts: Sequence[int]) -> list[float]:
        edges = [0, *cuts, self.size]
        return [self.mean(start, end) for start, end in itertools.pairwise(edges)]

    def cost_of(self, cuts: Sequence[int]) -> float:
        """Return the information criterion of these steps: each costs its level and its place."""
        edges = [0, *cuts, self.size]
        spread = sum(self.spread(start, end) for start, end in itertools.pairwise(edges))
        return spread + (1 + _CUT_COST * len(cuts)) * math.log(self.size)


def _segments(series: _Series) -> list[int]:
    """Return where the series is cut, in order."""
    cuts: list[int] = []
    stretches = [(0, series.size)]
    while stretches:
        start, end = stretches.pop()
        if end - start < 2 * LEAST_SEGMENT:
            continue
        cut = series.best(start, end)
        if _is_step(series, start, cut, end):
            cuts.append(cut)
            stretches += [(start, cut), (cut, end)]
        else:
            inner = _inner_step(series, start, end)
            if inner is not None:
                cuts.append(inner)
                stretches += [(start, inner), (inner, end)]
    return _settled(series, sorted(cuts))


def _inner_step(series: _Series, start: int, end: int) -> int | None:
    """Return a step within one of three overlapping halves: a dip that came and went is none of the whole."""
    half = (end - start) // 2
    if half < 2 * LEAST_SEGMENT:
        return None
    for left in (start, start + half // 2, end - half):
        cut = series.best(left, left + half)
        if _is_step(series, left, cut, left + half):
            return cut
    return None


def _settled(series: _Series, cuts: list[int]) -> list[int]:
    """Move each cut to its best place between its neighbours, and drop those that are no steps there."""
    moved: list[int] = []
    for nth, _ in enumerate(cuts):
        start = moved[-1] if moved else 0
        end = cuts[nth + 1] if nth + 1 < len(cuts) else series.size
        if end - start < 2 * LEAST_SEGMENT:
            continue
        cut = series.best(start, end)
        if _is_step(series, start, cut, end):
            moved.append(cut)
    return moved


def _is_step(series: _Series, start: int, cut: int, end: int) -> bool:
    size = abs(series.mean(start, cut) - series.mean(cut, end))
    return size >= math.log1p(LEAST_CHANGE) and series.errors_apart(start, cut, end) >= _STEP_ERRORS


def _line(series: _Series) -> _Line | None:
    """Return the straight line through the series, ``None`` where it does not rise or fall enough to tell."""
    total = sum(series.weights)
    middle = sum(weight * place for place, weight in enumerate(series.weights)) / total
    mean = series.mean(0, series.size)
    moment = sum(weight * (place - middle) ** 2 for place, weight in enumerate(series.weights))
    slope = (
        sum(
            weight * (place - middle) * (value - mean)
            for place, (value, weight) in enumerate(zip(series.values, series.weights, strict=True))
        )
        / moment
    )
    rise = slope * (series.size - 1)
    if abs(slope) * math.sqrt(moment) < _LINE_ERRORS or abs(rise) < math.log1p(LEAST_CHANGE):
        return None
    spread = series.spread(0, series.size) - slope * slope * moment
    return _Line(spread + 2 * math.log(series.size), rise)
