"""The run in one sentence and in one table for a terminal. Nothing from a phone can move the cursor or colour it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from rich import box
from rich.table import Table
from rich.text import Text

from harness.core.reasons import Reason, Verdict
from harness.report.cells import VERDICTS, backend_label, of_verdict, phone_labels, value_at
from harness.report.columns import Kinds, kinds_of
from harness.report.tensors import accuracy_of, cosine_text, latency_at, ms_text
from harness.report.text import backend_name, celsius, cut, distinct, number, one_line, plural
from harness.store.schema import CellRecord

_COLOURS: Final = {
    Verdict.OK: "green",
    Verdict.REJECTED: "yellow",
    Verdict.FAILED: "bold red",
    Verdict.UNSUPPORTED: "cyan",
    Verdict.SKIPPED: "dim",
}
# Phones' and models' names are cut to this; with both in the table, to the second.
_NAME_WIDTHS: Final = (14, 9)
_LANGUAGE: Final = ("TTFT", "prefill", "decode")
_TENSOR: Final = ("p50", "p90", "kept")
_UNITS: Final = "medians: TTFT in ms, prefill and decode in tok/s; peak memory in MiB"
_TENSOR_UNITS: Final = "latency in ms; kept: cosine similarity with the reference; peak memory in MiB"


def headline(records: Sequence[CellRecord], fleet_size: int) -> str:
    """Return e.g. ``2 phones, 12 cells: 8 ok, 4 unsupported (no OpenCL, no Vulkan on these phones)``."""
    phones = plural(fleet_size, "phone") if fleet_size else "no phone"
    if not records:
        return f"{phones}, no cell was run"
    parts = []
    for verdict in VERDICTS:
        group = of_verdict(records, verdict)
        if group:
            why = _unsupported(group, fleet_size) if verdict is Verdict.UNSUPPORTED else _reasons(group)
            parts.append(f"{len(group)} {verdict.value}" + (f" ({why})" if why else ""))
    return f"{phones}, {plural(len(records), 'cell')}: {', '.join(parts)}"


def _reasons(records: Sequence[CellRecord]) -> str:
    counts = Counter(record.reason for record in records if record.reason)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {reason}" for reason, count in counts.most_common())


def _unsupported(records: Sequence[CellRecord], fleet_size: int) -> str:
    """Say what is missing where: causes that hold for the same phones share the words for them."""
    phones_by_cause: dict[str, set[str]] = {}
    for record in records:
        phones_by_cause.setdefault(_cause(record), set()).add(record.phone.id)
    causes_by_place: dict[str, list[str]] = {}
    for cause, phones in phones_by_cause.items():
        causes_by_place.setdefault(_place(len(phones), fleet_size), []).append(cause)
    return "; ".join(f"{', '.join(causes)} {place}" for place, causes in causes_by_place.items())


def _cause(record: CellRecord) -> str:
    why = record.why
    backend = backend_name(record.config.backend)
    if why is Reason.BACKEND_MISSING_ON_PHONE:
        return f"no {backend}"
    if why is Reason.BACKEND_NOT_BUILT:
        return f"{backend} not built"
    if why is Reason.MODEL_TOO_BIG:
        return f"{one_line(record.model.name)} too big"
    return record.reason or ""


def _place(count: int, fleet_size: int) -> str:
    if count >= fleet_size:
        return "on this phone" if fleet_size <= 1 else "on these phones"
    return f"on {count} of {plural(fleet_size, 'phone')}"


def summary_table(records: Sequence[CellRecord]) -> Table:
    """Return one line per cell. Figures of cells that are not ok stand in brackets: seen, not valid."""
    models = distinct(record.model.name for record in records)
    refused = any(record.verdict is not Verdict.OK and record.metrics is not None for record in records)
    kinds = kinds_of(records)
    units = [_UNITS] * kinds.language + [_TENSOR_UNITS] * kinds.tensor
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=0,
        title=Text(f"model: {one_line(models[0])}") if len(models) == 1 else None,
        title_justify="left",
        caption=Text("\n".join(units) + ("\n(in brackets): measured but refused, not a result" if refused else "")),
        caption_justify="left",
    )
    table.add_column("phone", overflow="fold")
    if len(models) > 1:
        table.add_column("model", overflow="fold")
    table.add_column("backend", overflow="fold")
    table.add_column("thr", justify="right", no_wrap=True)
    table.add_column("prec", overflow="fold")
    for title in (*_LANGUAGE * kinds.language, *_TENSOR * kinds.tensor, "MiB", "°C"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    width = _NAME_WIDTHS[len(models) > 1]
    labels = phone_labels(records)
    for record in records:
        names = [labels[record.phone.id]] + ([one_line(record.model.name)] if len(models) > 1 else [])
        table.add_row(
            *(Text(cut(name, width)) for name in names),
            Text(backend_label(record).replace(" → ", "→")),
            Text(str(record.config.threads) if record.config.backend == "cpu" else "—"),
            Text(one_line(record.config.precision)),
            *_figures(record, kinds),
            Text(_verdict(record), style=_COLOURS[record.verdict]),
        )
    return table


def _verdict(record: CellRecord) -> str:
    return "ok" if record.reason is None else f"{record.verdict.value}: {record.reason}"


def _figures(record: CellRecord, kinds: Kinds) -> list[Text]:
    accuracy = accuracy_of(record) if kinds.tensor else None
    language = (
        (value_at(record, "metrics", "ttft_ms.p50"), number),
        (value_at(record, "metrics", "prefill_tps.median"), number),
        (value_at(record, "metrics", "decode_tps.median"), number),
    )
    tensor = (
        (latency_at(record, "p50"), ms_text),
        (latency_at(record, "p90"), ms_text),
        (accuracy.cosine if accuracy is not None else None, cosine_text),
    )
    values = (
        *language * kinds.language,
        *tensor * kinds.tensor,
        (value_at(record, "metrics", "peak_rss_bytes"), _mib),
        (value_at(record, "thermal", "max_c"), celsius),
    )
    valid = record.verdict is Verdict.OK
    return [
        _figure("—" if value is None else show(value), known=value is not None, valid=valid) for value, show in values
    ]


def _mib(size: float) -> str:
    return number(size / 2**20)


def _figure(text: str, *, known: bool, valid: bool) -> Text:
    if not known:
        return Text(text, style="dim")
    return Text(text) if valid else Text(f"({text})", style="dim strike")
