"""Many runs of the same phones: a trend per phone and configuration, with its changes and what may have caused them.

Only ``ok`` records give points; what was refused is a gap with its reason. Pure: no file is read here.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.core.reasons import Verdict
from harness.report.cells import cell_label, phone_labels, value_at, why_unknown
from harness.report.history_causes import Circumstances, Difference, circumstances_of, differences
from harness.report.history_changes import Course, Found, changes_of
from harness.report.text import one_line
from harness.store.head import RunInfo
from harness.store.schema import CellConfig, CellRecord

_ID_DIGITS: Final = 6
# Everything that was asked of the engine; its own keys, a table, are not hashable and are put beside.
_ASKED: Final = operator.attrgetter(*(name for name in CellConfig.model_fields if name != "engine"))


@dataclass(frozen=True)
class Figure:
    """A figure that is followed from run to run; ``section`` and ``path`` are where a record has it.

    ``kinds`` are those of cells that have it, ``main`` whether such a cell is about it.
    """

    name: str
    unit: str
    section: str
    path: str
    higher_is_better: bool = True
    kinds: frozenset[str] = frozenset({"burst", "sustained"})
    main: bool = False


FIGURES: Final = (
    Figure("decode", "tok/s", "metrics", "decode_tps.median", main=True),
    Figure("latency", "ms", "metrics", "latency_ms.p50", False, frozenset({"tensor"}), main=True),
    Figure("prefill", "tok/s", "metrics", "prefill_tps.median"),
    Figure("TTFT", "ms", "metrics", "ttft_ms.p50", higher_is_better=False),
    Figure("peak memory", "bytes", "metrics", "peak_rss_bytes", False, frozenset({"burst", "sustained", "tensor"})),
    Figure("sustained ratio", "", "thermal", "sustained_ratio"),
)


@dataclass(frozen=True)
class Point:
    """The figure in one run: its median, 95 % interval and number of samples where they are known, and how it was."""

    run_id: str
    started: str
    value: float
    interval: tuple[float, float] | None
    n: int | None
    about: Circumstances


@dataclass(frozen=True)
class Gap:
    """A run that has the cell and gives no point, and why."""

    run_id: str
    started: str
    why: str


@dataclass(frozen=True)
class ChangePoint:
    """The figure changed between two runs.

    ``ratio`` is the level after over the level before; ``differs`` is what else is different, likeliest cause first.
    """

    before: Point
    after: Point
    ratio: float
    worse: bool
    differs: tuple[Difference, ...]


@dataclass(frozen=True)
class Series:
    """One figure of one trend, oldest run first. ``total`` is what all changes or the drift add up to."""

    figure: Figure
    points: tuple[Point, ...]
    gaps: tuple[Gap, ...]
    course: Course
    changes: tuple[ChangePoint, ...] = ()
    strays: tuple[int, ...] = ()
    total: float = 1.0

    @property
    def worst(self) -> float:
        """By how much it got worse in the worst of its changes, as a logarithm; below 0: it only got better."""
        sign = -1 if self.figure.higher_is_better else 1
        ratios = [self.total] if self.course == "drift" else [change.ratio for change in self.changes]
        return max((sign * math.log(ratio) for ratio in ratios), default=0.0)

    @property
    def moved(self) -> bool:
        """Whether it changed or drifts."""
        return self.course in ("changed", "drift")


@dataclass(frozen=True)
class Trend:
    """One configuration on one phone over all runs. ``series`` is empty where it never was ``ok``."""

    phone_id: str
    phone: str
    configuration: str
    series: tuple[Series, ...]
    gaps: tuple[Gap, ...]

    @property
    def moved(self) -> bool:
        """Whether any figure changed or drifts."""
        return any(series.moved for series in self.series)

    @property
    def worst(self) -> float:
        """The worst change of any of its figures, as :attr:`Series.worst`."""
        return max((series.worst for series in self.series if series.moved), default=0.0)


@dataclass
class _Cells:
    """The same cell in several runs, as it is gathered."""

    name: str
    points: dict[str, list[Point]] = field(default_factory=dict)
    missing: dict[str, list[Gap]] = field(default_factory=dict)
    refused: list[Gap] = field(default_factory=list)


def trends_of(runs: Iterable[tuple[RunInfo, Iterable[CellRecord]]]) -> tuple[Trend, ...]:
    """Return the trends of these runs, worst change first.

    A trend follows phone, model name, runner and everything asked of the engine, while engine, binaries, content of the
    model, Android and this program may change. Runs may come in any order and are gone through once.
    """
    gathered: dict[tuple[Any, ...], _Cells] = {}
    latest: dict[str, tuple[tuple[str, str], CellRecord]] = {}
    for info, records in runs:
        seen: set[tuple[Any, ...]] = set()
        when = (info.started, info.run_id)
        for record in records:
            if record.phone.id not in latest or latest[record.phone.id][0] <= when:
                latest[record.phone.id] = (when, record)
            key = _key(record)
            beside = f" · {one_line(record.bundle.name)}" if key in seen else ""
            # A run that compares two builds has the cell twice: the second build is a trend of its own.
            key = (*key, record.bundle.name) if beside else key
            seen.add(key)
            cells = gathered.get(key)
            if cells is None:
                cells = gathered[key] = _Cells(_name(record) + beside)
            _add(cells, info, record)
    phones = phone_labels(record for _, record in latest.values())
    same = Counter((key[0], cells.name) for key, cells in gathered.items())
    trends = [
        _trend(key[0], phones[key[0]], _told_apart(key, cells, same[key[0], cells.name]), cells)
        for key, cells in gathered.items()
    ]
    return tuple(sorted(trends, key=lambda trend: (not trend.moved, -trend.worst)))


def _key(record: CellRecord) -> tuple[Any, ...]:
    engine = frozenset(record.config.engine.items())
    return (record.phone.id, record.model.name, record.bundle.runner, engine, *_ASKED(record.config))


def _name(record: CellRecord) -> str:
    """Return the cell's name without what belongs to one attempt."""
    return cell_label(record.model_copy(update={"attempt": 1, "planned_phone": None, "backend": None}))


