"""Reads MNN's tokenizer files as far as they can be held against a model: which ids they know.

All kinds begin with the same three lines of text: ``430 KIND``, the counts of special, stop and prefix ids, and those
ids. Kinds 0 to 3 (``tokenizer.txt``) go on with a line that holds the number of tokens and one line for each; kind 4
(``tokenizer.mtok``) goes on in binary. Source: MNN's ``transformers/llm/engine/src/tokenizer/tokenizer.cpp`` (3.6.1).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

MAGIC = 430
_HUGGINGFACE, _PIPELINE = 3, 4
_HEADER_LINES = 3
#: Longest plausible first three lines; some tokenizers have thousands of special tokens.
_HEADER_BYTES = 1_000_000
#: llmexport counts a token of Gemma 3's text format that it does not write.
_UNWRITTEN_LINES = 4


@dataclass(frozen=True)
class MnnTokenizer:
    """What a tokenizer file says.

    Attributes:
        kind: 0 SentencePiece, 1 tiktoken, 2 BERT, 3 Hugging Face, 4 pipeline (``.mtok``).
        special_ids: ids with a meaning of their own.
        stop_ids: ids that end an answer.
        prefix_ids: ids that begin every prompt.
        tokens: ids it knows, the highest plus one; ``None`` where this reader does not know the kind.
        ordinary: the same without the special and the added ones.
        texts: the tokens as text, ``None`` where they are not known (kinds 0 to 3 keep them encoded).
    """

    kind: int
    special_ids: tuple[int, ...]
    stop_ids: tuple[int, ...]
    prefix_ids: tuple[int, ...]
    tokens: int | None
    ordinary: int | None
    texts: frozenset[bytes] | None


class _UnknownPartError(Exception):
    """A part that this reader does not know, of a newer MNN: nothing behind it can be read, and nothing is wrong."""


def read_tokenizer(data: bytes) -> MnnTokenizer:
    """Read a tokenizer file.

    Raises:
        ValueError: the bytes are no MNN tokenizer, or not all of one.
    """
    kind, ids, start = _header(data)
    special = set(ids[0])
    try:
        if kind == _PIPELINE:
            vocabulary, added = _pipeline(_Bytes(data, start))
            ordinary = {token for token in vocabulary if token not in added and token not in special}
            known = vocabulary.keys() | added.keys()
            texts = frozenset([*vocabulary.values(), *added.values()])
            return MnnTokenizer(kind, *ids, max(known, default=-1) + 1, max(ordinary, default=-1) + 1, texts)
        if 0 <= kind <= _HUGGINGFACE:
            tokens = _lines(data, start, kind)
            ordinary_end = next((token for token in range(tokens, 0, -1) if token - 1 not in special), 0)
            return MnnTokenizer(kind, *ids, tokens, ordinary_end, None)
    except RecursionError:
        raise ValueError("its parts lie within each other without an end") from None
    except _UnknownPartError:
        return MnnTokenizer(kind, *ids, None, None, None)
    return MnnTokenizer(kind, *ids, None, None, None)


_Ids = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _header(data: bytes) -> tuple[int, _Ids, int]:
    """Return kind, special, stop and prefix ids, and where the header ends."""
    lines, start = [], 0
    for _ in range(_HEADER_LINES):
        end = data.find(b"\n", start, _HEADER_BYTES)
        if end < 0:
            raise ValueError("it does not begin with three lines of numbers")
        lines.append(data[start:end].split())
        start = end + 1
    try:
        magic, kind = (int(word) for word in lines[0])
        special, stop, prefix = (int(word) for word in lines[1])
    except ValueError:
        raise ValueError("it does not begin with three lines of numbers") from None
    if magic != MAGIC:
        raise ValueError(f"it begins with {magic} instead of {MAGIC}")
    words = lines[2]
    if min(special, stop, prefix) < 0 or len(words) < special + stop + prefix:
        raise ValueError(f"it counts {special + stop + prefix} special ids and has {len(words)}")
    groups = words[:special], words[special : special + stop], words[special + stop : special + stop + prefix]
    # Some exporters write "None" for a special token that the model lacks.
    ids = tuple(tuple(int(word) for word in group if word.isdigit()) for group in groups)
    return kind, (ids[0], ids[1], ids[2]), start


def _lines(data: bytes, start: int, kind: int) -> int:
    """Return how many tokens the kinds in text have."""
    end = data.find(b"\n", start)
    try:
        counts = [int(word) for word in data[start : end if end >= 0 else len(data)].split()]
        tokens = counts[0]
    except (ValueError, IndexError):
        raise ValueError("its fourth line does not count its tokens") from None
    wanted = sum(counts[:2]) if kind == _HUGGINGFACE else tokens  # a Hugging Face one has its merges behind the tokens
    body = data[end + 1 :] if end >= 0 else b""
    there = body.count(b"\n") + (not body.endswith(b"\n") and bool(body))
    if tokens <= 0 or there < wanted - _UNWRITTEN_LINES:
        raise ValueError(f"it is cut off: it counts {wanted} lines and has {there}")
    return tokens


class _Bytes:
    """Little-endian numbers and texts, one after the other."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def number(self, form: str) -> int:
        size = struct.calcsize(form)
        return int(struct.unpack(form, self.take(size))[0])

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise ValueError(f"it is cut off after {len(self.data)} bytes")
        self.at += size
        return self.data[self.at - size : self.at]

    def byte(self) -> int:
        return self.number("<B")

    def count(self) -> int:
        """A number of things that take at least a byte each."""
        number = self.number("<I")
        if number > len(self.data):
            raise ValueError(f"it counts {number} parts in {len(self.data)} bytes")
        return number

    def text(self) -> bytes:
        return self.take(self.number("<H"))


