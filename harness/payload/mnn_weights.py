"""How the weights of a ``.mnn`` model are stored: full, half, in 8 or 4 bits; and whether its activations are too.

Field numbers are those of MNN's ``schema/default/*.fbs`` (3.6.1).
"""

from __future__ import annotations

import struct
from collections import Counter
from enum import Enum

from harness.payload.flatbuffer import Table, number
from harness.payload.mnn_ops import CONVOLUTION, read_op

#: Fields of ``Net``, ``SubGraphProto``, ``TensorDescribe``, ``Convolution2D`` and ``IDSTQuan``.
_EXTRA_TENSORS, _OPS, _SUBGRAPHS, _NODES, _QUANT_INFO = 1, 3, 10, 4, 4
_WEIGHT, _QUANTIZED, _SYMMETRIC = 1, 3, 4
_BUFFER, _TYPE, _BITS = 0, 2, 7
#: ``IDSTQuan.type``.
_HALF = 3


class Weights(Enum):
    """How a model's weights are stored; the value is what people and ``convert.json`` call it."""

    FULL = "fp32"
    HALF = "fp16"
    INT8 = "int8"
    INT4 = "int4"
    #: Weights and activations in 8 bits, by calibration.
    CALIBRATED = "int8-calibrated"


def stored_weights(data: bytes) -> Weights:
    """Return how most of a model's weights are stored.

    Raises:
        ValueError: the bytes are no MNN graph, or not all of one.
    """
    try:
        return _stored(data)
    except struct.error:
        raise ValueError("a field lies beyond the end of the file") from None


def multiplied_weights(data: bytes) -> int:
    """Return how many weights the model's layers multiply with in each run; 0 where parts of it may be left out.

    Tables that are looked up are not among them, nor what lies in a weight file of its own. Of weights in 8 or 4 bits
    some hundred more are counted a layer: what says how to read them lies with them.

    Raises:
        ValueError: the bytes are no MNN graph, or not all of one.
    """
    try:
        net = Table(data, number("<I", data, 0))
        return 0 if any(True for _ in net.tables(_SUBGRAPHS)) else _counted(net).total()
    except struct.error:
        raise ValueError("a field lies beyond the end of the file") from None


def _counted(net: Table) -> Counter[Weights]:
    counted: Counter[Weights] = Counter()
    tables = list(net.tables(_OPS))
    for subgraph in net.tables(_SUBGRAPHS):
        tables += subgraph.tables(_NODES)
    for table in tables:
        op = read_op(table)
        if op.kind == CONVOLUTION and op.main is not None:
            counted.update(_convolution(op.main))
    return counted


def _stored(data: bytes) -> Weights:
    net = Table(data, number("<I", data, 0))
    counted = _counted(net)
    if any(described.slot(_QUANT_INFO) for described in net.tables(_EXTRA_TENSORS)):
        return Weights.CALIBRATED
    return counted.most_common(1)[0][0] if counted else Weights.FULL


def _convolution(convolution: Table) -> Counter[Weights]:
    quantized = convolution.child(_QUANTIZED)
    if quantized is None:
        return Counter({Weights.FULL: len(convolution.items(_WEIGHT, 4))})
    stored = len(quantized.items(_BUFFER, 1))
    if quantized.integer(_TYPE, 0) == _HALF:
        return Counter({Weights.HALF: stored // 2})
    bits = quantized.integer(_BITS, 8) or 8
    return Counter({Weights.INT4 if bits <= 4 else Weights.INT8: stored * 8 // bits})
