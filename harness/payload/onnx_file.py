"""Reads of an ONNX file what a conversion can stumble over: inputs, outputs, operators, weights that lie elsewhere.

Field numbers are those of ``onnx.proto``. Nothing of ONNX is imported and no weight is copied: a file of two gigabytes
is read as fast as a small one, and one that is broken, cut off or no ONNX at all is told apart.
"""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.payload.protobuf import ProtobufError, fields

#: Fields of ``ModelProto``.
_IR_VERSION, _PRODUCER, _PRODUCER_VERSION, _GRAPH, _OPSETS = 1, 2, 3, 7, 8
_MODEL_FIELDS = {1, 2, 3, 4, 5, 6, 7, 8, 14, 20, 25, 26}
#: Fields of ``GraphProto``.
_NODE, _INITIALIZER, _INPUT, _OUTPUT, _SPARSE = 1, 5, 11, 12, 15
#: Fields of ``NodeProto`` and ``AttributeProto``.
_NODE_INPUT, _NODE_OUTPUT, _OP_TYPE, _ATTRIBUTE, _DOMAIN = 1, 2, 4, 5, 7
_ATTRIBUTE_TENSOR, _ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS = 5, 6, 11
#: Fields of ``TensorProto``; ``data_location`` 1 is a file of its own.
_TENSOR_NAME, _EXTERNAL, _LOCATION, _IN_FILE = 8, 13, 14, 1
#: ``TensorProto.DataType``.
DTYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
}
#: What a value may be that is no tensor, by its field in ``TypeProto``.
_KINDS = {4: "sequence", 5: "map", 8: "sparse tensor", 9: "optional"}
#: How other files begin that get the wrong name or come in place of the right one.
_OTHERS = (
    (0, b"version https://git-lfs", "a Git LFS pointer; run: git lfs pull"),
    (0, b"PK\x03\x04", "a zip archive, as PyTorch writes them; export it with torch.onnx.export"),
    (0, b"\x80\x02", "a Python pickle, as old PyTorch writes them; export it with torch.onnx.export"),
    (0, b"\x89HDF", "an HDF5 file, as Keras writes them; convert it to ONNX first, e.g. with tf2onnx"),
    (4, b"TFL3", "a TensorFlow Lite model; convert it to ONNX first, e.g. with tf2onnx"),
    (0, b"\x1f\x8b", "compressed with gzip; unpack it"),
    (0, b"<", "a text with markup, as a server sends it in place of a file; download it again"),
    (0, b"{", "a JSON text; give the .onnx file"),
)


class OnnxError(ValueError):
    """A file that cannot be converted. ``code`` is one of :data:`harness.payload.onnx_findings.FINDINGS`."""

    def __init__(self, code: str, says: str) -> None:
        super().__init__(says)
        self.code = code


@dataclass(frozen=True)
class Value:
    """An input or output of a model.

    Attributes:
        name: as the model has it.
        dtype: as numpy calls it; for what is no tensor, what it is.
        shape: -1 is an open dimension; ``None``: the model does not tell.
        symbols: what the model calls its open dimensions, empty where it has no word.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] | None
    symbols: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """Whether its full size is not known."""
        return self.shape is None or any(extent < 0 for extent in self.shape)


@dataclass(frozen=True)
class External:
    """A piece of weights in a file of its own; ``length`` is ``None`` where it goes to the file's end."""

    tensor: str
    location: str
    offset: int
    length: int | None


@dataclass
class OnnxModel:
    """What an ONNX file says of itself.

    Attributes:
        ir_version: of the file format.
        opset: version of the standard operators, 0 when it imports none.
        producer: what wrote it, empty when it does not say.
        inputs: without those that have a value in the file.
        outputs: what it computes.
        operators: how many of each, sub-graphs included; ``domain::`` stands before those of others.
        external: weights that lie in other files.
        undefined: tensors that a node reads and nothing makes, with the node's type.
        subgraphs: whether it has any (``If``, ``Loop``, ``Scan``).
    """

    ir_version: int = 0
    opset: int = 0
    producer: str = ""
    inputs: tuple[Value, ...] = ()
    outputs: tuple[Value, ...] = ()
    operators: Counter[str] = field(default_factory=Counter)
    external: list[External] = field(default_factory=list)
    undefined: list[tuple[str, str]] = field(default_factory=list)
    subgraphs: bool = False


