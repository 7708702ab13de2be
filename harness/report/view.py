"""What the page shows, worked out from the records: the template only lays it out. Pure."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from harness.core.reasons import Fault, Reason, Verdict
from harness.report.advice import ADVICE, WHOSE
from harness.report.besides import Remark, known_cause, remarks, warning_codes
from harness.report.cells import (
    VERDICTS,
    Figure,
    Notes,
    backend_label,
    cell_label,
    extras,
    lengths_label,
    numerics_label,
    of_verdict,
    value_at,
    why_unknown,
)
from harness.report.columns import Kinds
from harness.report.limits import share_of_roof
from harness.report.tensor_figures import accuracy_figure, latency_figure
from harness.report.tensors import is_tensor
from harness.report.text import celsius, distinct, mebibytes, number, percent
from harness.store.schema import CellRecord, Finding, Speed

_SAFE_RAW: Final = re.compile(r"(?!.*(?:^|/)\.\.(?:/|$))raw/[\w./ -]+")
# Product first: that is what a release waits for.
_FAULT_ORDER: Final = (Fault.PRODUCT, Fault.CONFIG, Fault.HARNESS, Fault.INFRA)


@dataclass(frozen=True)
class Row:
    """One cell in its phone's table. ``unmeasured`` replaces the figures of a cell that has none."""

    record: CellRecord
    backend: str
    moved: bool
    numerics: str
    lengths: str
    extras: tuple[str, ...]
    figures: tuple[Figure, ...]
    unmeasured: Figure | None
    max_c: Figure
    says: str
    warnings: tuple[str, ...]
    proof: Figure
    raw: str | None
    no_raw: Figure | None

    @property
    def refused(self) -> bool:
        """Whether its figures are evidence only."""
        return self.record.verdict is not Verdict.OK


@dataclass(frozen=True)
class PhoneTable:
    """The cells of one phone."""

    anchor: str
    name: str
    rows: tuple[Row, ...]
    notes: dict[str, list[str]]
    remarks: tuple[Remark, ...]


@dataclass(frozen=True)
class PhoneHead:
    """What stands above the cells of one phone; ``counts`` are (verdict, how many)."""

    anchor: str
    name: str
    about: str
    counts: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Trouble:
    """Cells that share reason and detail, over phones; ``known`` is the first cause that their logs show."""

    reason: Reason
    detail: str
    whose: str
    advice: str
    cells: tuple[tuple[str, str], ...]
    known: Finding | None = None

    @property
    def phones(self) -> list[str]:
        """Names of the phones it happened on."""
        return distinct(phone for phone, _ in self.cells)


@dataclass(frozen=True)
class Spoken:
    """What one cell said beside how fast it said it."""

    label: str
    record: CellRecord
    speed: Figure
    all_right: bool | None


def raw_link(raw: str | None, base: str) -> str | None:
    """Return a relative link to a raw folder, or ``None`` when the record's path is not one below ``raw/``."""
    if raw is None or not _SAFE_RAW.fullmatch(raw):
        return None
    return quote(posixpath.join(base, raw))


def phone_head(anchor: str, name: str, group: Sequence[CellRecord]) -> PhoneHead:
    """Return the head of one phone's part."""
    return PhoneHead(anchor, name, _about(group[0]), tuple(counts(group)))


def _about(record: CellRecord) -> str:
    phone = record.phone
    return " · ".join(part for part in (phone.model, phone.soc, f"{phone.tier} tier", phone.context) if part)


def phone_table(anchor: str, name: str, group: Sequence[CellRecord], raw_base: str, kinds: Kinds) -> PhoneTable:
    """Return the table of one phone's cells; ``kinds`` says which columns the run has."""
    notes = Notes()
    rows = tuple(_row(record, notes, raw_base, kinds) for record in group)
    return PhoneTable(anchor, name, rows, notes.fields_by_why, remarks(group))


def _row(record: CellRecord, notes: Notes, raw_base: str, kinds: Kinds) -> Row:
    actual = record.backend.actual if record.backend else None
    measured = record.metrics is not None
    raw = raw_link(record.raw, raw_base)
    return Row(
        record=record,
        backend=backend_label(record),
        moved=actual not in (None, record.config.backend),
        numerics=numerics_label(record),
        lengths=lengths_label(record),
        extras=tuple(extras(record)),
        figures=_figures(record, notes, kinds) if measured else (),
        unmeasured=None if measured else notes.unknown("all figures", why_unknown(record, "metrics", "metrics")),
        max_c=_figure(record, notes, "max °C", "thermal", "max_c", celsius),
        says=record.why.says if record.why else "",
        warnings=tuple(warning_codes(record)),
        proof=_proof(record, notes),
        raw=raw,
        no_raw=None if raw else notes.unknown("raw files", _why_no_raw(record)),
    )


def _why_no_raw(record: CellRecord) -> str:
    return "the recorded path is not one below raw/" if record.raw else why_unknown(record, "raw", "raw")


def _figures(record: CellRecord, notes: Notes, kinds: Kinds) -> tuple[Figure, ...]:
    return tuple(_FIGURES[column.key](record, notes) for column in kinds.columns)


def _figure(
    record: CellRecord, notes: Notes, what: str, section: str, path: str, show: Callable[[float], str]
) -> Figure:
    value = value_at(record, section, path)
    if value is None:
        return notes.unknown(what, why_unknown(record, section, path))
    return Figure(show(value))


