"""An ordinary model and its samples: as a session, and as a module where a session cannot run it."""

from __future__ import annotations

import argparse
import struct
from pathlib import Path
from typing import Any

from farm.backend import BACKEND_CODES, SESSION_INFO_BACKENDS, prove_backend
from farm.model_files import check_file, read_object
from farm.talk import EngineOutput, StageError

TENSOR_DTYPES = ("float32", "int32", "uint8", "int8")
#: ``getSessionInfo``'s number for how resizing went; sessions that work out shapes only when told to; NHWC tensors.
SESSION_INFO_RESIZE, RESIZE_DEFER, NHWC = 3, 7, 0


class Sample:
    """One sample: its arrays by the model's input names."""

    def __init__(self, name: str, arrays: dict[str, Any]) -> None:
        self.name = name
        self.arrays = arrays


def read_samples(folder: Path) -> list[Sample]:
    """Return the samples of ``index.json``.

    Raises:
        StageError: the index or a file is not what it should be.
    """
    import numpy as np  # comes with MNN, and language models do not need it here

    index = read_object(folder / "index.json", "input")
    samples = []
    try:
        for sample in index["samples"]:
            arrays = {}
            for tensor in sample["tensors"]:
                if tensor["dtype"] not in TENSOR_DTYPES:
                    raise StageError("input", f"{tensor['name']} is {tensor['dtype']}, which the engine does not take")
                path = folder / tensor["file"]
                check_file(path, f"sample {sample['name']}", "input")
                if any(extent < 0 for extent in tensor["shape"]):
                    raise ValueError(f"{tensor['name']} has the shape {tensor['shape']}")
                arrays[tensor["name"]] = np.fromfile(path, tensor["dtype"]).reshape(tensor["shape"])
            samples.append(Sample(sample["name"], arrays))
    except (KeyError, TypeError, ValueError) as error:
        raise StageError("input", f"{folder} is no folder of samples: {type(error).__name__}: {error}") from None
    if not samples:
        raise StageError("input", f"{folder} holds no sample")
    return samples


class AsSession:
    """An ordinary model as a session, sized for one sample at a time.

    Creating one raises what the bindings raise, where only a module can run the model.
    """

    def __init__(self, mnn: Any, options: argparse.Namespace, sample: Sample) -> None:
        self.mnn = mnn
        self.interpreter = mnn.Interpreter(str(options.tensor))
        self.interpreter.setSessionMode(RESIZE_DEFER)
        config = {"backend": options.backend.upper(), "numThread": options.threads}
        self.session = self.interpreter.createSession(
            {**config, "precision": options.precision, "memory": options.memory}
        )
        self.tensors = self.interpreter.getSessionInputAll(self.session)
        self.resize(sample)

    def resize(self, sample: Sample) -> None:
        """Make room for a sample.

        Raises:
            StageError: the model takes other inputs, or cannot work out its shapes.
        """
        if set(sample.arrays) != set(self.tensors):
            takes, gives = ", ".join(sorted(self.tensors)), ", ".join(sorted(sample.arrays))
            raise StageError("input", f"the model takes {takes}, sample {sample.name} gives {gives}")
        for name, array in sample.arrays.items():
            self.interpreter.resizeTensor(self.tensors[name], array.shape)
        self.interpreter.resizeSession(self.session)
        told = self.interpreter.getSessionInfo(self.session, SESSION_INFO_RESIZE)
        # The bindings hand out the bits of this integer as a float.
        if struct.unpack("<i", struct.pack("<f", told))[0]:
            raise StageError("input", f"the engine cannot work out its shapes for sample {sample.name}")
        self.hosts = {
            name: self.mnn.Tensor(array.shape, self.tensors[name].getDataType(), array, self.layout(self.tensors[name]))
            for name, array in sample.arrays.items()
        }

    def layout(self, tensor: Any) -> Any:
        """Return the layout in which a tensor's shape reads: never the engine's own blocks of four channels."""
        nhwc = tensor.getDimensionType() == NHWC
        return self.mnn.Tensor_DimensionType_Tensorflow if nhwc else self.mnn.Tensor_DimensionType_Caffe

    def run(self) -> dict[str, Any]:
        """Run it once, inputs in and outputs out; :meth:`array` makes an array of each.

        Raises:
            StageError: the engine failed.
        """
        for name, host in self.hosts.items():
            if not self.tensors[name].copyFrom(host):
                raise StageError("input", f"the engine does not take input {name}")
        code = self.interpreter.runSession(self.session)
        if code:
            raise StageError("run", f"the engine ended the run with error {code}")
        made = {}
        for name, tensor in self.interpreter.getSessionOutputAll(self.session).items():
            host = self.mnn.Tensor(tensor, self.layout(tensor))
            if not tensor.copyToHostTensor(host):
                raise StageError("output", f"the engine does not hand out output {name}")
            made[name] = host
        return made

    def array(self, host: Any) -> Any:
        """Return an output as an array of its own: the engine's lies in memory that goes with ``host``."""
        return host.getNumpyData().copy()

    def proof(self, options: argparse.Namespace, work_dir: Path, output: EngineOutput) -> dict[str, Any]:
        """Return which backend the session runs on, in the engine's own words."""
        code = int(self.interpreter.getSessionInfo(self.session, SESSION_INFO_BACKENDS))
        ran = BACKEND_CODES.get(code, str(code))
        line = output.heard()["fallback"]
        if line:
            ran = "cpu" if ran == options.backend else ran
            return {"backend_actual": ran, "strength": "log", "proof": line}
        proof = f"asked for {options.backend}; the session runs on {ran} (code {code})"
        return {"backend_actual": ran, "strength": "engine", "proof": proof}


