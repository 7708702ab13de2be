"""What a tensor cell feeds a model, and what has to come out: from the folder, else made by this computer's MNN once.

The reference of a folder with ``expected/`` is ONNX Runtime, whatever engine is installed here. Without it the same
model is run here with 32-bit floats: that shows what a phone does wrong, and nothing of what conversion cost.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from harness.core.errors import ConfigError, FarmError, HostError
from harness.core.ids import content_id
from harness.core.resources import cache_dir
from harness.payload.mnn_weights import Weights
from harness.payload.tensor_files import read_tensors, write_tensors
from harness.payload.tensor_inputs import RunError, fit_inputs
from harness.payload.tensor_model import BITS, TensorModel
from harness.payload.tensor_run import RunOptions, run_many, run_model
from harness.payload.tensors import Array

_log = logging.getLogger(__name__)

Tensors = Mapping[str, Array]
ONNX = "onnxruntime"
_LOCK_S = 600.0
INDEX = "index.json"


@dataclass(frozen=True, eq=False)
class TensorCase:
    """Inputs and what is expected of them, sample by sample.

    Attributes:
        samples: for people: the names of the samples' files, or which random input it is.
        inputs: of each, in the types of the engine.
        expected: of each, what the reference made of it.
        reference: ``onnxruntime``, or ``mnn`` and its version.
        real_inputs: whether they were given; else they are random.
        weights: how the model's weights are stored.
        multiplied: how many weights its layers multiply with in each inference; 0 where that is not known.
    """

    samples: tuple[str, ...]
    inputs: tuple[Tensors, ...]
    expected: tuple[Tensors, ...]
    reference: str
    real_inputs: bool
    weights: Weights
    multiplied: int = 0

    @property
    def bits(self) -> int:
        """How many bits each weight is stored in."""
        return BITS[self.weights]

    @property
    def names(self) -> tuple[str, ...]:
        """What the runner calls the samples."""
        return tuple(f"{index:06}" for index in range(len(self.samples)))

    def first(self) -> TensorCase:
        """Return the case of the first sample alone."""
        return replace(self, samples=self.samples[:1], inputs=self.inputs[:1], expected=self.expected[:1])

    def files(self) -> dict[str, bytes]:
        """Return the folder of inputs that the runner reads: its index, and raw little-endian arrays."""
        files: dict[str, bytes] = {}
        index = []
        for name, arrays in zip(self.names, self.inputs, strict=True):
            tensors = []
            for number, (tensor, array) in enumerate(arrays.items()):
                file = f"{name}.{number}.bin"
                files[file] = array.astype(array.dtype.newbyteorder("<")).tobytes()
                told = {"name": tensor, "dtype": str(array.dtype), "shape": list(array.shape), "file": file}
                tensors.append(told)
            index.append({"name": name, "tensors": tensors})
        files[INDEX] = json.dumps({"samples": index}).encode()
        return files


def inputs_hash(model: TensorModel, count: int, seed: int) -> str:
    """Return what tells the inputs of a cell from others, 16 hex digits."""
    if not model.samples:
        return content_id({"seed": seed})[:16]
    chosen = chosen_samples(model, count)
    hashes = dict(zip(model.samples, model.sample_hashes, strict=True))
    return content_id({"samples": [[name, hashes[name]] for name in chosen]})[:16]


def chosen_samples(model: TensorModel, count: int) -> tuple[str, ...]:
    """Return which samples a cell runs: the first ones, of those with something expected where there are any."""
    return (model.expected or model.samples)[:count]


def case_of(model: TensorModel, model_hash: str, count: int, seed: int, say: Callable[[str], None]) -> TensorCase:
    """Return what a cell feeds and expects.

    Raises:
        ConfigError: a sample or what is expected of it cannot be read or does not fit the model, or the model has
            neither samples nor inputs of a fixed size.
        ModelRunError, HostError: this computer cannot make the reference.
    """
    chosen = chosen_samples(model, count)
    given = tuple(_fitted(model, name) for name in chosen)
    if given and model.expected:
        expected = tuple(read_tensors(model.expected_file(name)) for name in chosen)
        return TensorCase(chosen, given, expected, ONNX, True, model.weights, model.multiplied)
    kept = _kept(model, model_hash, given, inputs_hash(model, count, seed), seed, say)
    samples = chosen or (f"random input {seed}",)
    return TensorCase(samples, kept.inputs, kept.outputs, kept.engine, bool(given), model.weights, model.multiplied)


def _fitted(model: TensorModel, name: str) -> Tensors:
    file = model.sample_file(name)
    try:
        return fit_inputs(model.inputs, read_tensors(file))
    except RunError as error:
        raise ConfigError(f"{file}: {error}", remedy="give samples that fit the model") from error


@dataclass(frozen=True, eq=False)
class _Made:
    """What this computer's engine made of the inputs."""

    inputs: tuple[Tensors, ...]
    outputs: tuple[Tensors, ...]
    engine: str


