"""Whether samples are fit to calibrate a quantisation with: enough of them, different ones, and no random numbers.

Calibration measures between which values each tensor of the model lies. Samples that no camera or microphone made give
ranges that no real input has, and the 8-bit model is wrong in a way that nothing else shows. So noise is looked for in
two ways. Neighbours in an image or a sound resemble each other, those in noise do not: their correlation is about 0.
And numbers from a generator follow its distribution more exactly than anything measured does (Kolmogorov and Smirnov).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from harness.payload.onnx_findings import Finding
from harness.payload.samples import Sample
from harness.payload.tensors import Array

#: Below this nothing can be said of ranges; MNN's documentation advises 100 to 1000.
MIN_SAMPLES = 16
_GIVE = "give inputs of real use, preprocessed as the app does it: 100 to 1000 of them, different ones"
_ANYWAY = f"{_GIVE}; --anyway takes these as they are"
#: Neighbours this unlike each other are noise; photographs have 0.8 and more, drawings and speech 0.3 and more.
_CORRELATION = 0.05
#: Neighbours are looked at along axes of at least this many elements.
_AXIS = 8
#: So many numbers are compared with a generator's distribution; below the smallest too much would fit.
_DRAWN, _FEWEST = 4096, 512
#: The bound of Kolmogorov's statistic that 5 % of truly random sets exceed.
_KOLMOGOROV = 1.36


def judge_samples(samples: Sequence[Sample]) -> Iterator[Finding]:
    """Yield what speaks against calibrating with these samples; nothing when they are fit."""
    different = {_digest(sample) for sample in samples}
    if len(samples) > 1 and len(different) == 1:
        yield Finding("calibration_constant", f"all {len(samples)} samples are the same", _ANYWAY)
    elif len(different) < MIN_SAMPLES:
        detail = f"{len(different)} different samples, fewer than {MIN_SAMPLES}, do not show what range a tensor has"
        yield Finding("calibration_small", detail, _ANYWAY)
    for name in sorted({name for sample in samples for name in sample.inputs}):
        arrays = [sample.inputs[name] for sample in samples if name in sample.inputs]
        yield from _judge_input(name, arrays, samples)


def _judge_input(name: str, arrays: Sequence[Array], samples: Sequence[Sample]) -> Iterator[Finding]:
    broken = [
        sample.name
        for sample, array in zip(samples, arrays, strict=False)
        if not np.isfinite(array).all() or not array.size
    ]
    if broken:
        detail = f"{len(broken)} samples hold no finite numbers for input {name}, the first is {broken[0]}"
        yield Finding("calibration_constant", detail, _ANYWAY)
        return
    if arrays[0].dtype.kind != "f":
        return  # ids, masks and bytes say nothing by their neighbours
    constant = sum(array.size > 1 and float(array.min()) == float(array.max()) for array in arrays)
    if constant > len(arrays) // 2:
        detail = f"{constant} of {len(arrays)} samples hold one value throughout for input {name}"
        yield Finding("calibration_constant", detail, _ANYWAY)
        return
    generator = generator_of(arrays)
    if generator:
        detail = f"the values of input {name} are distributed exactly as random ones are: {generator}"
        yield Finding("calibration_random", detail, _ANYWAY)
        return
    found = [value for value in map(neighbour_correlation, arrays) if value is not None]
    if found and float(np.median(np.abs(found))) < _CORRELATION:
        detail = f"neighbouring values of input {name} do not resemble each other "
        detail += f"(correlation {float(np.median(found)):.3f}), as in noise"
        yield Finding("calibration_random", detail, _ANYWAY)


def neighbour_correlation(array: Array) -> float | None:
    """Return how neighbours correlate along the axis where they do most; ``None`` where no axis is long enough.

    A feature vector (two dimensions or fewer) has no neighbours that would have to resemble each other.
    """
    if array.ndim < 3:
        return None
    values = array.astype(np.float64)
    best = None
    for axis, extent in enumerate(array.shape):
        if extent < _AXIS:
            continue
        # Differences between channels or rows are no likeness of neighbours.
        centred = values - values.mean(axis=axis, keepdims=True)
        left, right = centred.take(range(extent - 1), axis), centred.take(range(1, extent), axis)
        spread = math.sqrt(float((left**2).sum()) * float((right**2).sum()))
        if spread > 0:
            found = float((left * right).sum()) / spread
            best = found if best is None else max(best, found)
    return best


def generator_of(arrays: Sequence[Array]) -> str:
    """Return the generator whose distribution the values have, empty when none of the usual ones."""
    values = np.concatenate([array.ravel() for array in arrays]).astype(np.float64)
    if values.size < _FEWEST:
        return ""
    drawn = np.sort(values[np.linspace(0, values.size - 1, min(_DRAWN, values.size)).astype(np.int64)])
    return next((says for says, below in _GENERATORS.items() if _distance(drawn, below) < _bound(drawn.size)), "")


def _distance(drawn: Array, below: Callable[[float], float]) -> float:
    """Return how far the values' distribution is from one that is given by the share below a value."""
    expected = np.array([below(float(value)) for value in drawn])
    ranks = np.arange(drawn.size + 1) / drawn.size
    return float(max((ranks[1:] - expected).max(), (expected - ranks[:-1]).max()))


def _bound(count: int) -> float:
    return _KOLMOGOROV / math.sqrt(count)


def _uniform(low: float, high: float) -> Callable[[float], float]:
    return lambda value: min(max((value - low) / (high - low), 0.0), 1.0)


_GENERATORS: dict[str, Callable[[float], float]] = {
    "normal, mean 0 and deviation 1": lambda value: 0.5 * (1 + math.erf(value / math.sqrt(2))),
    "uniform from 0 to 1": _uniform(0, 1),
    "uniform from -1 to 1": _uniform(-1, 1),
    "uniform from 0 to 255": _uniform(0, 255),
}


def _digest(sample: Sample) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(sample.inputs):
        array = np.ascontiguousarray(sample.inputs[name])
        digest.update(f"{name}{array.dtype}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.digest()