def read_onnx(path: Path) -> OnnxModel:
    """Read a file.

    Raises:
        OnnxError: it is none, it is cut off, or nothing is in it.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        if not file.read(1):
            raise OnnxError("not_onnx", "it is empty")
        return parse_onnx(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))


def parse_onnx(data: memoryview) -> OnnxModel:
    """Read a model from bytes.

    Raises:
        OnnxError: see :func:`read_onnx`.
    """
    start = bytes(data[:64])
    for offset, sign, says in _OTHERS:
        if start[offset:].startswith(sign):
            raise OnnxError("not_onnx", f"it is {says}")
    found = _top_level(data)
    if _GRAPH not in found:
        if _IR_VERSION in found:
            raise OnnxError("onnx_cut_off", "it ends before its graph")
        raise OnnxError("not_onnx", "it has no graph")
    if _OPSETS not in found:
        raise OnnxError("onnx_cut_off", "it ends after its graph and names no operator set")
    try:
        opsets = dict(_opset(_view(value)) for value in found[_OPSETS])
        model = OnnxModel(
            ir_version=_number(found.get(_IR_VERSION, [0])[-1]),
            opset=opsets.get("", opsets.get("ai.onnx", 0)),
            producer=" ".join(_text(found[key][-1]) for key in (_PRODUCER, _PRODUCER_VERSION) if key in found),
        )
        _read_graph(_view(found[_GRAPH][-1]), model, frozenset(), top=True)
    except ProtobufError as error:
        raise OnnxError("not_onnx", f"its content is broken ({error})") from None
    if not model.operators:
        raise OnnxError("graph_empty", "its graph has no operator")
    return model


def _top_level(data: memoryview) -> dict[int, list[int | memoryview]]:
    found: dict[int, list[int | memoryview]] = {}
    try:
        for number, value in fields(data):
            if number not in _MODEL_FIELDS:
                raise OnnxError("not_onnx", f"it has a field {number}, which no ONNX model has")
            found.setdefault(number, []).append(value)
    except ProtobufError as error:
        # A whole beginning of a model, then a field that would go on behind the end.
        if error.cut and _IR_VERSION in found and (error.field is None or error.field in _MODEL_FIELDS):
            raise OnnxError("onnx_cut_off", f"it ends after {len(data)} bytes, within its content") from None
        raise OnnxError("not_onnx", f"its bytes are no ONNX model ({error})") from None
    return found


def _opset(message: memoryview) -> tuple[str, int]:
    domain, version = "", 0
    for number, value in fields(message):
        if number == 1:
            domain = _text(value)
        elif number == 2:
            version = _number(value)
    return domain, version


def _read_graph(graph: memoryview, model: OnnxModel, outer: frozenset[str], *, top: bool = False) -> None:
    found: dict[int, list[memoryview]] = {number: [] for number in (_NODE, _INITIALIZER, _SPARSE, _INPUT, _OUTPUT)}
    for number, value in fields(graph):
        if number in found:
            found[number].append(_view(value))
    inputs, outputs = ([_value(message) for message in found[number]] for number in (_INPUT, _OUTPUT))
    # The values of a sparse tensor are a tensor, which has its name.
    sparse = [_view(part) for message in found[_SPARSE] for number, part in fields(message) if number == 1]
    valued = {_tensor(message, model) for message in (*found[_INITIALIZER], *sparse)}
    nodes = [_Node(message) for message in found[_NODE]]
    known = outer | valued | {value.name for value in inputs} | {name for node in nodes for name in node.outputs}
    for node in nodes:
        model.operators[node.name] += 1
        model.undefined += [(name, node.name) for name in node.inputs if name and name not in known]
        for tensor in node.tensors:
            _tensor(tensor, model)
        for inner in node.graphs:
            model.subgraphs = True
            _read_graph(inner, model, known)
    model.undefined += [(value.name, "output") for value in outputs if value.name not in known]
    if top:
        model.inputs = tuple(value for value in inputs if value.name not in valued)
        model.outputs = tuple(outputs)


class _Node:
    """One operator, and what it carries."""

    def __init__(self, message: memoryview) -> None:
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.tensors: list[memoryview] = []
        self.graphs: list[memoryview] = []
        kind = domain = ""
        for number, value in fields(message):
            if number == _NODE_INPUT:
                self.inputs.append(_text(value))
            elif number == _NODE_OUTPUT:
                self.outputs.append(_text(value))
            elif number == _OP_TYPE:
                kind = _text(value)
            elif number == _DOMAIN:
                domain = _text(value)
            elif number == _ATTRIBUTE:
                self._attribute(_view(value))
        self.name = kind if domain in ("", "ai.onnx") else f"{domain}::{kind}"

    def _attribute(self, message: memoryview) -> None:
        for number, value in fields(message):
            if number == _ATTRIBUTE_TENSOR:
                self.tensors.append(_view(value))
            elif number in (_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS):
                self.graphs.append(_view(value))


def _tensor(message: memoryview, model: OnnxModel) -> str:
    """Return a tensor's name, and note where its data lie if not in it."""
    name, outside, where = "", False, {}
    for number, value in fields(message):
        if number == _TENSOR_NAME:
            name = _text(value)
        elif number == _LOCATION:
            outside = value == _IN_FILE
        elif number == _EXTERNAL:
            entry = {inner: _text(part) for inner, part in fields(_view(value))}
            where[entry.get(1, "")] = entry.get(2, "")
    if outside:
        length = where.get("length", "")
        model.external.append(
            External(name, where.get("location", ""), _whole(where.get("offset", "")) or 0, _whole(length))
        )
    return name


