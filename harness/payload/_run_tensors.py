"""Runs one ``.mnn`` model on given or random inputs and keeps its outputs. Runs in a process of its own.

The harness never imports this file: MNN prints at its import, goes on after errors and may crash. It answers as
:mod:`harness.payload.tensor_program` says; :mod:`harness.payload.tensor_run` is how the harness calls it::

    python -m harness.payload._run_tensors MODEL.mnn --input X.npz --outputs OUT.npz
    python -m harness.payload._run_tensors MODEL.mnn --seed 7 --fed FED.npz --outputs OUT.npz

The run is that of a session, because a session tells which backend it really took. What computes shapes from the
content of an input cannot be run by a session; such a model is run as a module, and there only the CPU, below which the
engine has nothing to fall back to, is sure to be what ran.
"""

from __future__ import annotations

import argparse
import importlib
import struct
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.payload.mnn_graph import read_graph
from harness.payload.tensor_inputs import Input, RunError
from harness.payload.tensor_program import answer, parser_of
from harness.payload.tensors import Array, shape_text

#: MNN's numbers for backends (include/MNN/MNNForwardType.h); 13 is the CPU with its extension for half or int8.
BACKENDS = {0: "cpu", 13: "cpu", 1: "metal", 2: "cuda", 3: "opencl", 5: "nnapi", 6: "opengl", 7: "vulkan"}
#: Which fact ``getSessionInfo`` is asked for (include/MNN/Interpreter.hpp).
_BACKEND_INFO, _RESIZE_INFO = 2, 3
#: A mode of sessions: work out shapes only when told to (same file).
_RESIZE_DEFER = 7
#: ``getDimensionType`` of a tensor in NHWC; all others are read and written as NCHW, also those that lie in NC4HW4.
_NHWC = 0


def main(argv: list[str]) -> int:
    """Run as the arguments say."""
    parser = parser_of(__doc__ or "")
    parser.add_argument("--backend", choices=sorted(set(BACKENDS.values())), default="cpu")
    parser.add_argument("--precision", choices=("low", "normal", "high"), default="high")
    return answer(parser.parse_args(argv), MnnEngine)


class MnnEngine:
    """A model in MNN."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._mnn = importlib.import_module("MNN")
        self._options = options
        self._model = str(options.model)
        try:
            self._mnn.Interpreter(self._model)
            described = self._mnn.nn.load_module_from_file(self._model, [], []).get_info()
            self.inputs = read_inputs(self._mnn, described)
        except Exception as error:  # the engine's bindings raise plain Exception
            raise RunError("load_error", "the engine cannot load it; it is cut off or no MNN model") from error
        self._output_names = described["outputNames"]
        # A session takes a condition or a loop, but cannot work out its shapes.
        self._module_only = options.backend == "cpu" and read_graph(options.model.read_bytes()).subgraphs
        self.facts = {
            "engine": self._mnn.version(),
            "model_version": described["version"],
            "backend": options.backend,
            "backend_code": None,
        }

    def run(self, fed: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Any]]:
        """Run it once, as a session where it can be.

        Raises:
            RunError: the engine failed.
        """
        code: int | None = None
        outputs: dict[str, Array] | None = None
        if not self._module_only:
            try:
                outputs, code = run_session(self._mnn, self._mnn.Interpreter(self._model), fed, self._options)
            except RunError:
                raise
            except Exception:  # noqa: BLE001 - as above; a session refuses what only a module can run
                outputs = None
        if outputs is None:
            outputs = run_module(self._mnn, self._model, self.inputs, self._output_names, fed, self._options)
        if not outputs:
            raise RunError("engine_error", "the model has no outputs")
        return outputs, {"backend_code": code, "ran_as": "module" if code is None else "session"}


def read_inputs(mnn: Any, described: Mapping[str, Any]) -> tuple[Input, ...]:
    """Return what the model says of its inputs."""
    expr = mnn.expr
    # The engine keeps 64-bit integers as 32-bit ones and doubles as floats; so do its input tensors.
    dtypes = {expr.int: np.int32, expr.int64: np.int32, expr.uint8: np.uint8, expr.int8: np.int8}
    return tuple(
        Input(name, tuple(var.shape), np.dtype(dtypes.get(var.dtype, np.float32)), var.data_format)
        for name, var in zip(described["inputNames"], described["inputs"], strict=True)
    )


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
