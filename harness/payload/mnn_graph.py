"""Reads of an MNN graph (``llm.mnn``, a flatbuffer) what can be held against the other files of a model.

Field numbers are those of MNN's ``schema/default/*.fbs`` (3.6.1); newer schemas only append fields. The runner on the
phone has a smaller walk of its own (``device_bins/runner/farm``); a test holds both to the same
answer.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from harness.payload.flatbuffer import Table, number
from harness.payload.mnn_ops import (
    CONVOLUTION,
    CONVOLUTION_COMMON,
    FUSED_CONVOLUTIONS,
    FUSED_LINEAR,
    INPUT,
    OUTPUT_COUNT,
    ROPE,
    Cache,
    Op,
    caches_of,
    read_op,
    state_values,
)

#: Fields of ``Net`` and ``SubGraphProto``.
_BIZ_CODE, _EXTRA_INFO, _OPS, _OUTPUT_NAMES, _TENSOR_NAMES, _SUBGRAPHS = 0, 2, 3, 4, 7, 10
_EXTRA_INFO_VERSION = 2
_SUBGRAPH_NAME, _SUBGRAPH_NODES = 0, 4
#: Members of the union ``OpParameter``.
_BINARY, _BLOB, _CAST, _PERMUTE, _RESHAPE = 6, 7, 8, 29, 55
_SQUEEZE, _STRIDED_SLICE, _TENSOR_CONVERT, _UNARY = 64, 65, 66, 70
#: Where ``external: [offset, size, size, …]`` stands in the tables that may keep data in the weight file: Blob,
#: Convolution2D, Scale, Convolution3D, LayerNorm, GroupNorm.
_EXTERNAL = {_BLOB: 9, CONVOLUTION: 6, 58: 3, 80: 3, 88: 5, 95: 6}
#: Tables inside other tables that may: a fused projection's convolutions and norm, and the norms of a fused RoPE.
_FUSED_NORM = 3
_ROPE_NORMS = (4, 5)
_LAYER_NORM = 88
_CONVOLUTION_QUANTIZED = 3
_KERNEL_X, _KERNEL_Y, _GROUP, _INPUT_COUNT = 2, 3, 9, 11
_QUANTIZED_TYPE, _QUANTIZED_READ_TYPE, _QUANTIZED_SHAPE_INT32, _QUANTIZED_SCALE_STORAGE = 2, 9, 11, 15
#: Weights by index into a table of values; their piece of the weight file begins with their shape.
_INDEXED = 1
#: From the logits back to the layer that computes them only these lie between: they change shape, type or scale.
_PASSES_ON = {_BINARY, _CAST, _PERMUTE, _RESHAPE, _SQUEEZE, _STRIDED_SLICE, _TENSOR_CONVERT, _UNARY}
_LOGITS = b"logits"
#: llmexport keeps each expert of a mixture as a subgraph of this name, run only for the tokens that it is chosen for.
_EXPERT = b"/expert/"


@dataclass(frozen=True)
class Layer:
    """A quantized linear layer, whose piece of the weight file begins with its shape.

    Attributes:
        name: as the graph has it.
        offset: where its piece of the weight file begins.
        size: bytes of that piece.
        inputs: how many numbers it reads of each token.
        outputs: how many it makes.
        wide: whether the shape is written in 32 bits a number instead of 16.
        scales: how many scales its weights have, offsets not counted.
    """

    name: str
    offset: int
    size: int
    inputs: int
    outputs: int
    wide: bool
    scales: int = 0

    #: Bytes that :meth:`begins` and :meth:`bits` want to see.
    HEAD_BYTES = 18

    @property
    def weights(self) -> int:
        """How many there are."""
        return self.inputs * self.outputs

    @property
    def block(self) -> int | None:
        """How many weights share a scale, ``None`` where that is no whole number."""
        return self.weights // self.scales if self.scales and self.weights % self.scales == 0 else None

    def bits(self, head: bytes) -> int | None:
        """Return how many bits a weight has, ``None`` where ``head`` is not the layer's or ends too soon."""
        at = 1 + (head[0] if head else 0) * (4 if self.wide else 2)
        if not self.begins(head) or len(head) <= at:
            return None
        return max(1, ((head[at] or 256) - 1).bit_length())

    def begins(self, head: bytes) -> bool:
        """Whether ``head``, read at :attr:`offset`, is the beginning of this layer (MNN's ``ReadBlobDim``)."""
        count = head[0] if head else 0
        width = 4 if self.wide else 2
        shape = head[1 : 1 + count * width]
        if not 1 <= count <= 4 or len(shape) < count * width:
            return False
        sizes = struct.unpack(f"<{count}{'I' if self.wide else 'H'}", shape)
        return bool(math.prod(sizes) == self.weights)


