"""Makes ONNX models for tests, good ones and broken ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
RANDOM = np.random.default_rng(5)
KERNEL = (RANDOM.standard_normal((8, 3, 3, 3)) * 0.3).astype(np.float32)
HEAD = (RANDOM.standard_normal((8 * 64, 10)) * 0.05).astype(np.float32)
IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])

node = helper.make_node
graph = helper.make_graph


def value(name: str, shape: Any = (1, 3, 8, 8), dtype: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, dtype, None if shape is None else list(shape))


def save(
    path: Path,
    nodes: list[Any],
    inputs: list[Any],
    outputs: list[Any],
    weights: dict[str, Any] | None = None,
    *,
    opset: int = 13,
    ir: int = 8,
    domain: str = "",
    **options: Any,
) -> Path:
    named = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    made = helper.make_model(graph(nodes, "g", inputs, outputs, named), opset_imports=imports, ir_version=ir)
    onnx.save(made, str(path), **options)
    return path


def relu(path: Path, shape: Any = (1, 3, 8, 8), **options: Any) -> Path:
    return save(path, [node("Relu", ["x"], ["y"])], [value("x", shape)], [value("y", shape)], **options)


def classifier(
    path: Path, *, bgr: bool = False, nhwc: bool = False, normalised: tuple[Any, Any] | None = None, cast: int = 0
) -> Path:
    """A small network for 16×16 pictures: convolution, ReLU, linear layer; with mistakes to choose from."""
    kernel = np.ascontiguousarray(KERNEL[:, ::-1]) if bgr else KERNEL
    nodes, weights, last = [], {"kernel": kernel, "head": HEAD}, "x"
    if normalised is not None:
        weights |= {
            "mean": np.array(normalised[0], np.float32).reshape(-1, 1, 1),
            "std": np.array(normalised[1], np.float32).reshape(-1, 1, 1),
        }
        nodes += [node("Sub", ["x", "mean"], ["centred"]), node("Div", ["centred", "std"], ["normal"])]
        last = "normal"
    if cast:
        nodes += [node("Cast", [last], ["whole"], to=cast), node("Cast", ["whole"], ["back"], to=FLOAT)]
        last = "back"
    if nhwc:
        nodes.append(node("Transpose", [last], ["turned"], perm=[0, 3, 1, 2]))
        last = "turned"
    nodes += [
        node("Conv", [last, "kernel"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("Flatten", ["r"], ["flat"]),
        node("MatMul", ["flat", "head"], ["y"]),
    ]
    shape = (1, 16, 16, 3) if nhwc else (1, 3, 16, 16)
    return save(path, nodes, [value("x", shape)], [value("y", (1, 10))], weights)
