"""Framing of the ADB transport protocol: a header of six little-endian words, then the payload.

The layout is that of AOSP's ``adb/protocol.txt``.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

HEADER = struct.Struct("<6I")
VERSION = 0x01000001
"""From this version on, checksums are not looked at."""
MAX_PAYLOAD = 1024 * 1024

Buffer = bytes | bytearray | memoryview


def _word(name: bytes) -> int:
    return int.from_bytes(name, "little")


CNXN = _word(b"CNXN")
OPEN = _word(b"OPEN")
OKAY = _word(b"OKAY")
WRTE = _word(b"WRTE")
CLSE = _word(b"CLSE")
AUTH = _word(b"AUTH")
AUTH_TOKEN, AUTH_SIGNATURE, AUTH_PUBLIC_KEY = 1, 2, 3
"""The first argument of AUTH."""
COMMANDS = frozenset({CNXN, OPEN, OKAY, WRTE, CLSE, AUTH, _word(b"SYNC"), _word(b"STLS")})


class ProtocolError(Exception):
    """The peer sent something that is not the ADB protocol; the connection is of no more use."""


class Header(NamedTuple):
    """A decoded header. What the arguments mean depends on the command."""

    command: int
    arg0: int
    arg1: int
    length: int


def encode_header(command: int, arg0: int, arg1: int, payload: Buffer = b"", *, checksum: bool = False) -> bytes:
    """Return the header of a packet with this payload; ``checksum`` for peers older than :data:`VERSION`."""
    total = sum(payload) & 0xFFFFFFFF if checksum else 0
    return HEADER.pack(command, arg0, arg1, len(payload), total, command ^ 0xFFFFFFFF)


def decode_header(data: Buffer) -> Header:
    """Read a header of 24 bytes.

    Raises:
        ProtocolError: the command is unknown, the magic word is wrong or the payload is longer than allowed.
    """
    command, arg0, arg1, length, _checksum, magic = HEADER.unpack(data)
    if magic != command ^ 0xFFFFFFFF or command not in COMMANDS:
        raise ProtocolError(f"not a packet header: {bytes(data).hex()}")
    if length > MAX_PAYLOAD:
        raise ProtocolError(f"a payload of {length} bytes is longer than {MAX_PAYLOAD}")
    return Header(command, arg0, arg1, length)
