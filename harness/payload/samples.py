"""A folder of inputs for a model: one ``.npz`` (arrays by input name) or ``.npy`` (a model with one input) a sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.core.errors import ConfigError
from harness.payload.tensor_files import read_tensors
from harness.payload.tensors import Array

_IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".webp"}
_REMEDY = "save one .npz a sample, with numpy.savez(FILE, INPUT_NAME=array), preprocessed as the app does it"


@dataclass(frozen=True, eq=False)
class Sample:
    """One sample: the name of its file, and its arrays by the model's input names."""

    name: str
    inputs: Mapping[str, Array]


def read_samples(folder: Path, input_names: tuple[str, ...]) -> list[Sample]:
    """Read all samples of a folder, in the order of their names.

    Args:
        folder: where they lie.
        input_names: what the model takes; a ``.npy`` file is the one input of a model with one.

    Raises:
        ConfigError: there is no such folder, no sample in it, or one that cannot be read or lacks an input.
    """
    try:
        files = sorted(file for file in folder.iterdir() if not file.name.startswith("."))
    except OSError as error:
        raise ConfigError(f"{folder} cannot be read ({error.strerror})", remedy="give a folder of samples") from error
    found = [file for file in files if file.suffix.lower() in (".npz", ".npy")]
    if not found:
        images = sum(file.suffix.lower() in _IMAGES for file in files)
        holds = f"{images} images and no arrays: how the app scales and normalises them is not known here"
        raise ConfigError(f"{folder} holds {holds if images else 'no sample'}", remedy=_REMEDY)
    return [Sample(file.name, _read(file, input_names)) for file in found]


def _read(file: Path, input_names: tuple[str, ...]) -> Mapping[str, Array]:
    if file.suffix.lower() == ".npz":
        inputs: Mapping[str, Array] = read_tensors(file)
    else:
        inputs = _single(file, input_names)
    if set(inputs) != set(input_names):
        gives, takes = ", ".join(sorted(inputs)), ", ".join(sorted(input_names))
        raise ConfigError(f"{file} gives {gives}, and the model takes {takes}", remedy=_REMEDY)
    return inputs


def _single(file: Path, input_names: tuple[str, ...]) -> Mapping[str, Array]:
    if len(input_names) != 1:
        raise ConfigError(f"{file} is one array, and the model takes {len(input_names)} inputs", remedy=_REMEDY)
    try:
        array = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ConfigError(f"{file} is no whole .npy file ({error})", remedy=_REMEDY) from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        raise ConfigError(f"{file} holds no array of real numbers", remedy=_REMEDY)
    return {input_names[0]: array}
