"""Runs one ``.onnx`` model with ONNX Runtime on the CPU and keeps its outputs. Runs in a process of its own.

As :mod:`harness.payload._run_tensors` does for ``.mnn``; both answer as :mod:`harness.payload.tensor_program` says::

    python -m harness.payload._run_onnx MODEL.onnx --input X.npz --outputs OUT.npz
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.payload.tensor_inputs import Input, RunError
from harness.payload.tensor_program import answer, parser_of
from harness.payload.tensors import Array

#: ONNX Runtime's types by their numpy names; others (text, sequences, bfloat16) are not run here.
_DTYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bool)": "bool",
    **{f"tensor({sign}int{bits})": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
#: Only errors are logged.
_ERRORS = 3


class OnnxEngine:
    """A model in ONNX Runtime."""

    def __init__(self, options: argparse.Namespace) -> None:
        runtime = importlib.import_module("onnxruntime")
        runtime.disable_telemetry_events()
        settings = runtime.SessionOptions()
        settings.intra_op_num_threads = options.threads
        settings.log_severity_level = _ERRORS
        try:
            self._session = runtime.InferenceSession(str(options.model), settings, ["CPUExecutionProvider"])
        except Exception as error:  # its bindings derive their errors from Exception
            raise RunError("load_error", f"ONNX Runtime cannot load it: {error}") from error
        self.inputs = tuple(_input(value) for value in self._session.get_inputs())
        self._outputs = [value.name for value in self._session.get_outputs()]
        self.facts = {"engine": runtime.__version__, "model_version": "", "backend": "cpu", "backend_code": None}

    def run(self, fed: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Any]]:
        """Run it once.

        Raises:
            RunError: ONNX Runtime failed, or an output is no array of numbers.
        """
        try:
            made = self._session.run(self._outputs, dict(fed))
        except Exception as error:  # as above
            raise RunError("engine_error", f"ONNX Runtime cannot run it: {error}") from error
        for name, array in zip(self._outputs, made, strict=True):
            if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
                raise RunError("engine_error", f"output {name} is no array of real numbers")
        return dict(zip(self._outputs, made, strict=True)), {"ran_as": "session"}


def _input(value: Any) -> Input:
    if value.type not in _DTYPES:
        raise RunError("load_error", f"input {value.name} is {value.type}, which is not compared here")
    shape = tuple(extent if isinstance(extent, int) and extent > 0 else -1 for extent in value.shape)
    return Input(value.name, shape, np.dtype(_DTYPES[value.type]))


if __name__ == "__main__":
    raise SystemExit(answer(parser_of(__doc__ or "").parse_args(sys.argv[1:]), OnnxEngine))
