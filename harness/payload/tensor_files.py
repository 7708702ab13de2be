"""Named arrays in an ``.npz`` file, as ``numpy.savez`` writes it.

Written here rather than by numpy, whose ``savez`` cannot take an array that is called ``file``; and read here, since
what comes from a phone may be anything: nothing is unpickled, and whatever is wrong is one sentence.
"""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from harness.core.errors import ConfigError
from harness.payload.tensors import Array

#: What zipfile and numpy raise over bytes that are not theirs.
_UNREADABLE = (
    EOFError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    SyntaxError,
    ValueError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def read_tensors(path: Path) -> dict[str, Array]:
    """Return the arrays of an ``.npz`` file by name.

    Raises:
        ConfigError: it cannot be read, is no such file, holds nothing, or something other than numbers.
    """
    remedy = "write it with numpy.savez(FILE, name=array, …)"
    try:
        with zipfile.ZipFile(path) as archive:
            found = {}
            for entry in archive.namelist():
                with archive.open(entry) as file:
                    found[entry.removesuffix(".npy")] = np.lib.format.read_array(file, allow_pickle=False)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror or error})", remedy="check the path") from error
    except _UNREADABLE as error:
        raise ConfigError(f"{path} is not a whole .npz file ({error})", remedy=remedy) from error
    if not found:
        raise ConfigError(f"{path} holds no array", remedy=remedy)
    for name, array in found.items():
        if array.dtype.kind not in "biuf":
            raise ConfigError(f"{name} in {path} holds {array.dtype} and no real numbers", remedy=remedy)
    return found


def write_tensors(path: Path, tensors: Mapping[str, Array]) -> None:
    """Write arrays by name.

    Raises:
        OSError: the file cannot be written.
    """
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in tensors.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