def _kept(
    model: TensorModel, model_hash: str, given: Sequence[Tensors], asked: str, seed: int, say: Callable[[str], None]
) -> _Made:
    """Return what is kept of an earlier cell, else compute it, one process at a time.

    Raises:
        FarmError: it cannot be computed.
    """
    version = _engine_version()
    folder = cache_dir("tensor-references")
    file = folder / f"{content_id({'model': model_hash, 'inputs': asked, 'engine': version})[:32]}.npz"
    lock = FileLock(folder / f".{file.stem}.lock")
    try:
        lock.acquire(timeout=_LOCK_S)
    except Timeout:
        raise HostError(f"others computed the reference of {model.file} for {_LOCK_S:g} s") from None
    try:
        found = _read(file, version)
        if found is not None:
            return found
        say(f"computing the reference of {model.file} on this computer")
        made = _compute(model, given, seed, version)
        _write(file, made)
        return made
    finally:
        lock.release()


def _engine_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"mnn {version('MNN')}"
    except PackageNotFoundError:
        raise HostError(
            "the package MNN is not installed here, and the model's folder has no expected/ to hold outputs to",
            remedy="pip install MNN, or convert the model again with --samples DIR",
        ) from None


def _compute(model: TensorModel, given: Sequence[Tensors], seed: int, engine: str) -> _Made:
    if not given:
        run = run_model(model.path, None, seed=seed)
        return _Made((run.inputs,), (run.outputs,), engine)
    made = run_many(model.path, given, options=RunOptions(precision="high"))
    for outputs in made:
        if isinstance(outputs, str):
            raise FarmError(f"this computer's MNN cannot run {model.path}: {outputs}")
    return _Made(tuple(given), tuple(outputs for outputs in made if not isinstance(outputs, str)), engine)


def _read(file: Path, engine: str) -> _Made | None:
    """Return what a file holds; one that is not there or damaged holds nothing."""
    if not file.is_file():
        return None
    try:
        arrays = read_tensors(file)
        count = int(arrays["count"][()])
        sides = [
            tuple(
                {name.split("/", 2)[2]: array for name, array in arrays.items() if name.startswith(f"{side}/{index}/")}
                for index in range(count)
            )
            for side in ("in", "out")
        ]
    except (ConfigError, KeyError, ValueError, IndexError) as error:
        _log.warning("%s is no reference and is made anew: %s", file, error)
        return None
    return _Made(sides[0], sides[1], engine)


def _write(file: Path, made: _Made) -> None:
    """Keep a reference, whole or not at all. A disk that does not take it costs only the next computation."""
    arrays: dict[str, Array] = {"count": np.array(len(made.inputs))}
    for side, sets in (("in", made.inputs), ("out", made.outputs)):
        for index, tensors in enumerate(sets):
            arrays.update({f"{side}/{index}/{name}": array for name, array in tensors.items()})
    scratch = file.with_name(f".{file.name}.{secrets.token_hex(3)}")
    try:
        write_tensors(scratch, arrays)
        scratch.replace(file)
    except OSError as error:
        _log.warning("a reference could not be kept in %s: %s", file, error.strerror or error)