@dataclass(frozen=True)
class MnnGraph:
    """What the graph says of the model.

    Attributes:
        version: of MNN's converter that wrote it, e.g. ``3.6.1``.
        weight_end: bytes that the weight file must have: the end of the last piece that the graph reads from it.
        weight_bytes: bytes that the graph reads from the weight file, each piece once.
        logits: how many logits it computes for a token, ``None`` where that cannot be told.
        experts: how many experts it chooses from; 0 for a model that always uses all of its weights.
        layers: its quantized linear layers.
        inputs: names of what it is given.
        operators: the types of its operators (``OpType``).
        caches: what each attention keeps of each token.
        state_values: how many numbers linear attentions keep, however long the text is.
        outputs: names of what it computes.
        subgraphs: whether parts of it run by a condition or in a loop, which only MNN's Module API does.
    """

    version: str | None
    weight_end: int
    weight_bytes: int
    logits: int | None
    experts: int
    layers: tuple[Layer, ...]
    inputs: tuple[str, ...] = ()
    operators: frozenset[int] = frozenset()
    caches: tuple[Cache, ...] = ()
    state_values: int = 0
    outputs: tuple[str, ...] = ()
    subgraphs: bool = False


def read_graph(data: bytes) -> MnnGraph:
    """Read a graph.

    Raises:
        ValueError: the bytes are no MNN graph, or not all of one.
    """
    try:
        return _read(data)
    except struct.error:
        raise ValueError("a field lies beyond the end of the file") from None


def _read(data: bytes) -> MnnGraph:
    net = Table(data, number("<I", data, 0))
    net.text(_BIZ_CODE)  # written first and therefore last in the file: a graph that lacks its end is found out here
    ops = [read_op(table) for table in net.tables(_OPS)]
    if not ops:
        raise ValueError("it has no operators")
    experts = 0
    every = list(ops)
    for subgraph in net.tables(_SUBGRAPHS):
        experts += subgraph.text(_SUBGRAPH_NAME).startswith(_EXPERT)
        every += [read_op(table) for table in subgraph.tables(_SUBGRAPH_NODES)]
    pieces = {(offset, size) for op in every for offset, size in _external(op) if size}
    names = list(net.texts(_TENSOR_NAMES))
    outputs = list(net.texts(_OUTPUT_NAMES))
    info = net.child(_EXTRA_INFO)
    version = info.text(_EXTRA_INFO_VERSION).decode("utf-8", "replace") if info is not None else ""
    return MnnGraph(
        version=version or None,
        weight_end=max((offset + size for offset, size in pieces), default=0),
        weight_bytes=sum(size for _, size in pieces),
        logits=_logits(ops, names) if _LOGITS in outputs else None,
        experts=experts,
        layers=tuple(layer for op in every for layer in _layers(op)),
        inputs=tuple(op.name.decode("utf-8", "replace") for op in ops if op.type == INPUT),
        operators=frozenset(op.type for op in every),
        caches=tuple(caches_of(ops)),
        state_values=state_values(ops),
        outputs=tuple(name.decode("utf-8", "replace") for name in outputs),
        subgraphs=any(True for _ in net.tables(_SUBGRAPHS)),
    )


