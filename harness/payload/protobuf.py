"""Walks protobuf's wire format, whatever the message: each field by its number, as an integer or as bytes.

A message is never longer than the one it is in, so that reading ends however the bytes look.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

#: Bytes, or a view of them where they are too many to be copied.
Message = TypeVar("Message", bytes, memoryview)


class ProtobufError(ValueError):
    """It is no message of protobuf. ``field`` is where it broke, ``None`` where it broke between fields.

    ``cut`` tells that a whole field would have needed more bytes than there are.
    """

    def __init__(self, says: str, field: int | None = None, *, cut: bool = False) -> None:
        super().__init__(says)
        self.field = field
        self.cut = cut


def fields(message: Message) -> Iterator[tuple[int, int | Message]]:
    """Yield the fields of a message: number, and an integer or bytes. Fixed 32- and 64-bit fields are left out.

    Raises:
        ProtobufError: it is no message of protobuf.
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise ProtobufError("a field has the number 0")
        if wire == 0:
            value, at = _varint(message, at)
            yield number, value
            continue
        length = {1: 8, 5: 4}.get(wire)
        if wire == 2:
            length, at = _varint(message, at)
        if length is None or at + length > len(message):
            raise ProtobufError(f"field {number} of kind {wire} does not fit", number, cut=length is not None)
        if wire == 2:
            yield number, message[at : at + length]
        at += length


def _varint(message: bytes | memoryview, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        if at + place >= len(message):
            raise ProtobufError("it ends within a number", cut=True)
        byte = message[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise ProtobufError("a number has more than ten bytes")
