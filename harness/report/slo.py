"""Whether a cell, or all that is known of a configuration, keeps what its phone's tier promises. Pure.

What is not known is ``unknown``: never met, and never missed either. No verdict comes of it: an ``ok`` cell that misses
its tier's SLO stays ``ok``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from harness.core.reasons import Verdict
from harness.plan.tiers import Slo, TensorSlo, TierRules
from harness.report.cells import why_unknown
from harness.report.recommend import Score, score_of_cell
from harness.report.tensors import Accuracy, accuracy_of, cosine_text, is_tensor, ms_text
from harness.report.text import distinct, listing, mebibytes, number, percent, plural
from harness.store.schema import CellRecord, Latency

# Its figures are ordered, not measured.
SYNTHETIC: Final = "synthetic"


class Figure(NamedTuple):
    """A figure that something is promised of; ``value`` is ``None`` for the reason ``note``, else that tells of it."""

    value: float | None
    note: str = ""


@dataclass(frozen=True)
class Missed:
    """A promise that is not kept, or, where ``got`` is ``None``, one not known; ``note`` tells of it, or why."""

    name: str
    wanted: float
    got: float | None
    note: str = ""

    @property
    def words(self) -> str:
        """All of it in words."""
        promise = _BY_NAME[self.name]
        bound = f"{'at most' if promise.most else 'at least'} {promise.show(self.wanted)} is promised"
        if self.got is None:
            return f"{promise.words} not known ({self.note}); {bound}"
        note = f" ({self.note})" if self.note else ""
        return f"{promise.words} {promise.show(self.got)}{note}; {bound}"


@dataclass(frozen=True)
class Judgement:
    """What became of the promises that could be looked at: names of those kept, and the others."""

    met: tuple[str, ...] = ()
    missed: tuple[Missed, ...] = ()
    unknown: tuple[Missed, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether every promise is proven to be kept."""
        return not self.missed and not self.unknown


class _Promise(NamedTuple):
    """A promise by its name in the SLO: in words, how it is shown, and whether it is a ceiling."""

    name: str
    words: str
    show: Callable[[float], str]
    most: bool = False


def unknowns_in_words(unknown: Iterable[Missed]) -> str:
    """Return what is not known, and why; what has one reason shares it."""
    names_by_why: dict[str, list[str]] = {}
    for line in unknown:
        names_by_why.setdefault(line.note, []).append(_BY_NAME[line.name].words)
    return "; ".join(f"{listing(distinct(names))} ({why})" for why, names in names_by_why.items())


def _ms(value: float) -> str:
    return f"{ms_text(value)} ms"


def _tps(value: float) -> str:
    return f"{number(value)} tok/s"


PROMISES: Final = (
    _Promise("ttft_ms", "time to first token", _ms, most=True),
    _Promise("decode_tps", "decode speed", _tps),
    _Promise("sustained_ratio", "sustained over burst speed", number),
    _Promise("ram_share_max", "share of the phone's RAM at the peak", percent, most=True),
    _Promise("min_available_bytes", "least free memory of the phone", mebibytes),
    _Promise("golden", "share of right answers", percent),
)
TENSOR_PROMISES: Final = (
    _Promise("latency_ms", "latency", _ms, most=True),
    _Promise("cosine", "cosine similarity", cosine_text),
    _Promise("same_positions", "share of decisions that stay the same", percent),
    _Promise("same_top1", "share of samples that decide the same", percent),
    *(promise for promise in PROMISES if promise.name in ("ram_share_max", "min_available_bytes")),
)
_BY_NAME: Final = {promise.name: promise for promise in (*PROMISES, *TENSOR_PROMISES)}
CEILINGS: Final = frozenset(promise.name for promise in _BY_NAME.values() if promise.most)
"""The promises of which less is better."""


def promises_of(slo: Slo | TensorSlo) -> tuple[tuple[str, str], ...]:
    """Return the promises that are made, each by its name and in words, e.g. ``decode speed at least 10.0 tok/s``."""
    known = TENSOR_PROMISES if isinstance(slo, TensorSlo) else PROMISES
    return tuple(
        (promise.name, f"{promise.words} {'at most' if promise.most else 'at least'} {promise.show(wanted)}")
        for promise in known
        if (wanted := getattr(slo, promise.name)) is not None
    )


def judge(figures: Mapping[str, Figure], slo: Slo | TensorSlo) -> Judgement:
    """Hold figures against the promises that are made of them; a promise without its figure is not looked at."""
    met, missed, unknown = [], [], []
    for promise in TENSOR_PROMISES if isinstance(slo, TensorSlo) else PROMISES:
        wanted, got = getattr(slo, promise.name), figures.get(promise.name)
        if wanted is None or got is None:
            continue
        if got.value is None:
            unknown.append(Missed(promise.name, wanted, None, got.note))
        elif got.value <= wanted if promise.most else got.value >= wanted:
            met.append(promise.name)
        else:
            missed.append(Missed(promise.name, wanted, got.value, got.note))
    return Judgement(tuple(met), tuple(missed), tuple(unknown))


def figures_of(record: CellRecord) -> dict[str, Figure]:
    """Return the figures of a cell that something may be promised of: its kind says which."""
    return {name: found for name, read in _OF_KIND[record.config.kind] if (found := read(record)) is not None}


