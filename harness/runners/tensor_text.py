"""Arrays as MNN's tools read and write them: numbers in text, the last dimension first to change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.core.errors import ConfigError
from harness.core.reasons import Reason
from harness.payload.tensors import Array

#: What stands for the type of an output that is text; see :func:`array_of`.
TEXT = "text"


def text_of(array: Array, name: str) -> bytes:
    """Return an input as text, one number a line; 32-bit floats keep every bit.

    Floats too small to be normal become 0: C++ calls them an error and reads zeros from there on.

    Raises:
        ConfigError: a number is not finite, which C++ does not read either.
    """
    flat = np.ascontiguousarray(array).ravel()
    if flat.dtype.kind != "f":
        return "".join(f"{int(value)}\n" for value in flat).encode()
    if not np.isfinite(flat).all():
        raise ConfigError(
            f"input {name} holds NaN or infinity, which MNN's tools cannot read from text",
            remedy="use farm_runner, or another sample",
            reason=Reason.BAD_PLAN,
        )
    single = flat.astype(np.float32)
    normal = np.where(np.abs(single) < np.finfo(np.float32).tiny, np.float32(0), single)
    return "".join(f"{value:.9g}\n" for value in normal.tolist()).encode()


def array_of(text: bytes, shape: Sequence[int]) -> Array:
    """Return an output that a tool wrote as text, with six digits, in a shape that it does not tell: the reference's.

    NaN and infinity are numbers here, and judged by whoever compares.

    Raises:
        ValueError: it is no text of numbers, or not of so many; the message says what it is.
    """
    try:
        values = np.array([float(word) for word in text.split()], np.float64)
    except ValueError:
        raise ValueError("is no text of numbers") from None
    count = int(np.prod(shape, dtype=np.int64))
    if values.size != count:
        raise ValueError(f"has {values.size} numbers, the reference has {count}")
    return values.reshape(tuple(shape))
