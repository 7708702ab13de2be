"""Operators of an MNN graph, and what the attention among them keeps of each token.

Numbers are those of MNN's ``schema/default/MNN.fbs``; newer schemas only append.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.payload.flatbuffer import Table, number

#: Fields of ``Op``.
_INPUTS, _MAIN_TYPE, _MAIN, _NAME, _OUTPUTS, _TYPE = 0, 1, 2, 3, 4, 5
#: Members of the union ``OpParameter``.
CONVOLUTION, ROPE, FUSED_LINEAR = 9, 102, 103
_AXIS, _BINARY = 4, 6
#: Members of ``OpType``.
INPUT, ATTENTION, LINEAR_ATTENTION = 34, 299, 305
FUSED_CONVOLUTIONS = 0
CONVOLUTION_COMMON, OUTPUT_COUNT = 0, 10
_KV_CACHE, _SHARED_LAYER, _SHARED_LAYER_INDEX = 0, 1, 3
_K_HEADS, _V_HEADS, _HEAD_K, _HEAD_V = 1, 2, 3, 4


@dataclass(frozen=True)
class Op:
    """An operator: its type (``OpType``), the kind of its parameter (``OpParameter``), and the tensors it joins."""

    type: int
    kind: int
    main: Table | None
    name: bytes
    inputs: list[int]
    outputs: list[int]


@dataclass(frozen=True)
class Cache:
    """How many numbers an attention keeps of each token; ``None``: the graph does not tell."""

    keys: int | None
    values: int | None


def read_op(table: Table) -> Op:
    """Read an operator."""
    kind = table.slot(_MAIN_TYPE)
    return Op(
        table.integer(_TYPE, 0),
        number("<B", table.data, kind) if kind else 0,
        table.child(_MAIN),
        table.text(_NAME),
        [number("<i", table.data, at) for at in table.items(_INPUTS, 4)],
        [number("<i", table.data, at) for at in table.items(_OUTPUTS, 4)],
    )


def caches_of(ops: Sequence[Op]) -> Iterator[Cache]:
    """Yield the cache of each attention that has one of its own.

    Keys and values are as wide as the linear layers that make them. Where one layer makes the query too, or several
    make one of them, their share of it is not told.
    """
    made_by = {index: op for op in ops for index in op.outputs}
    for op in ops:
        if op.type == ATTENTION and len(op.inputs) >= 3 and _keeps(op.main):
            query, key, value = (_widths(index, made_by) for index in op.inputs[:3])
            yield Cache(_one(key, query), _one(value, query))


def state_values(ops: Sequence[Op]) -> int:
    """Return how many numbers the linear attentions keep, however long the text is."""
    total = 0
    for op in ops:
        if op.type == LINEAR_ATTENTION and op.main is not None:
            heads = max(op.main.integer(_K_HEADS, 0), op.main.integer(_V_HEADS, 0))
            total += heads * op.main.integer(_HEAD_K, 0) * op.main.integer(_HEAD_V, 0)
    return total


def _keeps(main: Table | None) -> bool:
    if main is None:
        return True
    cached = main.slot(_KV_CACHE)
    shares = main.integer(_SHARED_LAYER_INDEX, -1) >= 0 or bool(main.text(_SHARED_LAYER))
    return not shares and (not cached or bool(number("<B", main.data, cached)))


_Widths = dict[tuple[int, int], int]


def _one(found: _Widths, query: _Widths) -> int | None:
    return next(iter(found.values())) if len(found) == 1 and not found.keys() & query.keys() else None


def _widths(start: int, made_by: dict[int, Op]) -> _Widths:
    """Return the widths of the linear layers that a tensor comes from, by operator and place in it."""
    found: _Widths = {}
    seen: set[int] = set()
    ahead = [start]
    while ahead:
        index = ahead.pop()
        op = made_by.get(index)
        if op is None or index in seen:
            continue
        seen.add(index)
        place = op.outputs.index(index)
        if op.main is not None and op.kind == CONVOLUTION:
            found[id(op), 0] = _outputs(op.main)
        elif op.main is not None and op.kind == FUSED_LINEAR:
            layers = list(op.main.tables(FUSED_CONVOLUTIONS))
            found[id(op), place] = _outputs(layers[place]) if place < len(layers) else 0
        elif op.kind in (_AXIS, _BINARY):
            ahead += op.inputs
        else:  # what else there is changes shape or scale; its further inputs are sizes
            ahead += op.inputs[place : place + 1] if op.kind == ROPE else op.inputs[:1]
    return found


def _outputs(convolution: Table) -> int:
    common = convolution.child(CONVOLUTION_COMMON)
    return common.integer(OUTPUT_COUNT, 0) if common is not None else 0