def _ttft(record: CellRecord, notes: Notes) -> Figure:
    latency = value_at(record, "metrics", "ttft_ms")
    if latency is None:
        return notes.unknown("TTFT", why_unknown(record, "metrics", "ttft_ms"))
    p90 = (
        f"p90 {number(latency.p90)}"
        if latency.p90 is not None
        else f"p90 not known: {why_unknown(record, 'metrics', 'ttft_ms.p90')}"
    )
    span = f"{number(latency.min)} to {number(latency.max)} ms in {latency.n} runs; {p90}"
    return Figure(number(latency.p50), title=span)


def _load(record: CellRecord, notes: Notes) -> Figure:
    """The load with warm caches; beside it the first one, which is what people feel."""
    load_ms = value_at(record, "metrics", "load_ms")
    if load_ms is None:
        return notes.unknown("load", why_unknown(record, "metrics", "load_ms"))
    cold_ms, first_use_ms = (value_at(record, "metrics", name) for name in ("load_cold_ms", "first_use_ms"))
    if cold_ms is None or first_use_ms is None:
        return Figure(
            number(load_ms), title=f"caches warm; cold not known: {why_unknown(record, 'metrics', 'load_cold_ms')}"
        )
    first = f"first use, caches cold: load {number(cold_ms)} ms, first token after {number(first_use_ms)} ms"
    return Figure(number(load_ms), below=f"cold {number(cold_ms)}", title=f"caches warm; {first}")


def _speed(record: CellRecord, notes: Notes, what: str, path: str) -> Figure:
    speed: Speed | None = value_at(record, "metrics", path)
    if speed is None:
        return notes.unknown(what, why_unknown(record, "metrics", path))
    parts = [f"median of {speed.n}", f"MAD {number(speed.mad)}"]
    for name, text in (
        ("cv", None if speed.cv is None else f"cv {percent(speed.cv)}"),
        ("ci95", None if speed.ci95 is None else f"95 % interval {number(speed.ci95[0])} to {number(speed.ci95[1])}"),
    ):
        parts.append(text or f"{name} not known: {why_unknown(record, 'metrics', f'{path}.{name}')}")
    if path == "decode_tps":
        parts.append(share_of_roof(record))
    return Figure(number(speed.median), spread=f"± {number(speed.mad)}", title="; ".join(parts))


_FIGURES: Final[dict[str, Callable[[CellRecord, Notes], Figure]]] = {
    "ttft": _ttft,
    "prefill": lambda record, notes: _speed(record, notes, "prefill", "prefill_tps"),
    "decode": lambda record, notes: _speed(record, notes, "decode", "decode_tps"),
    "latency": lambda record, notes: latency_figure(record, notes, "p50"),
    "latency_p90": lambda record, notes: latency_figure(record, notes, "p90"),
    "cosine": accuracy_figure,
    "load": _load,
    "rss": lambda record, notes: _figure(record, notes, "peak RSS", "metrics", "peak_rss_bytes", mebibytes),
    "free": lambda record, notes: _figure(
        record, notes, "least free memory", "metrics", "min_available_bytes", mebibytes
    ),
}


def _proof(record: CellRecord, notes: Notes) -> Figure:
    if record.backend is None:
        return notes.unknown("proof of backend", why_unknown(record, "backend", "backend"))
    return Figure(record.backend.strength, title=record.backend.proof)


def troubles(records: Sequence[CellRecord], labels: dict[str, str], *verdicts: Verdict) -> list[Trouble]:
    """Group the cells of ``verdicts`` by reason and detail: product first, then by how many there are."""
    groups: dict[tuple[Reason, str], list[CellRecord]] = {}
    for record in of_verdict(records, *verdicts):
        if record.why is not None:
            groups.setdefault((record.why, record.detail), []).append(record)
    found = []
    for (reason, detail), group in groups.items():
        known = next((cause for record in group if (cause := known_cause(record)) is not None), None)
        advice = ADVICE[reason] if known is None else known.advice
        cells = tuple((labels[record.phone.id], cell_label(record)) for record in group)
        found.append(Trouble(reason, detail, WHOSE[reason.fault], advice, cells, known))
    return sorted(found, key=lambda each: (_FAULT_ORDER.index(each.reason.fault), -len(each.cells)))


def refusals(records: Sequence[CellRecord]) -> list[tuple[Reason, str, str, list[CellRecord]]]:
    """Return (reason, whose fault, advice, cells) for all that is not ok, in the order of verdicts."""
    groups: dict[Reason, list[CellRecord]] = {}
    for verdict in VERDICTS[1:]:
        for record in of_verdict(records, verdict):
            if record.why is not None:
                groups.setdefault(record.why, []).append(record)
    return [(reason, WHOSE[reason.fault], ADVICE[reason], cells) for reason, cells in groups.items()]


def counts(records: Sequence[CellRecord]) -> list[tuple[str, int]]:
    """Return (verdict, how many), without those that did not occur."""
    found = Counter(record.verdict for record in records)
    return [(verdict.value, found[verdict]) for verdict in VERDICTS if found[verdict]]


def spoken(group: Sequence[CellRecord]) -> list[Spoken]:
    """Return what the ``ok`` and ``rejected`` cells of a phone said, fastest first: fast and wrong comes to the top."""
    cells = [
        record
        for record in of_verdict(group, Verdict.OK, Verdict.REJECTED)
        if record.output is not None and not is_tensor(record)
    ]
    cells.sort(key=lambda record: -(value_at(record, "metrics", "decode_tps.median") or 0.0))
    return [_spoken(record) for record in cells]


def _spoken(record: CellRecord) -> Spoken:
    answers = record.output.answers if record.output else ()
    right = all(answer.right for answer in answers) if answers else None
    return Spoken(cell_label(record), record, _speed(record, Notes(), "decode", "decode_tps"), right)