_Table = dict[int, bytes]


def _pipeline(body: _Bytes) -> tuple[_Table, _Table]:
    """Return the tokens of the vocabulary and the added ones, by id; what is between is only stepped over."""
    _normalizer(body)
    _pre_tokenizer(body)
    vocabulary = _vocabulary(body)
    _decoder(body)
    added: _Table = {}
    for _ in range(body.count()):
        token = body.number("<I")
        body.take(3)  # special, and whether blanks beside it belong to it
        added[token] = body.text()
    for skip in (_template, _Bytes.text, _Bytes.byte, _Bytes.text):  # chat template, end word, flags, first word
        if body.at < len(body.data):  # older files end before one of them
            skip(body)
    return vocabulary, added


def _template(body: _Bytes) -> None:
    body.take(body.number("<I"))


def _vocabulary(body: _Bytes) -> _Table:
    kind, size = body.byte(), body.count()
    merges = after = 0
    if kind == 0:  # byte pairs
        body.take(2)
        merges = body.count()
    elif kind == 1:  # word pieces
        body.text()
        body.text()
        body.take(4)
    elif kind == 2:  # unigrams: an id for what is unknown, and a score behind each token
        body.take(5)
        after = 8
    else:
        raise _UnknownPartError
    tokens: _Table = {}
    for _ in range(size):
        text = body.text()
        tokens[body.number("<I")] = text
        body.take(after)
    body.take(12 * merges)
    return tokens


def _normalizer(body: _Bytes) -> None:
    kind = body.byte()
    if kind == 4:
        for _ in range(body.count()):
            _normalizer(body)
    elif kind == 7:  # BERT: its table follows only where accents are stripped
        flags = body.take(4)
        if flags[2]:
            _character_table(body)
    elif kind == 6:
        _character_table(body)
    else:
        _one_of({0: "", 1: "", 2: "t", 3: "tt", 5: "bbbb", 8: "bb"}, kind, body)


def _character_table(body: _Bytes) -> None:
    for _ in range(body.count()):
        body.take(4)
        body.text()


def _pre_tokenizer(body: _Bytes) -> None:
    kind = body.byte()
    if kind == 6:
        for _ in range(body.count()):
            _pre_tokenizer(body)
    else:
        _one_of({0: "", 1: "b", 2: "b", 3: "tb", 4: "tbb", 5: ""}, kind, body)


def _decoder(body: _Bytes) -> None:
    kind = body.byte()
    if kind == 7:
        for _ in range(body.count()):
            _decoder(body)
    elif kind == 6:
        body.text()
        body.take(8)
    else:
        _one_of({0: "", 1: "", 2: "tb", 3: "tb", 4: "", 5: "tt"}, kind, body)


def _one_of(shapes: dict[int, str], kind: int, body: _Bytes) -> None:
    """Step over the texts, ``t``, and single bytes, ``b``, that a part of this kind has."""
    if kind not in shapes:
        raise _UnknownPartError
    for part in shapes[kind]:
        if part == "t":
            body.text()
        else:
            body.byte()
