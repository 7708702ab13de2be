"""Why two models differ that should not: the usual mistakes, each found by making it (or undoing it) and looking.

A variant is what an app or an export may have done to the input: another channel order, another layout, a missing mean
or scale, another type. It is applied to the input of one side only. If the outputs then agree with those of the other
side, that is the cause, proven; a pattern that merely looks like one is never reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.payload.accuracy import cosine
from harness.payload.tensors import Array, compare

Outputs = dict[str, Array]
#: Runs a model on many inputs; a text says why one could not be run.
RunMany = Callable[[Sequence[Mapping[str, Array]]], "list[Outputs | str]"]

#: The cosine and the share of the error that are left when a cause is found among models that never agree exactly.
_ALIKE, _LEFT = 0.995, 0.2
#: Scaling an input back and forth costs some exactness.
_ROUNDING = 10.0
#: Pairs of mistakes are tried when that takes no longer.
_PATIENCE_S = 15.0

_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_CAFFE_MEAN = (103.94, 116.78, 123.68)


@dataclass(frozen=True)
class Runs:
    """How to run the side in doubt (``None``: captured outputs cannot be) and the reference, and both names.

    ``exact``: once the cause is undone they agree as the tolerance says; else as weights of fewer bits do.
    """

    doubted: RunMany | None
    reference: RunMany
    names: tuple[str, str]
    exact: bool


@dataclass(frozen=True, eq=False)
class Case:
    """What both sides were fed, and what came out; ``made`` may say why the side in doubt made nothing."""

    inputs: Mapping[str, Array]
    made: Outputs | str
    reference: Outputs


@dataclass(frozen=True)
class Variant:
    """Something that may be done to an input. ``apply`` returns ``None`` where it cannot be, or changes nothing.

    ``says`` completes "fed …"; ``fix`` is what to do about it.
    """

    code: str
    says: str
    fix: str
    apply: Callable[[Array], Array | None]


Way = tuple[Variant, ...]


@dataclass(frozen=True)
class Cause:
    """A cause that was found by trying it.

    Attributes:
        code: ``channel_order``, ``layout``, ``normalization`` or ``dtype``; two are joined by ``+``.
        detail: what was done to which side, and what is left of the error.
        fix: what to do.
        max_error: what is left.
        before_model: whether it can be put right before the side in doubt, rather than in it.
    """

    code: str
    detail: str
    fix: str
    max_error: float
    before_model: bool = True

    def to_json(self) -> dict[str, str]:
        """Return it as a finding."""
        return {"code": self.code, "severity": "error", "detail": self.detail, "fix": self.fix}


def find_cause(cases: Sequence[Case], runs: Runs, tolerance: float) -> Cause | None:
    """Return why two sides differ, ``None`` when no usual mistake explains it in all cases.

    Args:
        cases: inputs with the outputs of both sides; the causes are looked for in the first, and hold in all.
        runs: how to run the sides that can be, and what they are called.
        tolerance: as of :func:`~harness.payload.tensors.compare`.
    """
    found = _output_layout(cases, runs, tolerance)
    if found is not None:
        return found
    single = [(variant,) for variant in _VARIANTS]
    started = time.monotonic()
    found = _first_that_holds(single, cases, runs, tolerance)
    if found is not None or (time.monotonic() - started) * len(_PAIRS) / len(single) > _PATIENCE_S:
        return found
    return _first_that_holds(_PAIRS, cases, runs, tolerance)


def _first_that_holds(ways: Sequence[Way], cases: Sequence[Case], runs: Runs, tolerance: float) -> Cause | None:
    tried = sorted(
        _try(ways, cases[0], runs, tolerance), key=lambda found: (not found[1].before_model, found[1].max_error)
    )
    for way, cause in tried:
        side = cause.before_model
        if all(any(c.before_model is side for _, c in _try([way], case, runs, tolerance)) for case in cases[1:]):
            return cause
    return None


def _try(ways: Sequence[Way], case: Case, runs: Runs, tolerance: float) -> Iterator[tuple[Way, Cause]]:
    fed = [(way, changed) for way in ways if (changed := _changed(way, case.inputs)) is not None]
    for run, wanted, doubted in ((runs.doubted, case.reference, True), (runs.reference, case.made, False)):
        if not fed or run is None or isinstance(wanted, str):
            continue
        for (way, _), outputs in zip(fed, run([changed for _, changed in fed]), strict=True):
            if not isinstance(outputs, str) and _vanished(outputs, wanted, case, tolerance, runs.exact):
                yield way, _cause(way, runs, doubted, _error(outputs, wanted), case)


def _changed(way: Way, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
    """Return the inputs with all that can be changed changed; ``None`` where nothing is."""
    changed, different = dict(inputs), False
    for name, array in inputs.items():
        result: Array | None = array
        for variant in way:
            result = variant.apply(result) if result is not None else None
        if result is not None:
            changed[name] = result
            different = different or result.shape != array.shape or not np.array_equal(result, array)
    return changed if different else None


def _vanished(outputs: Outputs, wanted: Outputs, case: Case, tolerance: float, exact: bool) -> bool:
    if set(outputs) != set(wanted) or any(outputs[name].shape != wanted[name].shape for name in wanted):
        return False
    before = float("inf") if isinstance(case.made, str) else _error(case.made, case.reference)
    if not _error(outputs, wanted) <= _LEFT * before:
        return False
    if compare(outputs, wanted, tolerance * _ROUNDING).ok:
        return True
    return not exact and all(cosine(outputs[name], wanted[name]) > _ALIKE for name in wanted)


def _error(outputs: Outputs, wanted: Outputs) -> float:
    """Return the largest error of all outputs, infinite where they cannot be compared."""
    errors = [output.max_error for output in compare(outputs, wanted, 0).outputs]
    return max((float("inf") if error is None else error for error in errors), default=float("inf"))


def _cause(way: Way, runs: Runs, doubted: bool, after: float, case: Case) -> Cause:
    before = "" if isinstance(case.made, str) else f" instead of {_error(case.made, case.reference):.3g}"
    says = " and ".join(variant.says for variant in way)
    fed, other = runs.names if doubted else runs.names[::-1]
    detail = f"{fed} gives the outputs of {other} when it is fed {says}: max error {after:.3g}{before}"
    name = runs.names[0]
    where = f"before {name}" if doubted else f"in the other way where {name} comes from: it acts as if it were fed so"
    fix = "; ".join(variant.fix.format(where=where) for variant in way)
    return Cause("+".join(variant.code for variant in way), detail, fix, after, doubted)


def _output_layout(cases: Sequence[Case], runs: Runs, tolerance: float) -> Cause | None:
    """Return the cause when outputs differ in nothing but the order of their axes."""
    for layout, order in (("NHWC", (0, 3, 1, 2)), ("NCHW", (0, 2, 3, 1))):
        turned = [_turned(case, order) for case in cases]
        if all(
            each is not None and compare(each, case.reference, tolerance).ok
            for each, case in zip(turned, cases, strict=True)
        ):
            detail = f"the outputs of {runs.names[0]} agree when they are read as {layout}"
            return Cause(
                "layout", detail, "transpose them where the app reads them", _error(turned[0] or {}, cases[0].reference)
            )
    return None


def _turned(case: Case, order: tuple[int, ...]) -> Outputs | None:
    """Return outputs with the axes of those in this order that have another shape than the reference's."""
    if isinstance(case.made, str) or set(case.made) != set(case.reference):
        return None
    other = {name: a.ndim == 4 and a.shape != case.reference[name].shape for name, a in case.made.items()}
    return (
        {name: a.transpose(order) if other[name] else a for name, a in case.made.items()}
        if any(other.values())
        else None
    )


