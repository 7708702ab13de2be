"""Finds the few lines of a log that a rule may look at, fast: by grams of four bytes, before any pattern is tried.

A log of 200 MB has millions of lines and a dozen that matter. Each needle (a literal that a line must have) is known
by its rarest four bytes; a table says for every place of a block at once whether such a gram may begin there. Only
lines with a hit are decoded and compared.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

GRAM = 4
BLOCK = 1 << 20
_MULTIPLIER = 2654435761
_BOMS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
# Letters from common to rare, as they stand in logs; what is not among them is rarer still.
_COMMON = b"e tainorsldcmupgh.0:1fb2_-v=3/y5w4768SACPFMDEIBLTUNRWV"
_OVER_WORDS = 25


@dataclass(frozen=True)
class Found:
    """A line with needles in it: its number from 1, its bytes without the line's end, and which needles."""

    number: int
    raw: bytes
    needles: frozenset[int]


class Scanner:
    """Finds the lines that hold at least one of its needles (case matters, four bytes at least)."""

    def __init__(self, needles: Iterable[str]) -> None:
        self._needles = tuple(needle.encode() for needle in needles)
        self._by_gram: dict[int, list[int]] = {}
        self._may = np.zeros(1 << 16, dtype=np.bool_)
        for index, needle in enumerate(self._needles):
            gram = int.from_bytes(_rarest(needle), "little")
            self._by_gram.setdefault(gram, []).append(index)
            self._may[_hash(gram)] = True
        self._grams = np.array(sorted(self._by_gram), dtype=np.uint32)

    def scan(self, stream: BinaryIO) -> Iterator[Found]:
        """Yield the lines of a stream that hold a needle, in order."""
        number = 1
        for block in blocks(stream):
            yield from self._scan_block(block, number)
            number += block.count(b"\n")

    def _scan_block(self, block: bytes, first: int) -> Iterator[Found]:
        places, grams = self._candidates(block)
        if not len(places):
            return
        ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == 10)
        by_line: dict[int, set[int]] = {}
        for index, gram in zip(np.searchsorted(ends, places).tolist(), grams.tolist(), strict=True):
            by_line.setdefault(index, set()).add(gram)
        for index in sorted(by_line):
            start = int(ends[index - 1]) + 1 if index else 0
            raw = block[start : int(ends[index]) if index < len(ends) else len(block)]
            hits = self._held(raw, by_line[index])
            if hits:
                yield Found(first + index, raw, hits)

    def _candidates(self, block: bytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
        """Return the places where a needle's gram begins, and the grams."""
        places, grams = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.uint32)]
        for offset in range(GRAM):
            count = (len(block) - offset) // GRAM
            if count <= 0:
                break
            values = np.frombuffer(block, dtype="<u4", offset=offset, count=count)
            hit = np.flatnonzero(self._may[(values * np.uint32(_MULTIPLIER)) >> np.uint32(16)])
            hit = hit[np.isin(values[hit], self._grams)]
            places.append(hit * GRAM + offset)
            grams.append(values[hit])
        return np.concatenate(places), np.concatenate(grams)

    def needles_in(self, raw: bytes) -> frozenset[int]:
        """Return which needles one line holds."""
        grams = {int.from_bytes(raw[place : place + GRAM], "little") for place in range(len(raw) - GRAM + 1)}
        return self._held(raw, grams & self._by_gram.keys())

    def _held(self, raw: bytes, grams: Iterable[int]) -> frozenset[int]:
        return frozenset(index for gram in grams for index in self._by_gram[gram] if self._needles[index] in raw)


def blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield a stream in blocks of whole lines: UTF-8 with plain line ends, whatever it was.

    UTF-16 is known by its mark; NULs are left out, which also reads UTF-16 without one. A line longer than a block is
    cut.
    """
    rest = b""
    for block in _plain(stream):
        block = rest + block
        cut = block.rfind(b"\n") + 1
        if not cut and len(block) < BLOCK:
            rest = block
            continue
        rest = block[cut:] if cut else b""
        yield block[:cut] if cut else block
    if rest:
        yield rest


def _plain(stream: BinaryIO) -> Iterator[bytes]:
    first = True
    decoder: codecs.IncrementalDecoder | None = None
    held = b""
    while block := stream.read(BLOCK):
        if first:
            first = False
            name = next((name for mark, name in _BOMS if block.startswith(mark)), None)
            decoder = codecs.getincrementaldecoder(name)("replace") if name else None
            block = block[2:] if name else block.removeprefix(codecs.BOM_UTF8)
        if decoder is not None:
            block = decoder.decode(block).encode("utf-8", "replace")
        if b"\0" in block:
            block = block.translate(None, b"\0")
        if held or b"\r" in block:
            block = held + block
            # The other half of a line's end may come with the next block.
            held = b"\r" if block.endswith(b"\r") else b""
            block = block.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        yield block
    if held:
        yield b"\n"


@cache  # every case asks for the same thousand and a half
def _rarest(needle: bytes) -> bytes:
    if len(needle) < GRAM:
        raise ValueError(f"the needle {needle!r} is shorter than {GRAM} bytes")
    grams = [needle[place : place + GRAM] for place in range(len(needle) - GRAM + 1)]
    # Four bytes that reach over two words are rarer than the beginning of one ("y no" against "Memo").
    return max(grams, key=lambda gram: sum(map(_rarity, gram)) + (_OVER_WORDS if b" " in gram[1:3] else 0))


def _rarity(byte: int) -> int:
    place = _COMMON.find(byte)
    return len(_COMMON) if place < 0 else place


def _hash(gram: int) -> int:
    return (gram * _MULTIPLIER & 0xFFFFFFFF) >> 16