def _value(message: memoryview) -> Value:
    name, kind = "", memoryview(b"")
    for number, value in fields(message):
        if number == 1:
            name = _text(value)
        elif number == 2:
            kind = _view(value)
    for number, value in fields(kind):
        if number == 1:
            return Value(name, *_tensor_type(_view(value)))
        if number in _KINDS:
            return Value(name, _KINDS[number], None)
    return Value(name, "unknown", None)


def _tensor_type(message: memoryview) -> tuple[str, tuple[int, ...] | None, tuple[str, ...]]:
    dtype, shape = "unknown", None
    for number, value in fields(message):
        if number == 1:
            dtype = DTYPES.get(_number(value), f"type {value!r} of ONNX")
        elif number == 2:
            shape = list(_dimensions(_view(value)))
    if shape is None:
        return dtype, None, ()
    return dtype, tuple(extent for extent, _ in shape), tuple(symbol for extent, symbol in shape if extent < 0)


def _dimensions(message: memoryview) -> Iterator[tuple[int, str]]:
    for number, value in fields(message):
        if number == 1:
            found = dict(fields(_view(value)))
            extent = found.get(1, 0)
            # Exporters write open dimensions as a name, as -1, as 0 or as nothing.
            fixed = isinstance(extent, int) and 0 < extent < 1 << 63
            yield (int(extent) if fixed and isinstance(extent, int) else -1), _text(found.get(2, memoryview(b"")))


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def _number(value: int | memoryview) -> int:
    if not isinstance(value, int):
        raise ProtobufError("a message stands where a number should")
    return value


def _view(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ProtobufError("a number stands where a message should")
    return value


def _text(value: int | memoryview) -> str:
    return bytes(_view(value)).decode("utf-8", "replace")