def _external(op: Op) -> Iterator[tuple[int, int]]:
    """Yield offset and size of each piece of the weight file that an operator reads."""
    if op.main is None:
        return
    if op.kind in _EXTERNAL:
        yield _piece(op.main, _EXTERNAL[op.kind])
    elif op.kind == FUSED_LINEAR:
        for convolution in op.main.tables(FUSED_CONVOLUTIONS):
            yield _piece(convolution, _EXTERNAL[CONVOLUTION])
        yield from _norms(op.main, (_FUSED_NORM,))
    elif op.kind == ROPE:
        yield from _norms(op.main, _ROPE_NORMS)


def _norms(table: Table, fields: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    for field in fields:
        norm = table.child(field)
        if norm is not None:
            yield _piece(norm, _EXTERNAL[_LAYER_NORM])


def _piece(table: Table, field: int) -> tuple[int, int]:
    numbers = [number("<q", table.data, at) for at in table.items(field, 8)]
    if any(number < 0 for number in numbers):
        raise ValueError("a piece of the weight file has a negative place or size")
    return (numbers[0], sum(numbers[1:])) if numbers else (0, 0)


def _layers(op: Op) -> Iterator[Layer]:
    if op.main is None:
        return
    if op.kind == CONVOLUTION:
        convolutions = [op.main]
    elif op.kind == FUSED_LINEAR:
        convolutions = list(op.main.tables(FUSED_CONVOLUTIONS))
    else:
        return
    for convolution in convolutions:
        common, quantized = convolution.child(CONVOLUTION_COMMON), convolution.child(_CONVOLUTION_QUANTIZED)
        offset, size = _piece(convolution, _EXTERNAL[CONVOLUTION])
        if common is None or quantized is None or not size or quantized.integer(_QUANTIZED_TYPE, 0) != _INDEXED:
            continue
        inputs, outputs = common.integer(_INPUT_COUNT, 0), common.integer(OUTPUT_COUNT, 0)
        if inputs * outputs and all(common.integer(field, 1) == 1 for field in (_KERNEL_X, _KERNEL_Y, _GROUP)):
            wide = quantized.slot(_QUANTIZED_SHAPE_INT32)
            is_wide = bool(wide and number("<B", convolution.data, wide))
            name = op.name.decode("utf-8", "replace")
            yield Layer(name, offset, size, inputs, outputs, is_wide, _scales(convolution, quantized))


def _scales(convolution: Table, quantized: Table) -> int:
    """Return how many scales a layer has in the weight file: in 32 bits or 16, with an offset each or none."""
    sizes = [number("<q", convolution.data, at) for at in convolution.items(_EXTERNAL[CONVOLUTION], 8)]
    stored = quantized.slot(_QUANTIZED_SCALE_STORAGE)
    width = 2 if stored and number("<B", quantized.data, stored) else 4
    pair = 2 if quantized.integer(_QUANTIZED_READ_TYPE, 0) else 1
    return sizes[2] // (width * pair) if len(sizes) > 2 else 0


def _logits(ops: list[Op], names: list[bytes]) -> int | None:
    """Return the outputs of the convolution that computes ``logits`` (linear layers are convolutions in MNN)."""
    made_by = {index: op for op in ops for index in op.outputs}
    seen: set[int] = set()
    ahead = [index for index, name in enumerate(names) if name == _LOGITS]
    while ahead:
        index = ahead.pop(0)
        op = made_by.get(index)
        if op is None or index in seen:
            continue
        seen.add(index)
        if op.kind == CONVOLUTION and op.main is not None:
            common = op.main.child(CONVOLUTION_COMMON)
            return (common.integer(OUTPUT_COUNT, 0) or None) if common is not None else None
        if op.kind in _PASSES_ON:
            ahead += op.inputs if op.kind == _BINARY else op.inputs[:1]
    return None
