"""How much accuracy a model keeps whose weights are stored in fewer bits: over samples, against the full model.

A model in half precision or in 8 bits never agrees with its original to 1e-4 and need not. What counts is whether it
decides the same: the share of samples with the same top-1, how near the outputs point in the same direction (cosine
similarity), and the largest error. Which loss is acceptable only the app knows; below the floors here, though, a model
of that kind is not merely less exact: something is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.payload.mnn_weights import Weights
from harness.payload.tensors import Array

#: The mean cosine similarity that each kind keeps at least (measured on the OCR models of ``docs/onnx.md``, with room).
FLOORS = {Weights.HALF: 0.999, Weights.INT8: 0.98, Weights.INT4: 0.8, Weights.CALIBRATED: 0.9}


@dataclass(frozen=True)
class Kept:
    """One output over all samples.

    ``same_top1`` is the share of samples that decide the same everywhere, ``same_positions`` that of all decisions
    (a text has one a step, a segmentation one a pixel). Both are ``None`` where ``no_top1`` says why there is none.
    ``cosine_mean`` and ``cosine_min`` are ``None`` where no sample could be compared, which ``failed`` counts.
    """

    name: str
    samples: int
    failed: int
    same_top1: float | None
    same_positions: float | None
    no_top1: str
    cosine_mean: float | None
    cosine_min: float | None
    max_error: float | None
    mean_error: float | None

    def enough(self, weights: Weights) -> bool:
        """Whether it keeps what a model of this kind keeps when nothing is wrong with it."""
        return not self.failed and self.cosine_mean is not None and self.cosine_mean >= FLOORS[weights]


def accuracy_kept(made: Sequence[Mapping[str, Array]], reference: Sequence[Mapping[str, Array]]) -> tuple[Kept, ...]:
    """Compare the outputs of many samples with those of the reference, by output name."""
    names = sorted({name for outputs in reference for name in outputs})
    return tuple(
        _kept(name, [(outputs.get(name), wanted.get(name)) for outputs, wanted in zip(made, reference, strict=True)])
        for name in names
    )


def _kept(name: str, pairs: Sequence[tuple[Array | None, Array | None]]) -> Kept:
    whole = [(a, b) for a, b in pairs if a is not None and b is not None and a.shape == b.shape and a.size]
    usable = [(a, b) for a, b in whole if np.isfinite(a).all() and np.isfinite(b).all()]
    axis, no_top1 = _decides(usable[0][1]) if usable else (None, "no sample could be compared")
    same: list[Array] = []
    if axis is not None:
        same = [(a.argmax(axis) == b.argmax(axis)).ravel() for a, b in usable]
    cosines = [cosine(a, b) for a, b in usable]
    errors = [np.abs(a.astype(np.float64) - b.astype(np.float64)) for a, b in usable]
    return Kept(
        name=name,
        samples=len(pairs),
        failed=len(pairs) - len(usable),
        same_top1=float(np.mean([each.all() for each in same])) if same else None,
        same_positions=float(np.concatenate(same).mean()) if same else None,
        no_top1=no_top1,
        cosine_mean=float(np.mean(cosines)) if cosines else None,
        cosine_min=min(cosines) if cosines else None,
        max_error=max(float(error.max()) for error in errors) if errors else None,
        mean_error=float(np.mean([error.mean() for error in errors])) if errors else None,
    )


def cosine(first: Array, second: Array) -> float:
    """Return the cosine of the angle between two arrays: 1 when they point the same way, also when both are zero."""
    a, b = first.astype(np.float64).ravel(), second.astype(np.float64).ravel()
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    if length == 0:
        return 1.0 if not a.any() and not b.any() else 0.0
    return float(a @ b) / length


def _decides(output: Array) -> tuple[int | None, str]:
    """Return the axis of an output's classes, or ``None`` and why it has none."""
    if output.dtype.kind != "f":
        return None, "it holds whole numbers, which are decisions already"
    axis = 1 if output.ndim == 4 else output.ndim - 1
    if axis < 0 or output.shape[axis] < 2:
        return None, "it has one value a place and no classes to choose from"
    return axis, ""
