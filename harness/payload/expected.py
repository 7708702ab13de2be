"""What ONNX Runtime makes of a model's samples, kept beside the converted model: a phone is held to it anywhere."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from harness.core.errors import ConfigError
from harness.payload.samples import Sample
from harness.payload.tensor_files import write_tensors
from harness.payload.tensor_model import EXPECTED, SAMPLES
from harness.payload.tensor_run import run_many


def expect(model: Path, samples: Sequence[Sample], scratch: Path) -> None:
    """Write samples and what ONNX Runtime makes of them below ``scratch``; none, where there are no samples.

    Raises:
        ConfigError: the model cannot be run on one.
        ModelRunError: it cannot be run at all.
        HostError: ONNX Runtime is not installed.
        OSError: the disk refuses.
    """
    if not samples:
        return
    for folder in (SAMPLES, EXPECTED):
        (scratch / folder).mkdir()
    for sample, outputs in zip(samples, run_many(model, [sample.inputs for sample in samples]), strict=True):
        if isinstance(outputs, str):
            raise ConfigError(
                f"{model} cannot be run on {sample.name}: {outputs}", remedy="give samples that fit the model"
            )
        name = f"{Path(sample.name).stem}.npz"
        write_tensors(scratch / SAMPLES / name, sample.inputs)
        write_tensors(scratch / EXPECTED / name, outputs)


def settle(scratch: Path, out: Path) -> None:
    """Move what :func:`expect` wrote to its place.

    What was expected of an earlier conversion goes: it may have been of another model. Samples that somebody put there
    stay where none are given.

    Raises:
        OSError: the disk refuses.
    """
    for folder in (SAMPLES, EXPECTED):
        made = scratch / folder
        if made.is_dir() or folder == EXPECTED:
            shutil.rmtree(out / folder, ignore_errors=True)
        if made.is_dir():
            made.replace(out / folder)