def _told_apart(key: tuple[Any, ...], cells: _Cells, count: int) -> str:
    """Return the cell's name; where others of this phone have the same one, with a hash of all that was asked."""
    if count == 1:
        return cells.name
    asked = repr((*key[1:3], sorted(map(repr, key[3])), *key[4:]))
    return f"{cells.name} · {hashlib.sha256(asked.encode()).hexdigest()[:_ID_DIGITS]}"


def _add(cells: _Cells, info: RunInfo, record: CellRecord) -> None:
    if record.verdict is not Verdict.OK:
        cells.refused.append(Gap(info.run_id, info.started, f"{record.verdict.value}: {record.reason}"))
        return
    about = circumstances_of(record)
    for figure in FIGURES:
        if record.config.kind not in figure.kinds:
            continue
        value = value_at(record, figure.section, figure.path)
        if value is None or value <= 0:
            why = f"{figure.name} is {value}" if value is not None else why_unknown(record, figure.section, figure.path)
            cells.missing.setdefault(figure.name, []).append(Gap(info.run_id, info.started, why))
        else:
            interval, n = _spread(record, figure)
            point = Point(info.run_id, info.started, float(value), interval, n, about)
            cells.points.setdefault(figure.name, []).append(point)


def _spread(record: CellRecord, figure: Figure) -> tuple[tuple[float, float] | None, int | None]:
    section, _, part = figure.path.partition(".")
    if not part:
        return None, None
    held = value_at(record, figure.section, section)
    return getattr(held, "ci95", None), held.n


def _by_time(each: Point | Gap) -> tuple[str, str]:
    return each.started, each.run_id


def _trend(phone_id: str, phone: str, name: str, cells: _Cells) -> Trend:
    refused = sorted(cells.refused, key=_by_time)
    series = tuple(
        _series(figure, points, [*refused, *cells.missing.get(figure.name, [])])
        for figure in FIGURES
        if (points := cells.points.get(figure.name))
    )
    return Trend(phone_id, phone, name, series, tuple(refused))


def _series(figure: Figure, unsorted: Sequence[Point], gaps: Sequence[Gap]) -> Series:
    points = sorted(unsorted, key=_by_time)
    found = changes_of([point.value for point in points], [_relative_error(point) for point in points])
    changes = tuple(_change_points(figure, points, found))
    gone = tuple(sorted(gaps, key=_by_time))
    return Series(figure, tuple(points), gone, found.course, changes, found.strays, found.total)


def _relative_error(point: Point) -> float | None:
    return None if point.interval is None else (point.interval[1] - point.interval[0]) / 2 / point.value


def _change_points(figure: Figure, points: Sequence[Point], found: Found) -> Iterable[ChangePoint]:
    kept = [None if place in found.strays else point for place, point in enumerate(points)]
    edges = [0, *(step.at for step in found.steps), len(points)]
    sides = [[point for point in kept[start:end] if point is not None] for start, end in itertools.pairwise(edges)]
    for step, (before, after) in zip(found.steps, itertools.pairwise(sides), strict=True):
        worse = (step.ratio < 1) is figure.higher_is_better
        differs = differences([point.about for point in before], [point.about for point in after])
        yield ChangePoint(before[-1], after[0], step.ratio, worse, differs)
