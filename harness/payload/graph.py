"""What is read from an ``.mnn`` graph itself: how long its weight file has to be.

Weights may lie beside the graph, in ``MODEL.mnn.weight``. The engine computes with half such a file and says nothing,
so its length is checked before. The graph is a flatbuffer (MNN's schema/default/MNN.fbs); only what leads to the places
in the weight file is read. ``farm_runner.py`` does the same on its own: it is a single file that goes to phones.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

#: Field ``external: [offset, size, size, …]`` in the tables of operators that may keep data in the weight file, by
#: number in the union OpParameter: Blob, Convolution2D, Scale, Convolution3D, LayerNorm, GroupNorm.
_EXTERNAL_FIELD = {7: 9, 9: 6, 58: 3, 80: 3, 88: 5, 95: 6}
_NET_OPERATORS, _NET_SUBGRAPHS, _SUBGRAPH_NODES = 3, 10, 4
_OPERATOR_MAIN_TYPE, _OPERATOR_MAIN = 1, 2


def weight_file_bytes(graph: bytes) -> int:
    """Return where the last piece ends that the graph reads from its weight file, in bytes; 0 when it reads none.

    Raises:
        ValueError: ``graph`` is no whole MNN graph.
    """
    try:
        return _end_of_weights(graph)
    except (struct.error, IndexError) as error:
        raise ValueError("no whole MNN graph") from error


def _end_of_weights(graph: bytes) -> int:
    net = _Table(graph, _number(graph, "<I", 0))
    operators = list(net.tables(_NET_OPERATORS))
    if not operators:
        raise ValueError("no operators")
    for subgraph in net.tables(_NET_SUBGRAPHS):
        operators += subgraph.tables(_SUBGRAPH_NODES)
    end = 0
    for operator in operators:
        kind = operator.field(_OPERATOR_MAIN_TYPE)
        main = operator.field(_OPERATOR_MAIN)
        external = _EXTERNAL_FIELD.get(_number(graph, "<B", kind)) if kind else None
        if external is not None and main:
            places = _Table(graph, main + _number(graph, "<I", main)).items(external, 8)
            end = max(end, sum(_number(graph, "<q", place) for place in places))
    return end


def _number(data: bytes, form: str, at: int) -> int:
    if at < 0:
        raise ValueError("offset before the start")
    return int(struct.unpack_from(form, data, at)[0])


class _Table:
    """A table of a flatbuffer."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._fields = at - _number(data, "<i", at)

    def field(self, index: int) -> int:
        """Return where field ``index`` lies, 0 when it is not there."""
        place = 4 + 2 * index
        there = place < _number(self._data, "<H", self._fields)
        offset = _number(self._data, "<H", self._fields + place) if there else 0
        return self._at + offset if offset else 0

    def items(self, index: int, width: int) -> Iterator[int]:
        """Yield where each element of a vector lies."""
        at = self.field(index)
        if at:
            start = at + _number(self._data, "<I", at)
            count = _number(self._data, "<I", start)
            if count * width > len(self._data):
                raise ValueError("a vector is longer than the file")
            yield from range(start + 4, start + 4 + count * width, width)

    def tables(self, index: int) -> Iterator[_Table]:
        """Yield each table of a vector of tables."""
        for place in self.items(index, 4):
            yield _Table(self._data, place + _number(self._data, "<I", place))
