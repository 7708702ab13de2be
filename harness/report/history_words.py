"""Trends in words: amounts, changes, and the rows of the table. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from harness.report.history import ChangePoint, Figure, Gap, Series, Trend
from harness.report.history_causes import Difference
from harness.report.tensors import ms_text
from harness.report.text import mebibytes, number, plural


@dataclass(frozen=True)
class Moved:
    """A figure that changed or drifts: one row of the first table. ``since`` are run ids around each change."""

    phone: str
    configuration: str
    figure: str
    badge: str
    says: str
    was: str
    now: str
    changes: tuple[ChangePoint, ...]
    runs: str
    gaps: tuple[str, ...]


@dataclass(frozen=True)
class Quiet:
    """A figure that stayed the same, or has too few runs to tell."""

    phone: str
    configuration: str
    figure: str
    says: str
    level: str
    runs: str
    gaps: tuple[str, ...]


def amount(figure: Figure, value: float) -> str:
    """Return a value with its unit."""
    if figure.unit == "ms":
        return f"{ms_text(value)} ms"
    return mebibytes(value) if figure.unit == "bytes" else f"{number(value)} {figure.unit}".rstrip()


def change_in_words(ratio: float) -> str:
    """Return a ratio as a change: ``-12.3 %``, with a real minus sign."""
    change = (ratio - 1) * 100
    return f"{'−' if change < 0 else '+'}{abs(change):.1f} %"


def difference_in_words(difference: Difference) -> str:
    """Return e.g. ``engine version: 3.5.0 → 3.6.1``."""
    return f"{difference.what}: {difference.before} → {difference.after}"


def moved_rows(trends: Sequence[Trend]) -> tuple[Moved, ...]:
    """Return a row per figure that changed or drifts, worst first."""
    pairs = [(trend, series) for trend in trends for series in trend.series if series.moved]
    pairs.sort(key=lambda pair: (-pair[1].worst, -abs(math.log(pair[1].total))))
    return tuple(_moved(trend, series) for trend, series in pairs)


def _moved(trend: Trend, series: Series) -> Moved:
    figure, points = series.figure, series.points
    if series.course == "drift":
        says = f"drifts {change_in_words(series.total)} in {plural(len(points), 'run')}"
    else:
        says = ", then ".join(change_in_words(change.ratio) for change in series.changes)
    return Moved(
        trend.phone,
        trend.configuration,
        figure.name,
        "failed" if series.worst > 0 else "ok",
        says,
        amount(figure, points[0].value),
        amount(figure, points[-1].value),
        series.changes,
        plural(len(points), "run"),
        gaps_in_words(series.gaps),
    )


def quiet_rows(trends: Sequence[Trend]) -> tuple[Quiet, ...]:
    """Return a row per figure that did not move, and one per configuration that never was ``ok``."""
    rows = [_quiet(trend, series) for trend in trends for series in trend.series if not series.moved]
    rows += [
        Quiet(trend.phone, trend.configuration, "all", "never ok", "—", "0 runs", gaps_in_words(trend.gaps))
        for trend in trends
        if not trend.series
    ]
    return tuple(rows)


def _quiet(trend: Trend, series: Series) -> Quiet:
    strays = f", {plural(len(series.strays), 'stray run')}" if series.strays else ""
    level = amount(series.figure, statistics.median(point.value for point in series.points))
    return Quiet(
        trend.phone,
        trend.configuration,
        series.figure.name,
        series.course + strays,
        level,
        plural(len(series.points), "run"),
        gaps_in_words(series.gaps),
    )


def gaps_in_words(gaps: Sequence[Gap]) -> tuple[str, ...]:
    """Return which runs give no point, and why."""
    return tuple(f"{gap.run_id}: {gap.why}" for gap in gaps)
