"""Model folders of ``mnn-farm models convert``: ordinary models, with samples and what is expected of them beside.

Only the model itself goes to a phone. ``samples/*.npz`` are real inputs, ``expected/*.npz`` what ONNX Runtime made of
them, under the same names; both are optional, and looked at here without an engine.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.errors import ConfigError
from harness.payload.convert_record import NAME, ConvertRecord, read_record
from harness.payload.engine_needs import EngineNeed, graph_needs
from harness.payload.folder import PayloadFolder, read_folder
from harness.payload.mnn_graph import read_graph
from harness.payload.mnn_weights import Weights, multiplied_weights, stored_weights
from harness.payload.model_problem import Problem
from harness.payload.tensor_inputs import Input

SAMPLES, EXPECTED = "samples", "expected"
_AGAIN = "convert the model again"
_LFS_POINTER = b"version https://git-lfs"
BITS = {Weights.FULL: 32, Weights.HALF: 16, Weights.INT8: 8, Weights.INT4: 4, Weights.CALIBRATED: 8}


@dataclass(frozen=True)
class TensorModel:
    """What there is besides the files that a phone gets.

    Attributes:
        file: the model's name in the folder.
        weights: how they are stored.
        source: SHA-256 of the ONNX model it was converted from.
        inputs: what it takes, in the types of the engine.
        samples: the files of real inputs, by name; empty where there are none.
        expected: which of them ONNX Runtime's outputs are there for.
        sample_hashes: SHA-256 of each sample's file.
        graph_version: of MNN's converter that wrote it.
        needs: what it has that not every MNN knows.
        multiplied: how many weights its layers multiply with in each inference; 0 where that is not known.
        by_session: whether MNN's sessions can run it; else only its Module API can.
    """

    file: str
    weights: Weights
    source: str
    inputs: tuple[Input, ...]
    folder: Path
    samples: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    sample_hashes: tuple[str, ...] = ()
    graph_version: str | None = None
    needs: tuple[EngineNeed, ...] = ()
    multiplied: int = 0
    by_session: bool = True

    @property
    def path(self) -> Path:
        """The model on this computer."""
        return self.folder / self.file

    def sample_file(self, name: str) -> Path:
        """Return the file of a sample's inputs."""
        return self.folder / SAMPLES / name

    def expected_file(self, name: str) -> Path:
        """Return the file of what ONNX Runtime made of a sample."""
        return self.folder / EXPECTED / name


@dataclass(frozen=True)
class TensorCheck:
    """A folder as it was found. ``model`` and ``content`` are there where no problem is an error."""

    path: Path
    problems: tuple[Problem, ...]
    model: TensorModel | None = None
    content: PayloadFolder | None = None


def check_tensor_folder(path: Path) -> TensorCheck:
    """Look at a folder; what is wrong with it is in ``problems``."""
    path = path.resolve()
    found = list(_problems(path))
    if any(not problem.warning for problem in found):
        return TensorCheck(path, tuple(found))
    file = next(path.glob("*.mnn"))
    record = read_record(file)
    if record is None:
        raise AssertionError("a model without a record is a problem")
    data = file.read_bytes()
    graph = read_graph(data)
    only = [file.name, *([f"{file.name}.weight"] if graph.weight_end else [])]
    samples = _npz(path / SAMPLES)
    content = read_folder(path / SAMPLES, only=samples).files if samples else ()
    model = TensorModel(
        file=file.name,
        weights=stored_weights(data),
        source=str(record.value["source"]["sha256"]),
        inputs=tuple(_inputs(record)),
        folder=path,
        samples=samples,
        expected=tuple(name for name in _npz(path / EXPECTED) if name in samples),
        sample_hashes=tuple(one.sha256 for one in content),
        graph_version=graph.version,
        needs=tuple(graph_needs(graph)),
        multiplied=multiplied_weights(data),
        by_session=record.api != "module",
    )
    return TensorCheck(path, tuple(found), model, read_folder(path, only=only))


