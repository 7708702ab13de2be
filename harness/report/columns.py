"""Which figures tables of cells show: those of language models, of other models, or both, by what a run has. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from harness.report.tensors import is_tensor
from harness.store.schema import CellRecord

Of = Literal["language", "tensor", "both"]


@dataclass(frozen=True)
class Column:
    """A column of figures: its title and unit, its name in the page's data, and of which cells it is."""

    title: str
    unit: str
    key: str
    of: Of = "both"


COLUMNS: Final = (
    Column("TTFT p50", "ms", "ttft", "language"),
    Column("prefill", "tok/s ± MAD", "prefill", "language"),
    Column("decode", "tok/s ± MAD", "decode", "language"),
    Column("latency p50", "ms", "latency", "tensor"),
    Column("latency p90", "ms", "latency_p90", "tensor"),
    Column("accuracy kept", "cosine", "cosine", "tensor"),
    Column("load", "ms", "load"),
    Column("peak RSS", "", "rss"),
    Column("least free", "memory", "free"),
)


@dataclass(frozen=True)
class Kinds:
    """What a run has: cells of language models, of other models (``tensor``), or both."""

    language: bool
    tensor: bool

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of figures that some cell fills."""
        return tuple(each for each in COLUMNS if each.of == "both" or getattr(self, each.of))


def kinds_of(records: Iterable[CellRecord]) -> Kinds:
    """Return what a run has; one without cells has language models, which most runs are of."""
    found = {is_tensor(record) for record in records}
    return Kinds(language=False in found or not found, tensor=True in found)
