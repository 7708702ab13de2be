"""Builds what a model folder is made of: MNN graphs (a writer of flatbuffers), tokenizers, and whole toy folders.

The toy model has 8 inputs, 32 tokens and one quantized layer that computes the logits; its embedding is tied.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HIDDEN, TOKENS = 8, 32
#: count of sizes, sizes in 16 bits, then the table of values and the indices.
HEAD = struct.pack("<BHH", 2, TOKENS, HIDDEN)
LAYER = HEAD + b"i" * (TOKENS * HIDDEN)
SCALES = b"s" * (TOKENS * 8)
WEIGHTS = LAYER + SCALES
TIED = {"weight_offset": len(HEAD), "alpha_offset": len(LAYER), "alpha_size": len(SCALES), "quant_bit": 8}
CONFIG = {
    "llm_model": "llm.mnn",
    "llm_weight": "llm.mnn.weight",
    "tokenizer_file": "tokenizer.mtok",
    "backend_type": "cpu",
    "thread_num": 4,
    "precision": "low",
    "memory": "low",
}
MODEL_CONFIG = {"hidden_size": HIDDEN, "tie_embeddings": TIED, "jinja": {"eos": "<end>"}}

Field = Any  # a table (dict), a list of them, bytes, or (struct format, number) and (format, numbers)


def flatbuffer(root: Mapping[int, Field]) -> bytes:
    """Write tables behind each other, each after the one that names it."""
    out = bytearray(4)
    struct.pack_into("<I", out, 0, _table(out, root))
    return bytes(out)


def _table(out: bytearray, fields: Mapping[int, Field]) -> int:
    count = max(fields, default=-1) + 1
    inline = {n: struct.pack(f[0], f[1]) if _is_number(f) else bytes(4) for n, f in fields.items()}
    vtable = len(out)
    at = vtable + 4 + 2 * count
    places, end = {}, at + 4
    for n, data in inline.items():
        places[n] = end
        end += len(data)
    offsets = [places[n] - at if n in places else 0 for n in range(count)]
    out += struct.pack(f"<HH{count}H", 4 + 2 * count, end - at, *offsets) + struct.pack("<i", at - vtable)
    for data in inline.values():
        out += data
    for n, value in fields.items():
        if not _is_number(value):
            struct.pack_into("<I", out, places[n], _value(out, value) - places[n])
    return at


def _is_number(value: Field) -> bool:
    return isinstance(value, tuple) and isinstance(value[1], int)


def _value(out: bytearray, value: Field) -> int:
    if isinstance(value, Mapping):
        return _table(out, value)
    at = len(out)
    if isinstance(value, bytes):
        out += struct.pack("<I", len(value)) + value + b"\0"
    elif isinstance(value, tuple):
        out += struct.pack(f"<I{len(value[1])}{value[0]}", len(value[1]), *value[1])
    else:
        out += struct.pack("<I", len(value)) + bytes(4 * len(value))
        for n, item in enumerate(value):
            place = at + 4 + 4 * n
            struct.pack_into("<I", out, place, _value(out, item) - place)
    return at


def convolution(
    external: Sequence[int], inputs: int = HIDDEN, outputs: int = TOKENS, *, wide: bool = False, kind: int = 1
) -> dict[int, Field]:
    """A linear layer; ``kind`` 1 is quantized, 3 is half precision."""
    quantized = {2: ("<i", kind), 11: ("<B", int(wide))}
    return {0: {10: ("<i", outputs), 11: ("<i", inputs)}, 3: quantized, 6: ("q", list(external))}


def op(
    kind: int, main: Mapping[int, Field] | None, name: bytes, reads: Sequence[int], *makes: int, type_: int = 0
) -> dict[int, Field]:
    fields = {0: ("i", list(reads)), 1: ("<B", kind), 2: main, 3: name, 4: ("i", list(makes)), 5: ("<i", type_)}
    return {n: value for n, value in fields.items() if value is not None}


def graph(
    ops: Sequence[dict[int, Field]] | None = None,
    *,
    subgraphs: Sequence[tuple[bytes, Sequence[dict[int, Field]]]] = (),
    outputs: Sequence[bytes] = (b"logits",),
    version: bytes = b"3.6.1",
) -> bytes:
    """A graph whose tensors are numbered: 0 input, 1 hidden, 2 and 3 reshaped, 4 logits."""
    if ops is None:
        ops = head()
    fields: dict[int, Field] = {
        0: b"MNNTest",
        2: {2: version},
        3: list(ops),
        4: list(outputs),
        7: [b"input", b"hidden", b"a", b"b", b"logits"],
    }
    if subgraphs:
        fields[10] = [{0: name, 4: list(nodes)} for name, nodes in subgraphs]
    return flatbuffer(fields)


def head(layer: dict[int, Field] | None = None) -> list[dict[int, Field]]:
    """Input, the layer of the logits, and two operators that only pass them on."""
    layer = layer or convolution([0, len(LAYER), len(SCALES), 0, 0])
    return [
        op(21, {}, b"input", [], 0, type_=34),
        op(9, layer, b"/lm/lm_head/Linear", [0], 2),
        op(66, {}, b"convert", [2], 3),
        op(55, {}, b"reshape", [3, 1], 4),
    ]


def header(kind: int, special: Sequence[int] = (), stop: Sequence[int] = (), prefix: Sequence[int] = ()) -> bytes:
    """The three lines that all tokenizers begin with."""
    ids = " ".join(str(n) for n in [*special, *stop, *prefix])
    return f"430 {kind}\n{len(special)} {len(stop)} {len(prefix)}\n{ids}\n".encode()


def mtok(
    ordinary: int = TOKENS - 2,
    added: Mapping[int, bytes] | None = None,
    *,
    before: bytes = b"\0\0",
    after: bytes = b"",
    special: Sequence[int] | None = None,
    stop: Sequence[int] = (TOKENS - 1,),
    prefix: Sequence[int] = (),
) -> bytes:
    """A tokenizer of byte pairs: ``ordinary`` tokens, two merges, and the added ones."""
    if added is None:
        added = {TOKENS - 2: b"<begin>", TOKENS - 1: b"<end>"}
    body = before + struct.pack("<BIBBI", 0, ordinary, 0, 0, 2)
    for token in range(ordinary):
        text = b"t%d" % token
        body += struct.pack("<H", len(text)) + text + struct.pack("<I", token)
    body += bytes(24) + b"\0" + struct.pack("<I", len(added))  # merges, decoder
    for token, text in added.items():
        body += struct.pack("<IBBBH", token, 1, 0, 0, len(text)) + text
    return header(4, sorted(added) if special is None else special, stop, prefix) + body + after


def write_model(folder: Path, config: Mapping[str, Any] | None = None, **files: bytes | None) -> Path:
    """Write a whole toy model; ``files`` replaces contents by name (dots as ``__``), ``None`` leaves one out."""
    contents: dict[str, bytes | None] = {
        "config.json": json.dumps({**CONFIG, **(config or {})}).encode(),
        "llm_config.json": json.dumps(MODEL_CONFIG).encode(),
        "llm.mnn": graph(),
        "llm.mnn.weight": WEIGHTS,
        "tokenizer.mtok": mtok(),
        **{name.replace("__", "."): content for name, content in files.items()},
    }
    folder.mkdir(parents=True)
    for name, content in contents.items():
        if content is not None:
            (folder / name).write_bytes(content)
    return folder


def model_config(**changes: Any) -> bytes:
    """``llm_config.json`` with other keys; ``None`` leaves one out."""
    return json.dumps({k: v for k, v in {**MODEL_CONFIG, **changes}.items() if v is not None}).encode()
