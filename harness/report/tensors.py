"""What a tensor cell says: its latency, and how much accuracy its outputs keep. Pure over one record.

A model has several outputs: of each figure the worst output's counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from harness.report.cells import value_at
from harness.report.text import listing, number, one_line, percent, plural
from harness.store.schema import CellRecord, TensorKept

KIND: Final = "tensor"
# The most exact first; what a later version may call otherwise comes last.
_STORED: Final = ("fp32", "fp16", "int8", "int8-calibrated", "int4")
_STORED_BITS: Final = {32: "fp32", 16: "fp16", 8: "int8", 4: "int4"}
_COSINE_DIGITS: Final = range(3, 7)


def is_tensor(record: CellRecord) -> bool:
    """Whether a cell ran a model that is no language model."""
    return record.config.kind == KIND


def stored_of(record: CellRecord) -> str:
    """Return how the weights are stored, e.g. ``int8``; ``""`` where the record does not tell."""
    model = record.model
    return one_line(model.stored) if model.stored else _STORED_BITS.get(model.quant_bits or 0, "")


def exactness(stored: str) -> int:
    """Return a variant's place among others of its model, the most exact first."""
    return _STORED.index(stored) if stored in _STORED else len(_STORED)


@dataclass(frozen=True)
class Accuracy:
    """How much accuracy a cell's outputs keep: of each figure the worst output's, ``None`` where it has none.

    Attributes:
        cosine: mean over the samples of the cosine similarity with the reference.
        cosine_min: the worst sample's.
        same_top1: share of samples that decide the same everywhere.
        same_positions: share of all decisions that are the same.
        max_error: largest absolute error.
        agreeing: share of elements within ``tolerance``.
        real_inputs: whether the samples were given, or random.
    """

    cosine: float | None
    cosine_min: float | None
    same_top1: float | None
    same_positions: float | None
    max_error: float | None
    agreeing: float | None
    tolerance: float
    samples: int
    failed: int
    real_inputs: bool
    outputs: int
    reference: str
    held_to: str

    @property
    def exact(self) -> bool:
        """Whether every element of every sample is within the tolerance."""
        return self.failed == 0 and self.agreeing == 1.0

    @property
    def inputs(self) -> str:
        """Over what it was measured, e.g. ``25 real inputs``."""
        words = plural(self.samples, f"{'real' if self.real_inputs else 'random'} input")
        return words + (f", {self.failed} could not be compared" if self.failed else "")

    @property
    def words(self) -> str:
        """All of it in a sentence without its end."""
        parts = [] if self.cosine is None else [f"cosine {cosine_text(self.cosine)}"]
        if self.cosine_min is not None and self.samples > 1:
            parts[-1:] = [f"{parts[-1]} ({cosine_text(self.cosine_min)} in the worst sample)"] if parts else []
        if self.same_top1 is not None:
            parts.append(f"{percent(self.same_top1)} of samples decide the same")
        if self.same_positions is not None and self.same_positions != self.same_top1:
            parts.append(f"{percent(self.same_positions)} of decisions")
        if self.max_error is not None:
            parts.append(f"largest error {error_text(self.max_error)}")
        worst = f", the worst of {self.outputs} outputs" if self.outputs > 1 else ""
        return f"{listing(parts) or 'nothing could be compared'} over {self.inputs}{worst}"


def accuracy_of(record: CellRecord) -> Accuracy | None:
    """Return how much accuracy a cell keeps; ``None`` where nothing was compared."""
    tensors = record.output.tensors if record.output is not None else None
    if tensors is None:
        return None
    kept = tensors.outputs
    return Accuracy(
        cosine=_worst(min, kept, "cosine_mean"),
        cosine_min=_worst(min, kept, "cosine_min"),
        same_top1=_worst(min, kept, "same_top1"),
        same_positions=_worst(min, kept, "same_positions"),
        max_error=_worst(max, kept, "max_error"),
        agreeing=_worst(min, kept, "agreeing"),
        tolerance=tensors.tolerance,
        samples=tensors.samples,
        failed=tensors.failed,
        real_inputs=tensors.real_inputs,
        outputs=len(kept),
        reference=one_line(tensors.reference),
        held_to=one_line(tensors.held_to),
    )


def _worst(pick: Callable[[Iterable[Any]], Any], kept: Iterable[TensorKept], name: str) -> float | None:
    values = [value for each in kept if (value := getattr(each, name)) is not None]
    return float(pick(values)) if values else None


def latency_at(record: CellRecord, name: str) -> float | None:
    """Return a figure of a cell's latency in ms by its name (``p50``, ``p90``, …); ``None`` where it is not known."""
    value = value_at(record, "metrics", f"latency_ms.{name}")
    return None if value is None else float(value)


def ms_text(value: float) -> str:
    """Return milliseconds, also where they are few: ``12.3``, ``0.042``."""
    return number(value) if abs(value) >= 0.0995 or value == 0 else f"{value:.2g}"


def cosine_text(value: float) -> str:
    """Return a cosine similarity with as many digits as tell it from 1: ``0.984``, ``0.99987``, at six ``1``."""
    digits = next((n for n in _COSINE_DIGITS if 1 - value >= 0.999 * 10 ** (1 - n)), _COSINE_DIGITS[-1])
    shown = f"{value:.{digits}f}"
    return "1" if float(shown) == 1 else shown


def error_text(value: float) -> str:
    """Return an absolute error with two digits: ``2.1e-07``, ``0.16``."""
    return f"{value:.2g}"