def golden_figure(score: Score | None) -> Figure:
    """Return a score in a golden set as a figure."""
    return Figure(None, "it was asked no golden set") if score is None else Figure(score.share, f"{score} right")


def _golden(record: CellRecord) -> Figure:
    output = record.output
    return golden_figure(score_of_cell(record) if output is not None and output.golden_set else None)


def _decode(record: CellRecord) -> Figure:
    speed = record.metrics.decode_tps if record.metrics is not None else None
    return _unknown(record, "metrics", "decode_tps") if speed is None else Figure(speed.median)


def _sustained(record: CellRecord) -> Figure:
    ratio = record.thermal.sustained_ratio if record.thermal is not None else None
    return _unknown(record, "thermal", "sustained_ratio") if ratio is None else Figure(ratio)


def _free(record: CellRecord) -> Figure:
    free = record.metrics.min_available_bytes if record.metrics is not None else None
    return _unknown(record, "metrics", "min_available_bytes") if free is None else Figure(free)


def _unknown(record: CellRecord, section: str, path: str) -> Figure:
    return Figure(None, why_unknown(record, section, path))


def _ttft(record: CellRecord) -> Figure:
    """Return the 90th percentile; of too few samples the slowest, which is never below it."""
    return _slow(record, "ttft_ms", record.metrics.ttft_ms if record.metrics is not None else None)


def _latency(record: CellRecord) -> Figure:
    return _slow(record, "latency_ms", record.metrics.latency_ms if record.metrics is not None else None)


def _slow(record: CellRecord, path: str, latency: Latency | None) -> Figure:
    if latency is None:
        return _unknown(record, "metrics", path)
    if latency.p90 is not None:
        return Figure(latency.p90, f"p90 of {latency.n}")
    return Figure(latency.max, f"slowest of {latency.n}, too few for a p90")


def _kept(name: str) -> Callable[[CellRecord], Figure | None]:
    """Return what reads a figure of the accuracy kept.

    What quantising costs shows on real inputs only: over random ones nothing is known, unless every element of every
    output is as it was. An output without classes decides nothing, so nothing can be promised of its decisions.
    """

    def read(record: CellRecord) -> Figure | None:
        accuracy = accuracy_of(record)
        if accuracy is None:
            return _unknown(record, "output", "tensors")
        value: float | None = getattr(accuracy, name)
        if value is None:
            return Figure(None, "no sample could be compared") if name == "cosine" else None
        why_not = _why_no_accuracy(accuracy)
        return Figure(None, why_not) if why_not else Figure(value, f"over {accuracy.inputs}")

    return read


def _why_no_accuracy(accuracy: Accuracy) -> str:
    if accuracy.failed:
        return f"{accuracy.failed} of {plural(accuracy.samples, 'sample')} could not be compared"
    if not accuracy.real_inputs and not accuracy.exact:
        return "measured over random inputs, which says little: add real ones (models convert --samples DIR)"
    return ""


def _ram_share(record: CellRecord) -> Figure:
    peak = record.metrics.peak_rss_bytes if record.metrics is not None else None
    if peak is None:
        return _unknown(record, "metrics", "peak_rss_bytes")
    ram = record.phone.ram_bytes
    if not ram:
        return Figure(None, record.nulls.get("ram_bytes", "the record does not tell the phone's RAM"))
    return Figure(peak / ram, f"{mebibytes(peak)} of {mebibytes(ram)}")


_BOTH: Final = (("ram_share_max", _ram_share), ("min_available_bytes", _free), ("golden", _golden))
_OF_KIND: Final[dict[str, tuple[tuple[str, Callable[[CellRecord], Figure | None]], ...]]] = {
    "burst": (("ttft_ms", _ttft), ("decode_tps", _decode), *_BOTH),
    "sustained": (("sustained_ratio", _sustained), *_BOTH),
    "tensor": (
        ("latency_ms", _latency),
        *((name, _kept(name)) for name in ("cosine", "same_positions", "same_top1")),
        ("ram_share_max", _ram_share),
        ("min_available_bytes", _free),
    ),
}


def comparable(record: CellRecord, slo: Slo | TensorSlo) -> bool:
    """Whether a cell measured what the SLO speaks of, by a real engine, ok.

    Of language models that is its prompt length, with nothing before it.
    """
    config = record.config
    if record.verdict is not Verdict.OK or record.bundle.engine == SYNTHETIC:
        return False
    if isinstance(slo, TensorSlo):
        return is_tensor(record)
    return config.prompt_tokens == slo.prompt_tokens and config.context_tokens == 0


def missed(record: CellRecord, slo: Slo | TensorSlo) -> tuple[Missed, ...]:
    """Return the promises that an ``ok`` cell does not keep; none for a cell that is not comparable."""
    return judge(figures_of(record), slo).missed if comparable(record, slo) else ()


def slo_of(record: CellRecord, rules: TierRules) -> Slo | TensorSlo | None:
    """Return what its phone's tier promises of such a cell; ``None``: nothing."""
    tier = record.phone.tier
    return rules.tensor_slo.get(tier) if is_tensor(record) else rules.slo.get(tier)


def missed_of(record: CellRecord, rules: TierRules) -> tuple[Missed, ...]:
    """Return the promises of its phone's tier that an ``ok`` cell does not keep."""
    slo = slo_of(record, rules)
    return () if slo is None else missed(record, slo)