class AsModule:
    """An ordinary model as a module, which runs conditions and loops. Only for the CPU something proves what ran."""

    def __init__(self, mnn: Any, options: argparse.Namespace, sample: Sample) -> None:
        self.mnn = mnn
        config = {"backend": "CPU", "numThread": options.threads, "precision": options.precision}
        manager = mnn.nn.create_runtime_manager(({**config, "memory": options.memory},))
        info = mnn.nn.load_module_from_file(str(options.tensor), [], []).get_info()
        self.names, self.outputs = list(info["inputNames"]), list(info["outputNames"])
        self.wanted = {name: info["inputs"][number] for number, name in enumerate(self.names)}
        self.module = mnn.nn.load_module_from_file(
            str(options.tensor), self.names, self.outputs, runtime_manager=manager
        )
        self.resize(sample)

    def resize(self, sample: Sample) -> None:
        """Take a sample; a module sizes itself."""
        if set(sample.arrays) != set(self.names):
            takes, gives = ", ".join(sorted(self.names)), ", ".join(sorted(sample.arrays))
            raise StageError("input", f"the model takes {takes}, sample {sample.name} gives {gives}")
        self.arrays = sample.arrays

    def run(self) -> dict[str, Any]:
        """Run it once, inputs in and outputs out."""
        import numpy as np

        expr = self.mnn.expr
        fed = [self.variable(self.wanted[name], self.arrays[name]) for name in self.names]
        made = self.module.forward(fed)
        if len(made) != len(self.outputs):
            raise StageError("run", "the engine computed nothing")
        plain = [expr.convert(var, expr.NCHW) if var.data_format == expr.NC4HW4 else var for var in made]
        # The bindings do not read what has no element.
        return {
            self.outputs[number]: np.zeros(var.shape, np.float32) if 0 in var.shape else np.array(var.read())
            for number, var in enumerate(plain)
        }

    def array(self, made: Any) -> Any:
        """Return an output as an array, which it is already."""
        return made

    def variable(self, wanted: Any, array: Any) -> Any:
        """Return an input as the engine's variable, in the layout that the model takes."""
        expr = self.mnn.expr
        blocks, int8 = wanted.data_format == expr.NC4HW4, str(array.dtype) == "int8"
        written = array.astype("int32") if int8 else array  # the bindings do not write bytes with a sign
        dtypes = {"int32": expr.int, "uint8": expr.uint8, "float32": expr.float}
        layout = expr.NCHW if blocks else wanted.data_format
        variable = expr.placeholder(list(array.shape), layout, dtypes[str(written.dtype)])
        variable.write(written)
        if int8:
            variable = expr.cast(variable, expr.int8)
        return expr.convert(variable, expr.NC4HW4) if blocks else variable

    def proof(self, options: argparse.Namespace, work_dir: Path, output: EngineOutput) -> dict[str, Any]:
        """Return what a session in this process runs on: below the CPU there is nothing to fall back to."""
        return prove_backend(self.mnn, options.backend, options.backend, work_dir, output)
