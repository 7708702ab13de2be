"""Sustained cells in the report: burst → sustained speed, and curves of speed, heat and clock over time. Pure.

The curves are plain SVG in the page: they need no script, print as they are and follow the page's colours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from harness.core.reasons import Verdict
from harness.report.cells import Figure, Notes, cell_label, why_unknown
from harness.report.text import celsius, number, percent
from harness.store.schema import CellRecord, CurvePoint, Thermal

WIDTH: Final = 720
"""Of a picture, in the units of its viewBox."""
LEFT, RIGHT, TOP, PANEL, GAP, FOOT = 56, 12, 16, 84, 26, 34
_TICKS = 4


class Tick(NamedTuple):
    """A mark on an axis: where, and what it says."""

    at: float
    text: str


@dataclass(frozen=True)
class Panel:
    """One curve: ``lines`` are SVG points of its unbroken pieces, ``top`` and ``bottom`` its edges."""

    title: str
    top: float
    bottom: float
    ticks: tuple[Tick, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Soak:
    """One sustained cell: its figures for the table, and its picture where it has a curve."""

    record: CellRecord
    phone: str
    label: str
    figures: tuple[Figure, ...]
    says: str
    panels: tuple[Panel, ...]
    times: tuple[Tick, ...]
    onset: Tick | None
    height: float

    @property
    def refused(self) -> bool:
        """Whether its figures are evidence only."""
        return self.record.verdict is not Verdict.OK


@dataclass(frozen=True)
class Soaks:
    """The sustained cells of a run that have a thermal section, with the footnotes of their table.

    ``unlisted`` is how many more there are.
    """

    cells: tuple[Soak, ...]
    notes: dict[str, list[str]]
    unlisted: int = 0
    left: int = LEFT
    right: int = WIDTH - RIGHT
    width: int = WIDTH


def soaks(records: Sequence[CellRecord], labels: dict[str, str], *, at_most: int | None = None) -> Soaks:
    """Return what there is to show of the sustained cells among ``records``, of the first ``at_most`` of them."""
    notes = Notes()
    found = [(each, each.thermal) for each in records if each.config.kind == "sustained" and each.thermal is not None]
    shown = found[:at_most]
    cells = tuple(_soak(record, thermal, labels[record.phone.id], notes) for record, thermal in shown)
    return Soaks(cells, notes.fields_by_why, unlisted=len(found) - len(shown))


def _soak(record: CellRecord, thermal: Thermal, phone: str, notes: Notes) -> Soak:
    curve = thermal.curve
    wanted: tuple[tuple[str, Callable[[CurvePoint], float | None], bool], ...] = (
        ("decode, tok/s", lambda point: point.decode_tps, True),
        (f"{thermal.zone or 'temperature'}, °C", lambda point: point.celsius, False),
        ("clock, % of its top", lambda point: None if point.clock_ratio is None else 100 * point.clock_ratio, True),
    )
    shown = [(title, value, zero) for title, value, zero in wanted if any(value(point) is not None for point in curve)]
    end_s = max((point.t_s for point in curve), default=0.0) * 1.02 or 1.0
    panels = tuple(
        _panel(title, [(point.t_s, value(point)) for point in curve], end_s, TOP + nth * (PANEL + GAP), from_zero=zero)
        for nth, (title, value, zero) in enumerate(shown)
    )
    onset = thermal.onset_s
    return Soak(
        record=record,
        phone=phone,
        label=cell_label(record),
        figures=_figures(record, thermal, notes),
        says=in_words(thermal),
        panels=panels,
        times=tuple(Tick(_x(second, end_s), f"{second:g}") for second in ticks(0.0, end_s)),
        onset=None if onset is None or not panels else Tick(_x(onset, end_s), f"{number(onset)} s"),
        height=TOP + len(panels) * (PANEL + GAP) - GAP + FOOT,
    )


def in_words(thermal: Thermal) -> str:
    """Return what became of the speed, in one sentence."""
    if thermal.burst_tps is None or thermal.sustained_tps is None:
        return "Burst and sustained speed are not known."
    speeds = f"{number(thermal.burst_tps)} → {number(thermal.sustained_tps)} tok/s"
    ratio = "" if thermal.sustained_ratio is None else f" ({percent(thermal.sustained_ratio)})"
    judged = f", judged by {thermal.judged_by}" if thermal.judged_by else ""
    if thermal.throttled is None:
        return f"{speeds}{ratio}; whether it throttled is not known."
    if not thermal.throttled:
        return f"{speeds}{ratio}; it did not throttle{judged}."
    when = "" if thermal.onset_s is None else f" after {number(thermal.onset_s)} s"
    return f"{speeds}{ratio}; it throttled{when}{judged}."


def _figures(record: CellRecord, thermal: Thermal, notes: Notes) -> tuple[Figure, ...]:
    def figure(what: str, name: str, show: Callable[[float], str]) -> Figure:
        value = getattr(thermal, name)
        return notes.unknown(what, why_unknown(record, "thermal", name)) if value is None else Figure(show(value))

    return (
        figure("burst", "burst_tps", number),
        figure("sustained", "sustained_tps", number),
        figure("sustained ÷ burst", "sustained_ratio", percent),
        figure("onset", "onset_s", number),
        figure("start °C", "start_c", celsius),
        figure("max °C", "max_c", celsius),
        figure("lowest cap", "clock_ratio_min", percent),
        figure("thermal status", "status_max", lambda value: f"{value:g}"),
    )


def _panel(
    title: str, points: Sequence[tuple[float, float | None]], end_s: float, top: float, *, from_zero: bool
) -> Panel:
    known = [value for _, value in points if value is not None]
    low, high = (0.0 if from_zero else min(known)), max(known)
    if high - low < 1e-9 or (not from_zero and high - low < 2.0):
        low, high = (0.0, max(high, 1.0)) if from_zero else (low - 1.0, high + 1.0)
    marks = ticks(low, high)
    # Room above, so that a curve does not run into its title.
    low, high = min(low, marks[0]), max(high, marks[-1]) + 0.1 * (high - low)
    bottom = top + PANEL

    def y(value: float) -> float:
        return round(bottom - (value - low) / (high - low) * PANEL, 1)

    pieces: list[list[str]] = [[]]
    for second, value in points:
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{_x(second, end_s)},{y(value)}")
    lines = tuple(" ".join(piece if len(piece) > 1 else piece * 2) for piece in pieces if piece)
    return Panel(title, top, bottom, tuple(Tick(y(mark), f"{mark:g}") for mark in marks), lines)


def _x(second: float, end_s: float) -> float:
    return round(LEFT + second / end_s * (WIDTH - RIGHT - LEFT), 1)


def ticks(low: float, high: float) -> list[float]:
    """Return round values between ``low`` and ``high``, about four."""
    rough = max(high - low, 1e-9) / _TICKS
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 2.5, 5, 10) if factor * unit >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(step * count, 10) for count in range(first, max(first, last) + 1)]
