"""Which lines of a text may hold something of somebody: those with certain words or shapes. Pure.

Most lines of a log hold neither, and are not looked at again: a text of 200 MB takes seconds instead of minutes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.int64]
BLOCK = 1 << 20
_DIGITS_OF_A_NUMBER = 14
_DOT, _COLON, _DASH = b".:-"


class Suspects:
    """Finds lines by words, which are given in small letters, and by the shapes of numbers and addresses."""

    def __init__(self, words: Iterable[str], *, shapes: bool = True) -> None:
        self._with_shapes = shapes
        self._words = re.compile(_any_of(sorted({word.encode() for word in words})))

    def lines(self, data: bytes, also: re.Pattern[bytes] | None = None) -> Iterator[int]:
        """Yield the numbers of suspicious lines, from 0, in order; ``also`` finds more, in small letters."""
        first, at = 0, 0
        while at < len(data):
            end = data.find(b"\n", at + BLOCK) + 1 or len(data)
            block = data[at:end]
            small = block.lower()
            places = [match.start() for match in self._words.finditer(small)]
            if also is not None:
                places += [match.start() for match in also.finditer(small)]
            found = np.concatenate([np.array(places, dtype=np.int64), *(_shapes(block) if self._with_shapes else ())])
            ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n"))
            for line in np.unique(np.searchsorted(ends, found)).tolist():
                yield first + line
            first, at = first + len(ends), end


def _any_of(words: Sequence[bytes]) -> bytes:
    """Return a pattern of any of these sorted words that tries each letter once, not each word."""
    if b"" in words:
        return b""
    branches = []
    for letter, those in groupby(words, key=lambda word: word[:1]):
        branches.append(re.escape(letter) + _any_of([word[1:] for word in those]))
    return branches[0] if len(branches) == 1 else b"(?:" + b"|".join(branches) + b")"


def _shapes(block: bytes) -> Iterator[Places]:
    """Yield where there may be an address of IPv4 or IPv6, hex pairs with marks between them, a long number."""
    chars = np.frombuffer(block, dtype=np.uint8)
    yield _evenly(np.flatnonzero(chars == _DOT), 2, 4, 2)
    colons = np.flatnonzero(chars == _COLON)
    yield _evenly(colons, 3, 3, 4)
    yield _evenly(colons, 2, 5, 6)
    yield _evenly(np.flatnonzero(chars == _DASH), 3, 3, 4)
    others = np.flatnonzero((chars < ord("0")) | (chars > ord("9")))
    bounds = np.concatenate([[-1], others, [len(chars)]]).astype(np.int64)
    yield bounds[1:][np.diff(bounds) > _DIGITS_OF_A_NUMBER] - 1


def _evenly(places: Places, least: int, most: int, times: int) -> Places:
    """Return the places that are followed by others in such distances, so many times."""
    gaps = np.diff(places)
    fits = (gaps >= least) & (gaps <= most)
    count = len(fits) - times + 1
    if count <= 0:
        return np.empty(0, dtype=np.int64)
    whole: npt.NDArray[np.bool_] = fits[:count].copy()
    for step in range(1, times):
        whole &= fits[step : step + count]
    found: Places = places[:count][whole]
    return found
