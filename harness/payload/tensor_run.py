"""A ``.mnn`` or ``.onnx`` model run on this computer, in a process of its own, and what came out of it."""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import ConfigError, HarnessError, HostError, ModelIncompleteError, ModelRunError
from harness.core.reasons import Fault, Reason
from harness.payload.mnn_graph import read_graph
from harness.payload.tensor_files import read_tensors, write_tensors
from harness.payload.tensors import Array

_MNN, _ONNX = "harness.payload._run_tensors", "harness.payload._run_onnx"
_LFS_POINTER = b"version https://git-lfs"
_AGAIN = "convert or download the model again"
_COMPLAINT = re.compile(r"error|fail|invalid|not found|can't|not enough|wrong|don't|support", re.IGNORECASE)
#: Lines like complaints that are none: the processor's features, and that a session is not enough for this model.
_HARMLESS = re.compile(r"^The device supports|please use module api instead")


#: What stands before ONNX Runtime's own words.
_NOISE = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : \w+ : |Load model from .*? failed:\s*|/\S+:\d+ \S.*?&\S*\)\s|^Fatal error: "
)


@dataclass(frozen=True)
class RunOptions:
    """How a model is run. ``precision`` is MNN's: ``high`` is 32-bit floats throughout."""

    backend: str = "cpu"
    threads: int = 2
    precision: str = "high"
    timeout_s: float = 600.0


@dataclass(frozen=True, eq=False)
class TensorRun:
    """One inference: inputs as they were fed, outputs by name, and what the engine says of itself.

    ``backend`` is the one that really ran. ``backend_code`` is the engine's own number for it; ``None`` when the model
    could only be run as a module, which the harness does on the CPU alone.
    """

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    backend: str
    backend_code: int | None
    engine: str
    model_version: str
    log: str


def run_model(
    model: Path, inputs: Mapping[str, Array] | None = None, *, seed: int = 0, options: RunOptions | None = None
) -> TensorRun:
    """Run a model once, on ``inputs`` by name or, without any, on random ones from ``seed``.

    An ``.onnx`` model is run by ONNX Runtime, on the CPU and in the types that it is written in.

    Raises:
        ConfigError: there is no such model, its weight file is cut off, or the inputs do not fit it.
        ModelRunError: the engine cannot load or run it, took another backend, or crashed.
        HostError: the process cannot be started, or ONNX Runtime is not installed.
    """
    options = options or RunOptions()
    with tempfile.TemporaryDirectory(prefix="mnn-farm-tensors-") as scratch:
        outputs, fed = Path(scratch, "outputs.npz"), Path(scratch, "fed.npz")
        argv = ["--outputs", str(outputs), "--fed", str(fed), "--seed", str(seed)]
        if inputs is not None:
            given = Path(scratch, "inputs.npz")
            write_tensors(given, inputs)
            argv += ["--input", str(given)]
        facts, log = _run_program(model, argv, options, scratch)
        return TensorRun(
            inputs=read_tensors(fed) if facts["inputs"] else {},
            outputs=read_tensors(outputs),
            backend=facts["backend"],
            backend_code=facts["backend_code"],
            engine=facts["engine"],
            model_version=facts["model_version"],
            log=log,
        )


def run_many(
    model: Path, inputs: Sequence[Mapping[str, Array]], *, options: RunOptions | None = None
) -> list[dict[str, Array] | str]:
    """Run a model on each of many inputs, in one process; return for each the outputs, or why there are none.

    Raises:
        ConfigError, ModelRunError, HostError: as :func:`run_model`, where no input could be run at all.
    """
    with tempfile.TemporaryDirectory(prefix="mnn-farm-tensors-") as scratch:
        given, made = Path(scratch, "inputs"), Path(scratch, "outputs")
        given.mkdir()
        made.mkdir()
        for index, arrays in enumerate(inputs):
            write_tensors(given / f"{index:06}.npz", arrays)
        argv = ["--batch", str(given), "--outputs", str(made)]
        facts, _ = _run_program(model, argv, options or RunOptions(), scratch)
        return [
            str(run["error"]["message"]) if "error" in run else read_tensors(made / run["name"])
            for run in facts["runs"]
        ]


def _run_program(model: Path, argv: list[str], options: RunOptions, scratch: str) -> tuple[dict[str, Any], str]:
    model = model.resolve()
    _check_file(model)
    program, more = _MNN, ["--backend", options.backend, "--precision", options.precision]
    if model.suffix.lower() == ".onnx":
        if importlib.util.find_spec("onnxruntime") is None:
            raise HostError("ONNX Runtime is not installed here", remedy="pip install 'mnn-farm[onnx]'")
        program, more = _ONNX, []
    else:
        _check_weights(model)
    whole = [sys.executable, "-m", program, str(model), *argv, "--threads", str(options.threads), *more]
    return _run(whole, model, scratch, options.timeout_s)


def _check_file(model: Path) -> None:
    try:
        with model.open("rb") as file:
            start = file.read(len(_LFS_POINTER))
    except OSError as error:
        raise ConfigError(f"{model} cannot be read ({error.strerror})", remedy="check the path") from error
    if not start:
        raise ConfigError(f"{model} is empty", remedy=_AGAIN)
    if start == _LFS_POINTER:
        raise ConfigError(f"{model} is a Git LFS pointer, not the file", remedy="run: git lfs pull")


def _check_weights(model: Path) -> None:
    try:
        wanted = read_graph(model.read_bytes()).weight_end
    except ValueError:
        return  # the engine refuses such a graph by itself, in its own words
    if not wanted:
        return
    weights = model.with_name(f"{model.name}.weight")
    _check_file(weights)
    there = weights.stat().st_size
    if there < wanted:
        raise ModelIncompleteError(
            f"{weights} is cut off: it has {there} bytes and the model reads {wanted}", remedy=_AGAIN
        )


def _run(argv: list[str], model: Path, cwd: str, timeout_s: float) -> tuple[dict[str, Any], str]:
    try:
        done = subprocess.run(
            argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise ModelRunError(f"{model} did not end within {timeout_s:g} s", reason=Reason.HANG) from None
    except OSError as error:
        raise HostError(f"{argv[0]} cannot be run ({error.strerror})") from error
    log = done.stderr.decode("utf-8", "replace")
    said = _complaint(log)
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise ModelRunError(f"{model}: the engine crashed ({name}){said}", reason=Reason.CRASH)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise HarnessError(f"{argv[2]} ended with {done.returncode} and without an answer: {log[-500:]}") from None
    if "error" in answer:
        reason = Reason.from_code(answer["error"]["code"])
        message = f"{model}: {one_sentence(answer['error']['message'])}"
        if reason.fault is Fault.CONFIG:
            raise ConfigError(message)
        raise ModelRunError(message + said, reason=reason)
    return answer, log


def one_sentence(message: str) -> str:
    """Return what ONNX Runtime says without its codes, the name of the file and the C++ function it stands in."""
    return _NOISE.sub("", " ".join(message.split()))[:400].rstrip(". ")


def _complaint(log: str) -> str:
    """Return the first thing that the engine complained of: what follows is mostly its consequence."""
    for line in log.splitlines():
        if _COMPLAINT.search(line) and not _HARMLESS.search(line):
            return f'; it said: "{line.strip()[:200]}"'
    return ""
