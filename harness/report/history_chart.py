"""The chart of one phone over many runs, as places in an SVG picture. Pure.

All lines share one scale: each figure over its own first level, in percent. A line breaks where a run was refused.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.report.history import Point, Series, Trend
from harness.report.history_words import amount, change_in_words
from harness.report.text import plural

WIDTH: Final = 860
HEIGHT: Final = 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 14, 26, 34
# More lines than this no eye tells apart; they are in the table.
LINES: Final = 6
_DATES: Final = 6
_LEAST_SPAN: Final = 0.1
_STEPS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_TICKS: Final = 6


@dataclass(frozen=True)
class Tick:
    """A mark on an axis."""

    at: float
    text: str


@dataclass(frozen=True)
class Dot:
    """One run's figure: its place, the ends of its interval, and what it says when pointed at."""

    x: float
    y: float
    low: float | None
    high: float | None
    stray: bool
    title: str


@dataclass(frozen=True)
class Mark:
    """A change, between two runs."""

    x: float
    text: str
    worse: bool
    title: str


@dataclass(frozen=True)
class Line:
    """One figure of one configuration; ``paths`` are its unbroken stretches."""

    label: str
    paths: tuple[str, ...]
    dots: tuple[Dot, ...]
    marks: tuple[Mark, ...]
    gaps: tuple[Tick, ...]


@dataclass(frozen=True)
class HistoryChart:
    """One phone's picture; ``left_out`` lines are in the table only."""

    phone: str
    moved: int
    lines: tuple[Line, ...]
    left_out: int
    runs: tuple[Tick, ...]
    ratios: tuple[Tick, ...]
    says: str


def charts_of(trends: Sequence[Trend], runs: Sequence[tuple[str, str]]) -> tuple[HistoryChart, ...]:
    """Return a chart per phone, in the order of ``trends``; ``runs`` are (run id, date) of all runs, oldest first."""
    by_phone: dict[str, list[Trend]] = {}
    for trend in trends:
        by_phone.setdefault(trend.phone_id, []).append(trend)
    places = {run_id: nth for nth, (run_id, _) in enumerate(runs)}
    return tuple(
        chart for group in by_phone.values() if (chart := _chart(group, places, [date for _, date in runs])) is not None
    )


def _chart(trends: Sequence[Trend], places: Mapping[str, int], dates: Sequence[str]) -> HistoryChart | None:
    shown = sorted(
        ((trend, series) for trend in trends for series in trend.series if _is_drawn(series)),
        key=lambda pair: (not pair[1].moved, -pair[1].worst),
    )
    if not shown:
        return None
    moved = sum(series.moved for _, series in shown)
    drawn = shown[:LINES]
    bases = [_first_level(series) for _, series in drawn]
    scale = _Scale(
        [point.value / base for (_, series), base in zip(drawn, bases, strict=True) for point in series.points],
        len(dates),
    )
    lines = tuple(_line(trend, series, base, places, scale) for (trend, series), base in zip(drawn, bases, strict=True))
    says = f"{trends[0].phone}: {plural(moved, 'figure')} changed or drifting in {plural(len(dates), 'run')}."
    return HistoryChart(trends[0].phone, moved, lines, len(shown) - len(drawn), scale.runs(dates), scale.ratios(), says)


def _first_level(series: Series) -> float:
    """Return the median of the runs before the first change, which is 100 %."""
    end = series.points.index(series.changes[0].after) if series.changes else len(series.points)
    return statistics.median(point.value for point in series.points[:end])


def _is_drawn(series: Series) -> bool:
    """Whether a line is worth its place: what moved, and what cells are about."""
    return series.moved or series.figure.main


class _Scale:
    """From run and ratio to a place in the picture."""

    def __init__(self, ratios: Sequence[float], runs: int) -> None:
        low, high = min(*ratios, 1 - _LEAST_SPAN), max(*ratios, 1 + _LEAST_SPAN)
        wide = next((step for step in _STEPS if (high - low) / step <= _TICKS), _STEPS[-1])
        self._step = wide
        self._low, self._high = math.floor(low / wide) * wide, math.ceil(high / wide) * wide
        self._count = runs

    def x(self, place: float) -> float:
        return round(_LEFT + (WIDTH - _LEFT - _RIGHT) * (place + 0.5) / self._count, 1)

    def y(self, ratio: float) -> float:
        share = (min(max(ratio, self._low), self._high) - self._low) / (self._high - self._low)
        return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * share, 1)

    def runs(self, dates: Sequence[str]) -> tuple[Tick, ...]:
        every = max(1, math.ceil(len(dates) / _DATES))
        return tuple(Tick(self.x(nth), date) for nth, date in enumerate(dates) if nth % every == 0)

    def ratios(self) -> tuple[Tick, ...]:
        count = round((self._high - self._low) / self._step)
        values = [self._low + nth * self._step for nth in range(count + 1)]
        return tuple(Tick(self.y(value), f"{value:.0%}".replace("%", " %")) for value in values)


def _line(trend: Trend, series: Series, base: float, places: Mapping[str, int], scale: _Scale) -> Line:
    gone = sorted(places[gap.run_id] for gap in series.gaps)
    dots = tuple(
        _dot(series, point, places[point.run_id], base, scale, stray=nth in series.strays)
        for nth, point in enumerate(series.points)
    )
    marks = tuple(
        Mark(
            scale.x((places[change.before.run_id] + places[change.after.run_id]) / 2),
            change_in_words(change.ratio),
            change.worse,
            f"{change.before.run_id} to {change.after.run_id}",
        )
        for change in series.changes
    )
    gaps = tuple(Tick(scale.x(places[gap.run_id]), f"{gap.run_id}: {gap.why}") for gap in series.gaps)
    label = f"{series.figure.name}, {trend.configuration}"
    return Line(label, tuple(_paths(series.points, gone, places, dots)), dots, marks, gaps)


def _dot(series: Series, point: Point, place: int, base: float, scale: _Scale, *, stray: bool) -> Dot:
    low, high = (None, None) if point.interval is None else point.interval
    said = f"{point.run_id}: {amount(series.figure, point.value)}"
    if low is not None and high is not None:
        said += f" ({amount(series.figure, low)} to {amount(series.figure, high)})"
    return Dot(
        scale.x(place),
        scale.y(point.value / base),
        None if low is None else scale.y(low / base),
        None if high is None else scale.y(high / base),
        stray,
        said,
    )


def _paths(
    points: Sequence[Point], gone: Sequence[int], places: Mapping[str, int], dots: Sequence[Dot]
) -> Iterable[str]:
    """Yield the stretches between refused runs, as an SVG polyline wants them."""
    stretch: list[str] = []
    left = list(gone)
    for point, dot in zip(points, dots, strict=True):
        broken = False
        while left and left[0] < places[point.run_id]:
            left.pop(0)
            broken = True
        if broken and stretch:
            yield " ".join(stretch)
            stretch = []
        stretch.append(f"{dot.x},{dot.y}")
    if stretch:
        yield " ".join(stretch)
