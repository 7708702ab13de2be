"""Outputs of a model compared element by element: how far apart, where, and what share agrees.

An element agrees when ``|first - second| <= tolerance * max(1, |second|)``; the second is the reference. Below 1 that
is an absolute bound: near zero an element is the small rest of larger terms, and its relative error says nothing. Above
1 it is a relative one: at 4096 the numbers of a 32-bit float are 5e-4 apart, more than the usual tolerance of 1e-4.

What is no finite number agrees only with the same: NaN with NaN, an infinity with that infinity. Anything else beside
it differs, whatever the tolerance. Types do not matter, values do: all are compared as 64-bit floats, which hold every
value of the engine's own types (64-bit integers beyond 2**53 are rounded).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: For 32-bit floats on both sides. Half precision and quantised weights need a bound of their own.
DEFAULT_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Place:
    """One element: its index and its value on both sides."""

    index: tuple[int, ...]
    first: float
    second: float


@dataclass(frozen=True)
class OutputComparison:
    """One output, compared. Errors are ``|first - second|`` over the elements that are finite on both sides.

    ``max_error`` with ``max_error_at`` and ``mean_error`` are ``None`` when there is no such element. ``worst`` is the
    element furthest beyond what it may differ by (one that is finite on one side only comes first); ``None`` when all
    agree. ``mismatched_non_finite`` counts elements where a NaN or infinity stands against something else,
    ``same_non_finite`` those where it stands against itself. ``problem`` says why nothing could be compared.
    """

    name: str
    shape: tuple[int, ...] | None = None
    count: int = 0
    agreeing: int = 0
    max_error: float | None = None
    max_error_at: tuple[int, ...] | None = None
    mean_error: float | None = None
    worst: Place | None = None
    same_non_finite: int = 0
    mismatched_non_finite: int = 0
    problem: str = ""

    @property
    def share(self) -> float | None:
        """Share of elements that agree, 0 to 1; ``None`` when there is no element."""
        return self.agreeing / self.count if self.count else None

    @property
    def ok(self) -> bool:
        """Whether it could be compared and every element agrees; an output that is empty on both sides does."""
        return not self.problem and self.agreeing == self.count


@dataclass(frozen=True)
class Comparison:
    """All outputs of two sides, by name in alphabetical order."""

    tolerance: float
    outputs: tuple[OutputComparison, ...]

    @property
    def ok(self) -> bool:
        """Whether there is something to compare and all of it agrees."""
        return bool(self.outputs) and all(output.ok for output in self.outputs)


def compare(
    first: Mapping[str, Array], second: Mapping[str, Array], tolerance: float = DEFAULT_TOLERANCE
) -> Comparison:
    """Compare two sets of named outputs; the second is the reference. Names and shapes have to be the same.

    Raises:
        ValueError: ``tolerance`` is negative or no finite number.
    """
    if not 0 <= tolerance < float("inf"):
        raise ValueError(f"a tolerance of {tolerance} makes no sense")
    compared = []
    for name in sorted({*first, *second}):
        if name not in second:
            compared.append(OutputComparison(name, problem="only the first has it"))
        elif name not in first:
            compared.append(OutputComparison(name, problem="only the second has it"))
        else:
            compared.append(compare_output(name, first[name], second[name], tolerance))
    return Comparison(tolerance, tuple(compared))


def compare_output(name: str, first: Array, second: Array, tolerance: float) -> OutputComparison:
    """Compare one output."""
    if first.shape != second.shape:
        shapes = f"{shape_text(first.shape)} in the first and {shape_text(second.shape)} in the second"
        return OutputComparison(name, problem=f"the shapes differ: {shapes}")
    a, b = first.astype(np.float64), second.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    same = ~finite & ((a == b) | (np.isnan(a) & np.isnan(b)))
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.where(finite, np.abs(a - b), np.where(same, 0.0, np.inf))
        allowed = tolerance * np.maximum(1.0, np.abs(b))
        agrees = same | (finite & (error <= allowed))
        beyond = np.where(agrees, -np.inf, error - np.where(finite, allowed, 0.0))
    max_error_at = None
    if finite.any():
        max_error_at = _index(int(np.where(finite, error, -1.0).argmax()), a.shape)
    worst = None
    if not agrees.all():
        index = _index(int(beyond.argmax()), a.shape)
        worst = Place(index, float(a[index]), float(b[index]))
    return OutputComparison(
        name=name,
        shape=first.shape,
        count=a.size,
        agreeing=int(agrees.sum()),
        max_error=None if max_error_at is None else float(error[max_error_at]),
        max_error_at=max_error_at,
        mean_error=None if max_error_at is None else float(error[finite].mean()),
        worst=worst,
        same_non_finite=int(same.sum()),
        mismatched_non_finite=int((~finite & ~same).sum()),
    )


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape for people, e.g. ``1×3×?×192``; a dimension below 0 is open."""
    return "×".join("?" if extent < 0 else str(extent) for extent in shape) or "scalar"


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(part) for part in np.unravel_index(flat, shape))
