"""Walks a flatbuffer whose bytes nobody vouches for: every place is checked before it is read."""

from __future__ import annotations

import struct
from collections.abc import Iterator


class Table:
    """A table of a flatbuffer: a signed step back to its list of fields, each an offset or 0."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self.fields = at - number("<i", data, at)
        self.fields_bytes = number("<H", data, self.fields)

    def slot(self, field: int) -> int:
        """Return where a field lies, 0 when it is not there."""
        place = 4 + 2 * field
        offset = number("<H", self.data, self.fields + place) if place < self.fields_bytes else 0
        return self.at + offset if offset else 0

    def integer(self, field: int, default: int) -> int:
        """Return a whole number of 32 bits."""
        at = self.slot(field)
        return number("<i", self.data, at) if at else default

    def child(self, field: int) -> Table | None:
        """Return the table in a field, ``None`` when it is not there."""
        at = self.slot(field)
        return Table(self.data, at + number("<I", self.data, at)) if at else None

    def items(self, field: int, width: int) -> range:
        """Return where each element of a vector lies."""
        at = self.slot(field)
        if not at:
            return range(0)
        start = at + number("<I", self.data, at)
        count = number("<I", self.data, start)
        if start + 4 + count * width > len(self.data):
            raise ValueError("a list is longer than the file")
        return range(start + 4, start + 4 + count * width, width)

    def tables(self, field: int) -> Iterator[Table]:
        """Yield the tables of a vector."""
        for at in self.items(field, 4):
            yield Table(self.data, at + number("<I", self.data, at))

    def text(self, field: int) -> bytes:
        """Return a text, empty when it is not there."""
        at = self.slot(field)
        return _text(self.data, at) if at else b""

    def texts(self, field: int) -> Iterator[bytes]:
        """Yield the texts of a vector."""
        for at in self.items(field, 4):
            yield _text(self.data, at)


def _text(data: bytes, at: int) -> bytes:
    start = at + number("<I", data, at)
    end = start + 4 + number("<I", data, start)
    if end > len(data):
        raise ValueError("a name is longer than the file")
    return data[start + 4 : end]


def number(form: str, data: bytes, at: int) -> int:
    """Return one number, in the form of :mod:`struct`.

    Raises:
        ValueError: it would lie before the data.
        struct.error: it would lie behind them.
    """
    if at < 0:
        raise ValueError("an offset lies before the start")
    return int(struct.unpack_from(form, data, at)[0])