def _problems(path: Path) -> Iterator[Problem]:
    """Yield what makes a folder useless, the cause before its consequences."""
    models = sorted(file.name for file in path.glob("*.mnn"))
    if len(models) != 1:
        says = f"{path} holds {len(models)} models ({', '.join(models) or 'no .mnn'})"
        yield Problem("file_missing", says, "give each model a folder of its own: mnn-farm models convert")
        return
    file = path / models[0]
    try:
        data = file.read_bytes()
    except OSError as error:
        yield Problem("file_unreadable", f"{file} cannot be read ({error.strerror})", "check the file")
        return
    if not data or data.startswith(_LFS_POINTER):
        empty = not data
        says = f"{file} is empty" if empty else f"{file} is a Git LFS pointer, not the file"
        yield Problem("file_empty" if empty else "lfs_pointer", says, _AGAIN if empty else "run: git lfs pull")
        return
    yield from _of_graph(file, data)


def _of_graph(file: Path, data: bytes) -> Iterator[Problem]:
    try:
        graph = read_graph(data)
        stored_weights(data)
    except ValueError as error:
        yield Problem("graph_unreadable", f"{file} is no whole MNN model ({error})", _AGAIN)
        return
    weights = file.with_name(f"{file.name}.weight")
    there = weights.stat().st_size if weights.is_file() else -1
    if graph.weight_end and graph.weight_end > there:
        says = f"{weights} is not there" if there < 0 else f"{weights} has {there} of {graph.weight_end} bytes"
        yield Problem("file_missing" if there < 0 else "weights_short", says, _AGAIN)
    try:
        record = read_record(file)
    except ConfigError as error:
        yield Problem("config_unreadable", error.message, error.remedy)
        return
    if record is None:
        record_file = file.with_name(NAME)
        if record_file.is_file():
            yield Problem("file_other", f"{file} is not the model that {record_file} tells of", _AGAIN)
        else:
            fix = "convert it from ONNX: mnn-farm models convert MODEL.onnx -o DIR"
            yield Problem("file_missing", f"{record_file} is not there, which tells what the model takes", fix)
        return
    try:
        list(_inputs(record))
        str(record.value["source"]["sha256"])
    except (KeyError, TypeError, ValueError) as error:
        says = f"{file.with_name(NAME)} does not tell what the model takes and comes from ({error})"
        yield Problem("config_unreadable", says, _AGAIN)
        return
    yield from _of_samples(file.parent, record)


def _of_samples(path: Path, record: ConvertRecord) -> Iterator[Problem]:
    """Look at the first pieces of every sample: names and types lie in the archive's heads."""
    names = {str(value["name"]) for value in record.value["inputs"]}
    for name in _npz(path / SAMPLES):
        gives = _names_in(path / SAMPLES / name)
        if gives != names:
            says = f"{path / SAMPLES / name} " + (
                "is not a whole .npz file" if gives is None else f"gives {_list(gives)}, the model takes {_list(names)}"
            )
            yield Problem("sample_unfit", says, "write it with numpy.savez(FILE, INPUT_NAME=array)")
    for name in _npz(path / EXPECTED):
        if _names_in(path / EXPECTED / name) is None:
            yield Problem("sample_unfit", f"{path / EXPECTED / name} is not a whole .npz file", _AGAIN)
    unheld = set(_npz(path / EXPECTED)) - set(_npz(path / SAMPLES))
    if unheld:
        says = f"{path / EXPECTED} holds {min(unheld)}, which no sample is called"
        yield Problem("sample_unfit", says, "remove it", warning=True)


def _names_in(file: Path) -> set[str] | None:
    try:
        with zipfile.ZipFile(file) as archive:
            return {name.removesuffix(".npy") for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile, NotImplementedError):
        return None


def _npz(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(file.name for file in folder.glob("*.npz") if not file.name.startswith(".")))


def _inputs(record: ConvertRecord) -> Iterator[Input]:
    for value in record.value["inputs"]:
        shape = tuple(-1 if extent is None else int(extent) for extent in value["shape"] or ())
        yield Input(str(value["name"]), shape, np.dtype(value["engine_dtype"] or np.float32))


def facts_of(model: TensorModel) -> dict[str, Any]:
    """Return what ``mnn-farm models verify`` shows."""
    return {
        "kind": "tensor",
        "weights": model.weights.value,
        "samples": len(model.samples),
        "expected": len(model.expected),
        "engine_version": model.graph_version,
        "engine_needed": model.needs[0].since if model.needs else None,
    }


def _list(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
