"""What of a local file has to be sent: pieces of data, and runs of zeros that need no sending.

A hole is found by asking the file system, zeros that are really stored by looking: at the first bytes of each block,
and only where those are zero at all of it. So looking costs next to nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass

# Small, because what is on its way when the cable is pulled is lost: two or three of them.
PIECE_BYTES = 4 * 1024 * 1024
BLOCK_BYTES = 256 * 1024
_LOOK_BYTES = 16
_ZEROS = bytes(BLOCK_BYTES)


@dataclass(frozen=True)
class Range:
    """A part of a file, all of it ``zeros`` or to be sent."""

    offset: int
    length: int
    zeros: bool = False


def ranges(fd: int, start: int, size: int) -> Iterator[Range]:
    """Yield what lies between ``start`` and ``size`` of an open file, in order.

    Data is in pieces of :data:`PIECE_BYTES` at most, but what begins the file may have any length: it is not copied.

    Raises:
        OSError: it cannot be read.
    """
    held: Range | None = None
    for part in _blocks(fd, start, size):
        if held is None:
            held = part
        elif held.zeros == part.zeros and (held.zeros or held.offset == 0 or held.length + part.length <= PIECE_BYTES):
            held = Range(held.offset, held.length + part.length, held.zeros)
        else:
            yield held
            held = part
    if held is not None:
        yield held


def data_bytes(fd: int, start: int, size: int) -> int:
    """Return how many of the bytes between ``start`` and ``size`` are no hole.

    Raises:
        OSError: it cannot be read.
    """
    return sum(end - begin for begin, end, hole in _extents(fd, start, size) if not hole)


def _blocks(fd: int, start: int, size: int) -> Iterator[Range]:
    """Yield holes whole, data in blocks."""
    for begin, end, hole in _extents(fd, start, size):
        if hole:
            yield Range(begin, end - begin, zeros=True)
            continue
        while begin < end:
            length = min(BLOCK_BYTES - begin % BLOCK_BYTES, end - begin)
            yield Range(begin, length, zeros=_is_zero(fd, begin, length))
            begin += length


def _is_zero(fd: int, offset: int, length: int) -> bool:
    look = min(_LOOK_BYTES, length)
    return os.pread(fd, look, offset) == _ZEROS[:look] and os.pread(fd, length, offset) == _ZEROS[:length]


def _extents(fd: int, start: int, size: int) -> Iterator[tuple[int, int, bool]]:
    """Yield ``(begin, end, hole)`` as the file system tells; where it tells nothing, all is data."""
    while start < size:
        data = min(_seek(fd, start, os.SEEK_DATA, missing=size), size)
        if data > start:
            yield start, data, True
        end = min(_seek(fd, data, os.SEEK_HOLE, missing=size), size) if data < size else size
        if end > data:
            yield data, end, False
        start = max(data, end)


def _seek(fd: int, offset: int, whence: int, *, missing: int) -> int:
    try:
        return os.lseek(fd, offset, whence)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing but a hole from there on
            return missing
        if error.errno == errno.EINVAL:  # this file system knows no holes
            return offset if whence == os.SEEK_DATA else missing
        raise
