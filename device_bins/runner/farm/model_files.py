"""A language model's files, looked at before the engine is: it takes half a weight file and still shows a speed."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from farm.talk import StageError

LFS_POINTER = b"version https://git-lfs"


def check_model(config_path: Path) -> dict[str, Path]:
    """Return the files that the model names.

    Raises:
        StageError: one is missing, empty, a Git LFS pointer, not what it should be, or too short.
    """
    config = read_object(config_path, "config")
    model_config = config_path.parent / config.get("llm_config", "llm_config.json")
    config = {**config, **read_object(model_config, "load")}
    files = {
        "llm_model": config_path.parent / config.get("llm_model", "llm.mnn"),
        "llm_weight": config_path.parent / config.get("llm_weight", "llm.mnn.weight"),
        "tokenizer_file": config_path.parent / config.get("tokenizer_file", "tokenizer.txt"),
    }
    if "tie_embeddings" not in config:
        files["embedding_file"] = config_path.parent / config.get("embedding_file", "embeddings_bf16.bin")
    for key, path in files.items():
        check_file(path, key, "load")
    try:
        wanted = weight_bytes(files["llm_model"].read_bytes())
    except (struct.error, IndexError, ValueError):
        raise StageError("load", f"{files['llm_model']} (llm_model) is not an MNN graph") from None
    size = files["llm_weight"].stat().st_size
    if size < wanted:
        raise StageError(
            "load",
            f"{files['llm_weight']} (llm_weight) is cut off: it has {size} bytes and the graph reads {wanted}",
        )
    return files


def check_file(path: Path, what: str, stage: str) -> None:
    try:
        with path.open("rb") as file:
            start = file.read(len(LFS_POINTER))
    except OSError as error:
        raise StageError(stage, f"{path} ({what}) cannot be read: {error.strerror}") from None
    if not start:
        raise StageError(stage, f"{path} ({what}) is empty")
    if start == LFS_POINTER:
        raise StageError(stage, f"{path} ({what}) is a Git LFS pointer, not the file itself")


def read_object(path: Path, stage: str) -> dict[str, Any]:
    check_file(path, "configuration", stage)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StageError(stage, f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise StageError(stage, f"{path} is not a JSON object")
    return value


class Table:
    """A table of a flatbuffer, as far as is needed to find the weights' places (MNN's schema/default/MNN.fbs)."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self.vtable = at - self.number("<i", at)

    def number(self, form: str, at: int) -> int:
        if at < 0:
            raise ValueError("offset before the start")
        return int(struct.unpack_from(form, self.data, at)[0])

    def slot(self, index: int) -> int:
        """Return where field ``index`` lies, 0 when it is not there."""
        place = 4 + 2 * index
        offset = self.number("<H", self.vtable + place) if place < self.number("<H", self.vtable) else 0
        return self.at + offset if offset else 0

    def child(self, index: int) -> Table | None:
        at = self.slot(index)
        return Table(self.data, at + self.number("<I", at)) if at else None

    def items(self, index: int, width: int) -> Iterator[int]:
        """Yield where each element of a vector lies."""
        at = self.slot(index)
        if at:
            start = at + self.number("<I", at)
            count = self.number("<I", start)
            if count * width > len(self.data):
                raise ValueError("vector longer than the file")
            for n in range(count):
                yield start + 4 + n * width


#: Position of ``external: [offset, size, size, ...]`` in the operator tables that may keep data in the weight file,
#: by number in the union OpParameter: Blob, Convolution2D, Scale, Convolution3D, LayerNorm, GroupNorm.
EXTERNAL_SLOT = {7: 9, 9: 6, 58: 3, 80: 3, 88: 5, 95: 6}
NET_OPS, NET_SUBGRAPHS, SUBGRAPH_NODES, OP_MAIN_TYPE, OP_MAIN = 3, 10, 4, 1, 2


def weight_bytes(graph: bytes) -> int:
    """Return how long the weight file has to be: the end of the last piece that the graph reads from it.

    Raises:
        struct.error, ValueError: ``graph`` is not an MNN graph.
    """
    net = Table(graph, struct.unpack_from("<I", graph)[0])
    places = list(net.items(NET_OPS, 4))
    if not places:
        raise ValueError("no operators")
    for subgraph in net.items(NET_SUBGRAPHS, 4):
        places += Table(graph, subgraph + net.number("<I", subgraph)).items(SUBGRAPH_NODES, 4)
    end = 0
    for place in places:
        op = Table(graph, place + net.number("<I", place))
        kind = op.slot(OP_MAIN_TYPE)
        main = op.child(OP_MAIN)
        slot = EXTERNAL_SLOT.get(op.number("<B", kind)) if kind else None
        if slot is not None and main is not None:
            end = max(end, sum(main.number("<q", at) for at in main.items(slot, 8)))
    return end


def stop_tokens(tokenizer: Path) -> list[int]:
    """Return the ids that end an answer. All of MNN's tokenizer files begin with the same three lines."""
    try:
        with tokenizer.open("rb") as file:
            magic, counts, ids = (file.readline().split() for _ in range(3))
        specials, stops, _prefix = (int(n) for n in counts)
        if magic[0] != b"430":
            raise ValueError("magic number")
        # some exporters write None for an end that a model does not have
        return [int(n) for n in ids[specials : specials + stops] if n != b"None"]
    except (ValueError, IndexError):
        raise StageError("load", f"{tokenizer} (tokenizer_file) is not an MNN tokenizer") from None
