"""A phone's outputs held to the reference: what is demanded, what is wrong and where, what accuracy is kept. Pure.

32-bit weights computed with 32-bit floats have to agree element by element. Where a steep layer (a sigmoid of large
numbers, as at the edge of a letter) enlarges rounding, few elements are beyond that without anything being wrong: they
are let pass where they are at most 1 %, within ten times the tolerance, and every sample points the same way to six
digits; the record says so. Fewer bits never agree so: they are held to what such weights and such a precision keep.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.bench.tensor_pull import Pulled
from harness.payload.accuracy import FLOORS, Kept, accuracy_kept
from harness.payload.mnn_weights import Weights
from harness.payload.tensor_case import TensorCase
from harness.payload.tensors import Array, OutputComparison, compare_output
from harness.plan.matrix import GPU_MODE, PlannedCell

#: What rounding may look like where a steep layer enlarges it.
_MOST_AGREE, _SAME_DIRECTION, _ENLARGED = 0.99, 0.999999, 10.0
#: One sample may lose so many times what all lose on the average.
_WORST_SAMPLE = 5.0
#: Outputs of another length are wrong however few bits their weights have.
_MOST_LONGER = 0.5


@dataclass(frozen=True)
class Demand:
    """What outputs are held to: every element within ``tolerance``, or a mean cosine similarity of ``floor``."""

    tolerance: float
    floor: float | None

    @property
    def words(self) -> str:
        """It in words, for the record."""
        if self.floor is None:
            return (
                f"every element within {self.tolerance:g} × max(1, |reference|); where a steep layer enlarges rounding "
                f"{_MOST_AGREE:.0%} of them, and all within {_ENLARGED * self.tolerance:g}"
            )
        return (
            f"a mean cosine similarity of {self.floor:g} with the reference ({self.worst_floor:g} in each sample) and "
            f"its length within {self.longer:.0%}, which such weights and such a precision keep when nothing is wrong"
        )

    @property
    def worst_floor(self) -> float:
        """The cosine similarity that each single sample has at least; only where there is a floor."""
        return 1.0 - _WORST_SAMPLE * (1.0 - (1.0 if self.floor is None else self.floor))

    @property
    def longer(self) -> float:
        """By which share the outputs may be longer or shorter than the reference, as vectors."""
        return min(_MOST_LONGER, math.sqrt(2 * (1.0 - (1.0 if self.floor is None else self.floor))))


def demand_of(cell: PlannedCell, weights: Weights, tolerance: float) -> Demand:
    """Return what a cell's outputs are held to.

    MNN computes in half precision at ``low``, and on a GPU at ``normal`` as well; a processor without half precision
    computes in 32 bits all the same, and is then better than what is demanded of it.
    """
    half = cell.precision == "low" or (cell.precision == "normal" and cell.backend in GPU_MODE)
    floors = [FLOORS[Weights.HALF]] if half else []
    if weights is not Weights.FULL:
        floors.append(FLOORS[weights])
    return Demand(tolerance, min(floors, default=None))


@dataclass(frozen=True, eq=False)
class TensorResult:
    """What a tensor cell fed, what was expected, and what came."""

    case: TensorCase
    pulled: Pulled
    demand: Demand

    @cached_property
    def compared(self) -> dict[str, tuple[OutputComparison, ...]]:
        """Every output against the reference, sample by sample, of those samples that have it."""
        found: dict[str, list[OutputComparison]] = {name: [] for outputs in self.case.expected for name in outputs}
        for made, expected in zip(self.pulled.made, self.case.expected, strict=True):
            for name in set(made) & set(expected):
                found[name].append(compare_output(name, made[name], expected[name], self.demand.tolerance))
        return {name: tuple(found[name]) for name in sorted(found)}

    @cached_property
    def kept(self) -> tuple[Kept, ...]:
        """The accuracy kept, output by output."""
        return accuracy_kept(self.pulled.made, self.case.expected)

    def degenerate(self) -> Iterator[str]:
        """Yield the outputs that hold one number everywhere, in every sample, where the reference's do not."""
        for name in self.compared:
            pairs = list(self._pairs(name))
            if pairs and all(_constant(made) and not _constant(wanted) for made, wanted in pairs):
                yield f"output {name} is {pairs[0][0].flat[0]:g} everywhere, in {len(pairs)} samples"

    def wrong(self) -> Iterator[str]:
        """Yield the outputs that are not what is demanded, each with where and by how much."""
        for kept in self.kept:
            beside = sum(each.mismatched_non_finite for each in self.compared[kept.name])
            if beside:
                yield f"output {kept.name} has NaN or infinity beside numbers: {self._where(kept.name)}"
            elif self.demand.floor is None:
                if not self._agrees(kept.name) and not self._is_rounding(kept):
                    yield f"output {kept.name} differs from the reference: {self._where(kept.name)}"
            else:
                says = self._lost(kept)
                if says:
                    yield f"output {kept.name} {says}; {self._where(kept.name)}"

    def rounded(self) -> Iterator[str]:
        """Yield the outputs of which some elements are beyond the tolerance by rounding alone."""
        if self.demand.floor is None:
            for kept in self.kept:
                if not self._agrees(kept.name) and self._is_rounding(kept):
                    yield f"output {kept.name}: {self._where(kept.name)}"

    def _pairs(self, name: str) -> Iterator[tuple[Array, Array]]:
        for made, expected in zip(self.pulled.made, self.case.expected, strict=True):
            if name in made and name in expected:
                yield made[name], expected[name]

    def _agrees(self, name: str) -> bool:
        return all(each.ok for each in self.compared[name])

    def _is_rounding(self, kept: Kept) -> bool:
        each = self.compared[kept.name]
        near = all(
            compare_output(kept.name, made, wanted, _ENLARGED * self.demand.tolerance).ok
            for made, wanted in self._pairs(kept.name)
        )
        most = all((one.share or 0.0) >= _MOST_AGREE for one in each)
        return near and most and not kept.failed and (kept.cosine_min or 0.0) >= _SAME_DIRECTION

    def _lost(self, kept: Kept) -> str:
        """Return what an output lost beyond what is demanded, ``""`` if nothing."""
        floor, mean, least = self.demand.floor or 0.0, kept.cosine_mean, kept.cosine_min
        if kept.failed or mean is None or least is None:
            return f"could not be compared in {kept.failed} of {kept.samples} samples"
        if mean < floor or least < self.demand.worst_floor:
            return (
                f"keeps a cosine similarity of {mean:.4f} with the reference (least {least:.4f}); "
                f"demanded are {floor:g} and {self.demand.worst_floor:g}"
            )
        pairs = list(self._pairs(kept.name))
        made, wanted = (
            math.sqrt(sum(float(np.square(a.astype(np.float64)).sum()) for a in s)) for s in zip(*pairs, strict=True)
        )
        if wanted and abs(made / wanted - 1.0) > self.demand.longer:
            return f"is {made / wanted:.2f} times as large as the reference"
        return ""

    def _where(self, name: str) -> str:
        """Say how many elements are beyond the tolerance, and the worst one."""
        pairs = list(zip(self._having(name), self.compared[name], strict=True))
        beyond = sum(each.count - each.agreeing for _, each in pairs)
        said = f"{beyond} of {sum(each.count for _, each in pairs)} elements are beyond {self.demand.tolerance:g}"
        worst = [(sample, each) for sample, each in pairs if each.worst is not None]
        if not worst:
            return said
        sample, each = max(worst, key=lambda pair: _how_far(pair[1]))
        place = each.worst
        at = "" if place is None else f" at {list(place.index)}: {place.first:g} instead of {place.second:g}"
        return f"{said}; the worst is in sample {sample}{at}"

    def _having(self, name: str) -> list[str]:
        made = zip(self.case.samples, self.pulled.made, self.case.expected, strict=True)
        return [sample for sample, outputs, wanted in made if name in outputs and name in wanted]


def _how_far(compared: OutputComparison) -> float:
    place = compared.worst
    if place is None:
        return -1.0
    off = abs(place.first - place.second)
    return off if math.isfinite(off) else math.inf


def _constant(array: Array) -> bool:
    return bool(array.size > 1 and (array == array.flat[0]).all())
