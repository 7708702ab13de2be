"""The figures of a tensor cell as tables show them. Pure."""

from __future__ import annotations

from harness.report.cells import Figure, Notes, value_at, why_unknown
from harness.report.tensors import accuracy_of, cosine_text, is_tensor, latency_at, ms_text
from harness.report.text import percent
from harness.store.schema import CellRecord


def latency_figure(record: CellRecord, notes: Notes, name: str) -> Figure:
    """Return a cell's latency: its median (``p50``) or another figure of it."""
    value = latency_at(record, name)
    if value is None:
        return notes.unknown(f"latency {name}", _why_none(record, "metrics", f"latency_ms.{name}"))
    latency = value_at(record, "metrics", "latency_ms")
    tail = "p99 not known" if latency.p99 is None else f"p99 {ms_text(latency.p99)}"
    return Figure(
        ms_text(value), title=f"{ms_text(latency.min)} to {ms_text(latency.max)} ms in {latency.n} inferences; {tail}"
    )


def accuracy_figure(record: CellRecord, notes: Notes) -> Figure:
    """Return how much accuracy a cell keeps: the worst output's cosine, the rest beside it."""
    accuracy = accuracy_of(record)
    if accuracy is None:
        return notes.unknown("accuracy kept", _why_none(record, "output", "tensors"))
    decided = f"{percent(accuracy.same_positions)} the same" if accuracy.same_positions is not None else ""
    below = "" if accuracy.real_inputs else "random inputs"
    cosine = "—" if accuracy.cosine is None else cosine_text(accuracy.cosine)
    title = f"{accuracy.words}; against {accuracy.reference}; held to {accuracy.held_to}"
    return Figure(cosine, below=", ".join(filter(None, (decided, below))), title=title)


def _why_none(record: CellRecord, section: str, path: str) -> str:
    if not is_tensor(record):
        return "only of models that are no language models"
    return why_unknown(record, section, path)