def _swapped(array: Array) -> Array | None:
    """Return it with its three channels in the other order, wherever they are."""
    for axis in (1, array.ndim - 1):
        if array.ndim == 4 and array.shape[axis] == 3:
            return np.ascontiguousarray(np.flip(array, axis))
    return None


def _axes(order: tuple[int, ...]) -> Callable[[Array], Array | None]:
    return lambda array: np.ascontiguousarray(array.transpose(order)) if array.ndim == 4 else None


def _nhwc_bytes(array: Array) -> Array | None:
    """Return what is read as NCHW where the bytes lie as NHWC."""
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)).reshape(array.shape) if array.ndim == 4 else None


def _nchw_bytes(array: Array) -> Array | None:
    """Return what undoes :func:`_nhwc_bytes`."""
    if array.ndim != 4:
        return None
    n, c, h, w = array.shape
    return np.ascontiguousarray(array.reshape(n, h, w, c).transpose(0, 3, 1, 2))


def _scaled(
    mean: tuple[float, ...], scale: tuple[float, ...], *, back: bool = False
) -> Callable[[Array], Array | None]:
    """Return (x - mean) × scale, or what undoes it, for each channel or for all."""

    def apply(array: Array) -> Array | None:
        if array.dtype.kind != "f":
            return None
        shape: tuple[int, ...] = ()
        if len(mean) > 1:
            if array.ndim != 4 or len(mean) not in (array.shape[1], array.shape[3]):
                return None
            shape = (-1, 1, 1) if array.shape[1] == len(mean) else (-1,)
        means, scales = (np.array(values, np.float64).reshape(shape or ()) for values in (mean, scale))
        wide = array.astype(np.float64)
        result: Array = wide / scales + means if back else (wide - means) * scales
        return result.astype(array.dtype)

    return apply


