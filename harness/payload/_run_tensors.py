"""Runs one ``.mnn`` model on given or random inputs and keeps its outputs. Runs in a process of its own.

The harness never imports this file: MNN prints at its import, goes on after errors and may crash. What it prints goes
to stderr; stdout gets one line of JSON, the facts of the run or ``{"error": {"code", "message"}}`` (exit code 1). The
codes are those of :mod:`harness.core.reasons`. :mod:`harness.payload.tensor_run` is how the harness calls it::

    python -m harness.payload._run_tensors MODEL.mnn --input X.npz --outputs OUT.npz
    python -m harness.payload._run_tensors MODEL.mnn --seed 7 --fed FED.npz --outputs OUT.npz

The run is that of a session, because a session tells which backend it really took. What computes shapes from the
content of an input cannot be run by a session; such a model is run as a module, and there only the CPU, below which the
engine has nothing to fall back to, is sure to be what ran.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import struct
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.payload.tensor_files import read_tensors, write_tensors
from harness.payload.tensors import Array, shape_text

#: MNN's numbers for backends (include/MNN/MNNForwardType.h); 13 is the CPU with its extension for half or int8.
BACKENDS = {0: "cpu", 13: "cpu", 1: "metal", 2: "cuda", 3: "opencl", 5: "nnapi", 6: "opengl", 7: "vulkan"}
#: Which fact ``getSessionInfo`` is asked for (include/MNN/Interpreter.hpp).
_BACKEND_INFO, _RESIZE_INFO = 2, 3
#: A mode of sessions: work out shapes only when told to (same file).
_RESIZE_DEFER = 7
#: ``getDimensionType`` of a tensor in NHWC; all others are read and written as NCHW, also those that lie in NC4HW4.
_NHWC = 0


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
    layout: Any


def main(argv: list[str]) -> int:
    """Run as the arguments say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--input", type=Path, help="an .npz file with an array for each input, by name")
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs, without --input")
    parser.add_argument("--backend", choices=sorted(set(BACKENDS.values())), default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=("low", "normal", "high"), default="high")
    parser.add_argument("--outputs", type=Path, required=True, help="where the outputs go")
    parser.add_argument("--fed", type=Path, help="where the inputs go as they were fed")
    options = parser.parse_args(argv)
    answers = os.dup(1)
    os.dup2(2, 1)
    # Line by line, or the last words before a crash stay in the C library's buffer.
    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 1, 0)
    try:
        answer = run(options)
    except RunError as error:
        answer = {"error": {"code": error.code, "message": str(error)}}
    with os.fdopen(answers, "w", encoding="utf-8") as out:
        out.write(json.dumps(answer) + "\n")
    return 1 if "error" in answer else 0


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Run the model and return the facts of the run.

    Raises:
        RunError: the inputs do not fit, or the engine failed.
    """
    mnn = importlib.import_module("MNN")
    model = str(options.model)
    try:
        interpreter = mnn.Interpreter(model)
        described = mnn.nn.load_module_from_file(model, [], []).get_info()
        inputs = read_inputs(mnn, described)
    except Exception as error:  # the engine's bindings raise plain Exception
        raise RunError("load_error", "the engine cannot load it; it is cut off or no MNN model") from error
    given = None if options.input is None else read_tensors(options.input)
    fed = random_inputs(inputs, options.seed) if given is None else fit_inputs(inputs, given)
    code: int | None = None
    try:
        outputs, code = run_session(mnn, interpreter, fed, options)
    except RunError:
        raise
    except Exception:  # noqa: BLE001 - as above; a session refuses what only a module can run
        outputs = run_module(mnn, model, inputs, described["outputNames"], fed, options)
    if not outputs:
        raise RunError("engine_error", "the model has no outputs")
    write_tensors(options.outputs, outputs)
    if options.fed is not None:
        write_tensors(options.fed, fed)
    return {
        "engine": mnn.version(),
        "model_version": described["version"],
        "backend": options.backend,
        "backend_code": code,
        "ran_as": "module" if code is None else "session",
        "inputs": {name: list(array.shape) for name, array in fed.items()},
        "outputs": {name: list(array.shape) for name, array in outputs.items()},
    }


def read_inputs(mnn: Any, described: Mapping[str, Any]) -> tuple[Input, ...]:
    """Return what the model says of its inputs."""
    expr = mnn.expr
    # The engine keeps 64-bit integers as 32-bit ones and doubles as floats; so do its input tensors.
    dtypes = {expr.int: np.int32, expr.int64: np.int32, expr.uint8: np.uint8, expr.int8: np.int8}
    return tuple(
        Input(name, tuple(var.shape), np.dtype(dtypes.get(var.dtype, np.float32)), var.data_format)
        for name, var in zip(described["inputNames"], described["inputs"], strict=True)
    )


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
            raise RunError("bad_plan", f"input {wanted.name} has another shape: {shapes}")
        with np.errstate(invalid="ignore", over="ignore"):
            cast = array.astype(wanted.dtype)
        rounded = cast.dtype.kind == "f"  # a float may be rounded, but not to infinity
        if not (np.array_equal(np.isfinite(cast), np.isfinite(array)) if rounded else np.array_equal(cast, array)):
            raise RunError("bad_plan", f"input {wanted.name} is {wanted.dtype}, which cannot hold all values given")
        fitted[wanted.name] = np.ascontiguousarray(cast).reshape(array.shape)
    return fitted


def run_session(
    mnn: Any, interpreter: Any, fed: Mapping[str, Array], options: argparse.Namespace
) -> tuple[dict[str, Array], int]:
    """Run as a session; return its outputs and the number of the backend that it took.

    Raises:
        RunError: the engine took another backend, or cannot resize it, take an input, run it, or hand out an output.
        Exception: whatever the bindings raise over a model or a type that sessions cannot do.
    """
    config = {"backend": options.backend.upper(), "numThread": options.threads, "precision": options.precision}
    interpreter.setSessionMode(_RESIZE_DEFER)  # or it first tries, and complains of, open dimensions as 1
    session = interpreter.createSession(config)
    code = int(interpreter.getSessionInfo(session, _BACKEND_INFO))
    ran = BACKENDS.get(code, f"backend {code}")
    if ran != options.backend:
        raise RunError("backend_fallback", f"asked for {options.backend}, the engine took {ran}")
    tensors = interpreter.getSessionInputAll(session)
    for name, array in fed.items():
        interpreter.resizeTensor(tensors[name], array.shape)
    interpreter.resizeSession(session)
    # The bindings hand out the bits of this integer as a float.
    (status,) = struct.unpack("<i", struct.pack("<f", interpreter.getSessionInfo(session, _RESIZE_INFO)))
    if status:
        shapes = ", ".join(f"{name} {shape_text(array.shape)}" for name, array in fed.items())
        raise RunError("engine_error", f"the engine cannot work out its shapes for {shapes}")
    for name, array in fed.items():
        tensor = tensors[name]
        host = mnn.Tensor(array.shape, tensor.getDataType(), array, host_layout(mnn, tensor))
        if not tensor.copyFrom(host):
            raise RunError("engine_error", f"the engine does not take input {name}")
    if failed := interpreter.runSession(session):
        raise RunError("engine_error", f"the engine ended the run with error {failed}")
    outputs = {}
    for name, tensor in interpreter.getSessionOutputAll(session).items():
        host = mnn.Tensor(tensor, host_layout(mnn, tensor))
        if not tensor.copyToHostTensor(host):
            raise RunError("engine_error", f"the engine does not hand out output {name}")
        outputs[name] = host.getNumpyData().copy()
    return outputs, code


def host_layout(mnn: Any, tensor: Any) -> Any:
    """Return the layout in which a tensor's shape reads: never the engine's own blocks of four channels."""
    nhwc = tensor.getDimensionType() == _NHWC
    return mnn.Tensor_DimensionType_Tensorflow if nhwc else mnn.Tensor_DimensionType_Caffe


def run_module(
    mnn: Any,
    model: str,
    inputs: tuple[Input, ...],
    output_names: list[str],
    fed: Mapping[str, Array],
    options: argparse.Namespace,
) -> dict[str, Array]:
    """Run as a module on the CPU and return its outputs.

    Raises:
        RunError: another backend was asked for, which nothing would prove, or the engine failed.
    """
    if options.backend != "cpu":
        raise RunError("backend_unproven", f"it runs as a module only, and nothing proves that {options.backend} ran")
    expr = mnn.expr
    config = {"backend": "CPU", "numThread": options.threads, "precision": options.precision}
    try:
        manager = mnn.nn.create_runtime_manager((config,))
        names = [wanted.name for wanted in inputs]
        module = mnn.nn.load_module_from_file(model, names, output_names, runtime_manager=manager)
        made = module.forward([as_variable(expr, wanted, fed[wanted.name]) for wanted in inputs])
        if len(made) != len(output_names):
            raise RunError("engine_error", "the engine computed nothing")
        plain = [expr.convert(var, expr.NCHW) if var.data_format == expr.NC4HW4 else var for var in made]
        # The bindings do not read what has no element.
        return {
            name: np.zeros(var.shape) if 0 in var.shape else np.array(var.read())
            for name, var in zip(output_names, plain, strict=True)
        }
    except RunError:
        raise
    except Exception as error:  # as above
        raise RunError("engine_error", f"the engine cannot run it ({error.__cause__ or error})") from error


def as_variable(expr: Any, wanted: Input, array: Array) -> Any:
    """Return an input as a variable of the engine, in the type and layout that the model takes."""
    blocks, int8 = wanted.layout == expr.NC4HW4, array.dtype == np.int8
    written = array.astype(np.int32) if int8 else array  # the bindings do not write bytes with a sign
    dtypes = {"int32": expr.int, "uint8": expr.uint8, "float32": expr.float}
    layout = expr.NCHW if blocks else wanted.layout
    variable = expr.placeholder(list(array.shape), layout, dtypes[str(written.dtype)])
    variable.write(written)
    if int8:
        variable = expr.cast(variable, expr.int8)
    return expr.convert(variable, expr.NC4HW4) if blocks else variable


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
