"""Inputs for one run of a model: random ones, or given ones in the types that the model takes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.payload.tensors import Array, shape_text


class RunError(Exception):
    """The run failed; ``code`` is one of :mod:`harness.core.reasons`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Input:
    """What the model says of one input. A dimension of -1 is open."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    layout: Any = None


def random_inputs(inputs: tuple[Input, ...], seed: int) -> dict[str, Array]:
    """Return random values for every input, each from a generator of its own.

    Floats are normally distributed, bytes are as of an image, and other integers are 0 or 1: what is valid for a mask
    as well as for an index or a token id.

    Raises:
        RunError: an input has an open dimension.
    """
    made: dict[str, Array] = {}
    for wanted in inputs:
        if any(extent < 0 for extent in wanted.shape):
            shape = shape_text(wanted.shape)
            raise RunError("bad_plan", f"input {wanted.name} is {shape}: give one of full size with --input FILE.npz")
        random = np.random.default_rng([seed, zlib.crc32(wanted.name.encode())])
        if wanted.dtype.kind == "f":
            made[wanted.name] = random.standard_normal(wanted.shape).astype(wanted.dtype)
        else:
            top = 256 if wanted.dtype == np.uint8 else 2
            made[wanted.name] = random.integers(0, top, wanted.shape).astype(wanted.dtype)
    return made


def fit_inputs(inputs: tuple[Input, ...], given: Mapping[str, Array]) -> dict[str, Array]:
    """Return the given arrays in the types that the model takes.

    Raises:
        RunError: a name, a shape or a value does not fit.
    """
    names = [wanted.name for wanted in inputs]
    if set(names) != set(given):
        takes, gives = ", ".join(sorted(names)) or "no input", ", ".join(sorted(given))
        raise RunError("bad_plan", f"the model takes {takes}; what was given is {gives}")
    fitted = {}
    for wanted in inputs:
        array = given[wanted.name]
        pairs = list(zip(wanted.shape, array.shape, strict=False))
        # A model that does not know how many dimensions its input has says that it has none.
        if wanted.shape and (len(wanted.shape) != array.ndim or any(w not in (-1, g) for w, g in pairs)):
            shapes = f"{shape_text(array.shape)} was given for {shape_text(wanted.shape)}"
            raise RunError("bad_plan", f"input {wanted.name} has another shape: {shapes}{_turned(wanted.shape, array)}")
        with np.errstate(invalid="ignore", over="ignore"):
            cast = array.astype(wanted.dtype)
        rounded = cast.dtype.kind == "f"  # a float may be rounded, but not to infinity
        if not (np.array_equal(np.isfinite(cast), np.isfinite(array)) if rounded else np.array_equal(cast, array)):
            raise RunError("bad_plan", f"input {wanted.name} is {wanted.dtype}, which cannot hold all values given")
        fitted[wanted.name] = np.ascontiguousarray(cast).reshape(array.shape)
    return fitted


def _turned(wanted: tuple[int, ...], array: Array) -> str:
    """Return what to do about an image that lies in the other layout."""
    for says, order in (("NCHW", (0, 3, 1, 2)), ("NHWC", (0, 2, 3, 1))):
        if array.ndim == len(wanted) == 4 and wanted[1:] != (-1, -1, -1):
            turned = [array.shape[axis] for axis in order]
            if all(extent in (-1, given) for extent, given in zip(wanted, turned, strict=True)):
                return f"; it is {says} that the model takes: transpose({', '.join(map(str, order))})"
    return ""
