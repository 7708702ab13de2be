"""Makes ``profiles/models/tiny-cnn*``: a small convolutional network in three kinds of weights, with samples.

It is the model of the plan ``tensor-quick``: random weights of our own, small enough to commit, with a top-1 to agree
on. Run it from a checkout with ``pip install -e '.[onnx]' onnx``::

    python scripts/make_tiny_cnn.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.payload.convert import ConvertOptions, convert_model
from harness.payload.mnn_weights import Weights
from harness.payload.tensor_files import write_tensors

ROOT = Path(__file__).parents[1] / "profiles" / "models"
VARIANTS = {"tiny-cnn": Weights.FULL, "tiny-cnn-fp16": Weights.HALF, "tiny-cnn-int8": Weights.INT8}
SIDE, CLASSES, SAMPLES = 12, 10, 4


def network(path: Path) -> None:
    """Write the network: its input enlarged, two convolutions, a pool, a linear layer, softmax."""
    random = np.random.default_rng(20261201)
    weights = {
        "scales": np.array([1, 1, 8, 8]),
        "k1": random.standard_normal((8, 3, 3, 3)) * 0.3,
        "k2": random.standard_normal((16, 8, 3, 3)) * 0.15,
        "head": random.standard_normal((16, CLASSES)) * 1.5,
    }
    node = helper.make_node
    nodes = [
        # Enlarged inside, so that samples stay small and an inference takes some tenths of a millisecond.
        node(
            "Resize",
            ["x", "", "scales"],
            ["large"],
            mode="nearest",
            nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
        ),
        node("Conv", ["large", "k1"], ["c1"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "k2"], ["c2"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Relu", ["c2"], ["r2"]),
        node("GlobalAveragePool", ["r2"], ["pool"]),
        node("Flatten", ["pool"], ["flat"]),
        node("MatMul", ["flat", "head"], ["score"]),
        node("Softmax", ["score"], ["y"], axis=1),
    ]
    tensors = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "tiny-cnn",
        [value("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [value("y", TensorProto.FLOAT, [1, CLASSES])],
        tensors,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))


def pictures(folder: Path) -> None:
    """Write the samples: smooth waves of colour, as pictures are."""
    up, across = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    for index in range(SAMPLES):
        waves = [np.sin(2 * np.pi * ((index + 1) * up + channel * across)) for channel in range(3)]
        write_tensors(folder / f"{index}.npz", {"x": np.stack(waves)[None].astype(np.float32)})


def main() -> None:
    """Make all variants anew."""
    with tempfile.TemporaryDirectory() as scratch:
        source, samples = Path(scratch, "tiny-cnn.onnx"), Path(scratch, "samples")
        samples.mkdir()
        network(source)
        pictures(samples)
        for name, weights in VARIANTS.items():
            made = convert_model(source, ROOT / name, ConvertOptions(weights, samples=samples))
            if not made.ok:
                raise SystemExit(f"{name}: {made.findings}")
            (ROOT / name / "convert.log").unlink()


if __name__ == "__main__":
    main()
