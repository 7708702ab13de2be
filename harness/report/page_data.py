"""All cells of a run as columns, for the page's script. Pure.

A hundred thousand cells have to fit in a page of a few megabytes: every text stands once in its column's list of words,
figures are rounded as :mod:`harness.report.text` shows them, so that a figure reads the same wherever it stands, and
the whole is compressed (:mod:`harness.report.page_assets`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.report.cells import backend_label, extras, lengths_label, numerics_label
from harness.report.columns import kinds_of
from harness.report.tensors import accuracy_of, latency_at
from harness.report.text import backend_name, cut, one_line, visible
from harness.report.view import raw_link
from harness.store.schema import CellRecord

# Cell ids are hashes: so many of their digits tell the cells of a run apart, and more where they do not.
_ID_DIGITS: Final = 12
_FULL_ID_DIGITS: Final = 64
_MIB: Final = 2**20
_KIBI: Final = 1024


@dataclass(frozen=True)
class Budget:
    """How much text goes into a page: characters of one text, and of all of a column.

    What is left out says so; it stands in ``results.jsonl`` and in the raw files.
    """

    one_text: int = 200_000
    column: int = 50_000_000


FULL: Final = Budget()
LARGE: Final = Budget(one_text=2_000, column=1_500_000)
"""For runs of many thousands of cells."""

_LEFT_OUT: Final = "not in this page, which would grow too large; it is in results.jsonl and in the raw files"


@dataclass
class _Words:
    """One column of texts: each different one once, made visible and cut."""

    budget: Budget
    words: list[str] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)
    _used: int = 0

    def add(self, text: str) -> None:
        place = self._places.get(text)
        if place is None:
            place = self._places[text] = self._place_of(cut(visible(text), self.budget.one_text))
        self.values.append(place)

    def _place_of(self, shown: str) -> int:
        if self._used + len(shown) > self.budget.column:
            if not self.words or self.words[-1] != _LEFT_OUT:
                self._used = self.budget.column
                self.words.append(_LEFT_OUT)
            return len(self.words) - 1
        self._used += len(shown)
        self.words.append(shown)
        return len(self.words) - 1


@dataclass
class _Columns:
    budget: Budget
    texts: dict[str, _Words] = field(default_factory=dict)
    figures: defaultdict[str, list[float | None]] = field(default_factory=lambda: defaultdict(list))
    _unknown: dict[tuple[tuple[str, str], ...], str] = field(default_factory=dict)

    def unknown(self, nulls: Mapping[str, str]) -> None:
        """Add why what is not known; most cells have the same reasons."""
        key = tuple(nulls.items())
        if key not in self._unknown:
            self._unknown[key] = "\n".join(f"{one_line(name)}: {one_line(why)}" for name, why in key)
        self.text("nulls", self._unknown[key])

    def text(self, name: str, value: str | None) -> None:
        column = self.texts.get(name)
        if column is None:
            column = self.texts[name] = _Words(self.budget)
        column.add(value or "")

    def count(self, name: str, value: int | None) -> None:
        self.figures[name].append(value)

    def figure(self, name: str, value: float | None) -> None:
        """Add a speed or a time."""
        self.figures[name].append(None if value is None else _shown(value))

    def fine(self, name: str, value: float | None) -> None:
        """Add a time that may be far below a millisecond."""
        self.figures[name].append(None if value is None else float(f"{value:.3g}"))

    def size(self, name: str, value: float | None) -> None:
        """Add a size in bytes, as MiB."""
        self.figures[name].append(None if value is None else _mebibytes(value))

    def tenths(self, name: str, value: float | None, of: float = 1.0) -> None:
        """Add a temperature, or a ratio as percent (``of`` is 100): to a tenth."""
        self.figures[name].append(None if value is None else round(value * of, 1))


def _shown(value: float) -> float:
    size = abs(value)
    return round(value) if size >= 99.95 else round(value, 1 if size >= 9.995 else 2)


def _mebibytes(value: float) -> float:
    mib = value / _MIB
    return _shown(mib) if mib < _KIBI else _shown(mib / _KIBI) * _KIBI


def page_data(
    records: Sequence[CellRecord], labels: Mapping[str, str], raw_base: str = "", budget: Budget = FULL
) -> dict[str, Any]:
    """Return what the page's script shows of the cells, ready for JSON.

    ``phones`` are names in the order of the page, ``texts`` columns of words and places in them, ``figures`` columns of
    numbers or ``None``.
    """
    columns = _Columns(budget)
    places = {phone_id: place for place, phone_id in enumerate(labels)}
    ids = short_ids(records)
    # Runs of language models, which are the largest, have no columns that nothing fills.
    kinds = kinds_of(records)
    parts = (_names, _outcome, _measured, _sensed, _said, *((_tensor,) if kinds.tensor else ()))
    for record in records:
        columns.count("phone", places[record.phone.id])
        for part in parts:
            part(columns, record)
        columns.text("raw", _raw(record, raw_base))
    return {
        "count": len(records),
        "ids": ids,
        "kinds": {"language": kinds.language, "tensor": kinds.tensor},
        "phones": list(labels.values()),
        "texts": {name: {"words": each.words, "values": each.values} for name, each in columns.texts.items()},
        "figures": columns.figures,
    }


def short_ids(records: Sequence[CellRecord]) -> list[str]:
    """Return the beginnings of cell ids by which links name them: all equally long, no two the same."""
    ids = [one_line(record.cell_id) for record in records]
    digits = _ID_DIGITS
    while digits < _FULL_ID_DIGITS and len({each[:digits] for each in ids}) < len(set(ids)):
        digits += 4
    return [each[:digits] for each in ids]


def _names(columns: _Columns, record: CellRecord) -> None:
    config, model, bundle = record.config, record.model, record.bundle
    columns.text("model", model.name)
    columns.text("model_hash", model.hash)
    columns.text("bundle", f"{bundle.name}, {bundle.engine} {bundle.engine_version or '(version not known)'}")
    columns.text("bundle_hash", bundle.hash)
    columns.text("runner", bundle.runner)
    columns.text("backend", backend_label(record))
    columns.text("asked", backend_name(config.backend))
    columns.text("numerics", numerics_label(record))
    columns.text("lengths", lengths_label(record))
    columns.text("kind", config.kind)
    columns.text("extras", " · ".join(extras(record)))
    columns.text("started", record.started)
    columns.text("version", record.harness_version)
    columns.count("threads", config.threads)
    columns.count("prompt", config.prompt_tokens)
    columns.count("context", config.context_tokens)
    columns.count("attempt", record.attempt)
    columns.size("weights", model.weight_bytes)


def _outcome(columns: _Columns, record: CellRecord) -> None:
    why = record.why
    columns.text("verdict", record.verdict.value)
    columns.text("reason", record.reason)
    columns.text("says", why.says if why else "")
    columns.text("fault", record.fault.value if record.fault else "")
    columns.text("detail", record.detail)
    columns.text("strength", record.backend.strength if record.backend else "")
    columns.text("proof", record.backend.proof if record.backend else "")
    columns.unknown(record.nulls)
    columns.text(
        "findings",
        _json([[f.severity, f.code, f.title, f.cause, f.evidence, f.advice] for f in record.findings]),
    )


def _measured(columns: _Columns, record: CellRecord) -> None:
    metrics = record.metrics
    ttft = metrics.ttft_ms if metrics else None
    columns.figure("ttft", ttft.p50 if ttft else None)
    columns.figure("ttft_p90", ttft.p90 if ttft else None)
    for name, speed in (
        ("prefill", metrics.prefill_tps if metrics else None),
        ("decode", metrics.decode_tps if metrics else None),
    ):
        ci95 = speed.ci95 if speed else None
        columns.figure(name, speed.median if speed else None)
        columns.figure(f"{name}_mad", speed.mad if speed else None)
        columns.figure(f"{name}_low", ci95[0] if ci95 else None)
        columns.figure(f"{name}_high", ci95[1] if ci95 else None)
        columns.count(f"{name}_n", speed.n if speed else None)
    columns.figure("load", metrics.load_ms if metrics else None)
    columns.figure("load_cold", metrics.load_cold_ms if metrics else None)
    columns.figure("first_use", metrics.first_use_ms if metrics else None)
    columns.size("rss", metrics.peak_rss_bytes if metrics else None)
    columns.size("gpu", metrics.peak_gpu_bytes if metrics else None)
    columns.size("free", metrics.min_available_bytes if metrics else None)
    columns.tenths("roof", metrics.roofline_ratio if metrics else None, 100)


def _sensed(columns: _Columns, record: CellRecord) -> None:
    thermal = record.thermal
    columns.tenths("start_c", thermal.start_c if thermal else None)
    columns.tenths("max_c", thermal.max_c if thermal else None)
    columns.tenths("clock", thermal.clock_ratio_min if thermal else None, 100)
    columns.figure("burst", thermal.burst_tps if thermal else None)
    columns.figure("sustained", thermal.sustained_tps if thermal else None)
    columns.tenths("sustained_ratio", thermal.sustained_ratio if thermal else None, 100)
    columns.figure("onset", thermal.onset_s if thermal else None)


def _said(columns: _Columns, record: CellRecord) -> None:
    output = record.output
    answers = output.answers if output else ()
    columns.text("golden", output.golden if output else None)
    columns.text("match", output.match if output else None)
    columns.text("reference", output.reference if output else None)
    columns.text("text", output.text if output and not answers else "")
    asked = columns.texts.setdefault("answers", _Words(columns.budget))
    asked.add(_json([[a.question, cut(a.text, columns.budget.one_text), a.expect, a.right] for a in answers]))


def _tensor(columns: _Columns, record: CellRecord) -> None:
    for name, key in (("latency", "p50"), ("latency_p90", "p90"), ("latency_p99", "p99")):
        columns.fine(name, latency_at(record, key))
    latency = record.metrics.latency_ms if record.metrics is not None else None
    columns.count("latency_n", latency.n if latency is not None else None)
    accuracy = accuracy_of(record)
    columns.figures["cosine"].append(accuracy.cosine if accuracy is not None else None)
    columns.text("kept", accuracy.words if accuracy is not None else "")
    columns.text("kept_by", f"{accuracy.reference}; held to {accuracy.held_to}" if accuracy is not None else "")


def _raw(record: CellRecord, base: str) -> str:
    return raw_link(record.raw, base) or ""


def _json(value: Any) -> str:
    """Return lists of texts as JSON, every text in them made visible; ``""`` for an empty one."""
    return json.dumps(_made_visible(value), ensure_ascii=False, separators=(",", ":")) if value else ""


def _made_visible(value: Any) -> Any:
    if isinstance(value, list):
        return [_made_visible(each) for each in value]
    return visible(value) if isinstance(value, str) else value