def _cast(dtype: type[np.generic]) -> Callable[[Array], Array | None]:
    def apply(array: Array) -> Array | None:
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            return None
        bounds = np.iinfo(dtype)  # type: ignore[type-var]
        return np.trunc(array).clip(bounds.min, bounds.max).astype(array.dtype)

    return apply


def _signed_bytes(array: Array) -> Array | None:
    """Return bytes from 0 to 255 as read with a sign."""
    if array.size == 0 or array.min() < 0 or array.max() > 255 or array.max() < 128:
        return None
    return array.astype(np.uint8).astype(np.int8).astype(array.dtype)


def _read_as(written: str, read: str, kind: str) -> Callable[[Array], Array | None]:
    """Return the beginning of the bytes of one type, read as another."""

    def apply(array: Array) -> Array | None:
        if array.dtype.kind not in kind or array.size == 0:
            return None
        found = np.frombuffer(array.astype(written).tobytes(), read)[: array.size]
        return found.astype(array.dtype).reshape(array.shape) if np.isfinite(found).all() else None

    return apply


def _normalization() -> Iterator[Variant]:
    fix = "put the mean and scale {where}"
    byte = tuple(255 * value for value in _IMAGENET_MEAN)
    byte_scale = tuple(1 / (255 * value) for value in _IMAGENET_STD)
    for says, mean, scale in (
        ("x / 255", (0.0,), (1 / 255,)),
        ("(x - 127.5) / 127.5", (127.5,), (1 / 127.5,)),
        ("(x - 128) / 128", (128.0,), (1 / 128,)),
        ("(x - 0.5) / 0.5", (0.5,), (2.0,)),
        ("x - 0.5", (0.5,), (1.0,)),
        ("(x - mean) / std of ImageNet", _IMAGENET_MEAN, tuple(1 / value for value in _IMAGENET_STD)),
        ("(x / 255 - mean) / std of ImageNet", byte, byte_scale),
        ("(x / 255 - mean) / std of ImageNet in BGR", byte[::-1], byte_scale[::-1]),
        ("x less the mean pixel (123.68, 116.78, 103.94)", _CAFFE_MEAN[::-1], (1.0,) * 3),
        ("x less the mean pixel (103.94, 116.78, 123.68)", _CAFFE_MEAN, (1.0,) * 3),
        ("(x less the mean pixel) × 0.017", _CAFFE_MEAN, (0.017,) * 3),
    ):
        yield Variant("normalization", f"its input normalised, {says}", fix, _scaled(mean, scale))
        undo = "leave the mean and scale out {where}"
        yield Variant("normalization", f"its input without {says}", undo, _scaled(mean, scale, back=True))


_CHANNELS = "reverse the channels (RGB or BGR, as in training) {where}"
_LAYOUT = "bring the input into the layout that the model was exported with (NCHW or NHWC) {where}"
_TYPE = "feed the type that the model takes; look at where the input is converted {where}"
_VARIANTS = (
    Variant("channel_order", "its channels in reverse (RGB against BGR)", _CHANNELS, _swapped),
    Variant("layout", "its input as NHWC", _LAYOUT, _axes((0, 2, 3, 1))),
    Variant("layout", "its input as NCHW", _LAYOUT, _axes((0, 3, 1, 2))),
    Variant("layout", "bytes that lie as NHWC, read as NCHW", _LAYOUT, _nhwc_bytes),
    Variant("layout", "bytes that lie as NCHW, read as NHWC", _LAYOUT, _nchw_bytes),
    Variant("layout", "its input with rows and columns exchanged", _LAYOUT, _axes((0, 1, 3, 2))),
    *_normalization(),
    Variant("dtype", "its input cut to whole numbers", _TYPE, _cast(np.int32)),
    Variant("dtype", "its input cut to bytes (0 to 255)", _TYPE, _cast(np.uint8)),
    Variant("dtype", "its input cut to bytes with a sign (-128 to 127)", _TYPE, _cast(np.int8)),
    Variant("dtype", "bytes read with a sign", _TYPE, _signed_bytes),
    Variant("dtype", "64-bit floats read as 32-bit ones", _TYPE, _read_as("<f8", "<f4", "f")),
    Variant("dtype", "64-bit integers read as 32-bit ones", _TYPE, _read_as("<i8", "<i4", "iu")),
)
#: Types are not joined with others: there the values themselves are lost.
_PAIRS: list[Way] = [
    (a, b)
    for index, a in enumerate(_VARIANTS)
    for b in _VARIANTS[index + 1 :]
    if a.code != b.code and "dtype" not in (a.code, b.code)
]
