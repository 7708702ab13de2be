"""The figures that are compared from run to run, and where they stand in a record. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from harness.report.cells import value_at
from harness.report.change import Change, change_of
from harness.report.tensors import is_tensor, ms_text
from harness.report.text import mebibytes, number
from harness.store.schema import CellRecord, Sample

# From so many turns of an interleaved run on each counts as one value: all that differs between turns is in it.
_ENOUGH_TURNS: Final = 3
# A change by less than so many times an assumed spread is no change: its interval alone is nearly three times as wide.
_OF_ASSUMED: Final = 4


@dataclass(frozen=True)
class Measure:
    """A figure of a record.

    Attributes:
        name: as JSON documents call it.
        title: for people.
        show: writes a value with its unit.
        higher_is_better: speeds; ``False`` for times and sizes.
        one: the figure that the record publishes.
        repeats: the values that it was made from; ``None`` where a run has one value.
        assumed_cv: of a figure with one value a run: by how much it is taken to differ between runs that nothing
            changed between (standard deviation ÷ mean), where no history tells.
        warm: whether a phone's temperature and clock decide it.
    """

    name: str
    title: str
    show: Callable[[float], str]
    higher_is_better: bool
    one: Callable[[CellRecord], float | None]
    repeats: Callable[[CellRecord], list[float | None]] | None = None
    assumed_cv: float | None = None
    warm: bool = True

    def values(self, records: Sequence[CellRecord]) -> list[float | None]:
        """Return what is compared of one side: the repeats of its attempt, or one value of each of several turns."""
        if self.repeats is None or len(records) >= _ENOUGH_TURNS:
            return [self.one(record) for record in records]
        return [value for record in records for value in self.repeats(record)]


def _timed(record: CellRecord) -> list[Sample]:
    """Return the generations that figures are made from: of a sustained cell those in its last quarter."""
    timed = [sample for sample in record.samples if sample.kind == "timed"]
    if record.config.kind != "sustained":
        return timed
    counted = value_at(record, "metrics", "decode_tps.n")
    return timed[-counted:] if counted else []


def _prefill(sample: Sample) -> float | None:
    if not sample.prefill_ms or sample.prompt_tokens < 1:
        return None
    return sample.prompt_tokens / sample.prefill_ms * 1000


def _at(section: str, path: str) -> Callable[[CellRecord], float | None]:
    def read(record: CellRecord) -> float | None:
        value = value_at(record, section, path)
        return None if value is None else float(value)

    return read


def _unit(unit: str) -> Callable[[float], str]:
    return lambda value: f"{number(value)} {unit}".rstrip()


DECODE: Final = Measure(
    "decode_tps", "decode", _unit("tok/s"), True, _at("metrics", "decode_tps.median"),
    lambda record: [sample.decode_tps for sample in _timed(record)],
)  # fmt: skip
LATENCY: Final = Measure(
    "latency_ms", "latency", lambda value: f"{ms_text(value)} ms", False, _at("metrics", "latency_ms.p50"),
    lambda record: [sample.latency_ms for sample in _timed(record)],
)  # fmt: skip
# What a cell is about: one of these is told even where it did not change.
MAIN: Final = frozenset({DECODE.name, LATENCY.name})
MEASURES: Final = (
    DECODE,
    LATENCY,
    Measure(
        "prefill_tps", "prefill", _unit("tok/s"), True, _at("metrics", "prefill_tps.median"),
        lambda record: [_prefill(sample) for sample in _timed(record)],
    ),
    Measure(
        "ttft_ms", "TTFT", _unit("ms"), False, _at("metrics", "ttft_ms.p50"),
        lambda record: [sample.ttft_ms for sample in _timed(record)],
    ),
    # A load reads files and starts threads: it differs by this much where nothing was done to it.
    Measure("load_ms", "load", _unit("ms"), False, _at("metrics", "load_ms"), assumed_cv=0.1),
    Measure(
        "peak_rss_bytes", "peak memory", mebibytes, False, _at("metrics", "peak_rss_bytes"), assumed_cv=0.02, warm=False
    ),
    Measure("sustained_ratio", "sustained ratio", _unit(""), True, _at("thermal", "sustained_ratio"), assumed_cv=0.05),
)  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A figure on both sides. ``base`` and ``new`` are for people, with their unit and empty where unknown.

    ``values`` are the same for programs: of a score the share of right answers.
    """

    name: str
    title: str
    base: str
    new: str
    change: Change
    note: str = ""
    values: tuple[float | None, float | None] = (None, None)

    @property
    def worse(self) -> bool:
        """Whether it got worse, provably."""
        return self.change.verdict == "slower"


def main_measure(record: CellRecord) -> Measure:
    """Return what a cell is about: decode speed, or the latency of a model that is no language model."""
    return LATENCY if is_tensor(record) else DECODE


def figure_of(
    measure: Measure,
    base: Sequence[CellRecord],
    new: Sequence[CellRecord],
    bound: float,
    between_cv: float | None = None,
) -> Figure | None:
    """Compare one figure of two sides; ``None`` where neither has it."""
    repeats = [measure.values(side) for side in (base, new)]
    if not any(value is not None for side in repeats for value in side):
        return None
    note, cv = "", between_cv
    if cv is None and measure.assumed_cv is not None and min(len(base), len(new)) < _ENOUGH_TURNS:
        cv = measure.assumed_cv
        bound = max(bound, _OF_ASSUMED * cv)
        note = (
            f"one value a run, taken to differ by {cv * 100:.2g} % from run to run: below {bound * 100:.2g} % is none"
        )
    change = change_of(*repeats, bound=bound, higher_is_better=measure.higher_is_better, between_cv=cv)
    then, now = (middle_of([measure.one(record) for record in side]) for side in (base, new))
    return figure_with(measure, then, now, change, note)


def figure_with(measure: Measure, base: float | None, new: float | None, change: Change, note: str = "") -> Figure:
    """Return a figure with its values as people and as programs read them."""
    then, now = ("" if value is None else measure.show(value) for value in (base, new))
    return Figure(measure.name, measure.title, then, now, change, note, (base, new))


def middle_of(values: Sequence[float | None]) -> float | None:
    """Return the median of what is known."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    half = len(known) // 2
    return known[half] if len(known) % 2 else (known[half - 1] + known[half]) / 2


def loss_of(figure: Figure) -> float:
    """Return how much worse a figure is, as a share; negative when it is better."""
    ratio = figure.change.ratio
    if ratio is None:
        return 1.0 if figure.worse else 0.0
    higher = next((measure.higher_is_better for measure in MEASURES if measure.name == figure.name), True)
    return 1 - ratio if higher else 1 - 1 / ratio
