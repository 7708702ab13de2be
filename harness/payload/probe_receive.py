"""What ``probe receive`` is told and says, as values. Pure; the words are in ``device_bins/probe/receive.c``."""

from __future__ import annotations

from dataclasses import dataclass

from harness.payload.probe_fields import load_line
from harness.payload.probe_files import HashLine, parse_hash_line


@dataclass(frozen=True)
class Ready:
    """All that is there was told. ``free_bytes`` is what the storage has left, ``None`` when it does not tell."""

    free_bytes: int | None


@dataclass(frozen=True)
class Taken:
    """A piece is part of its file now, and gone."""

    name: str


@dataclass(frozen=True)
class Alive:
    """It is still hashing."""


@dataclass(frozen=True)
class Ended:
    """The payload is put together and stamped."""


Answer = HashLine | Ready | Taken | Alive | Ended


def parse_answer(line: bytes) -> Answer:
    """Read one line of ``probe receive``; a file, there or just finished, is a :class:`HashLine`.

    Raises:
        ValueError: it is none; the sentence says why.
    """
    fields = load_line(line, "a line of probe receive")
    if "path" in fields:
        return parse_hash_line(line)
    if "taken" in fields:
        return Taken(fields.text("taken"))
    if "hashed" in fields:
        return Alive()
    if "ready" in fields:
        free_bytes = fields.maybe_integer("free_bytes")
        if free_bytes is not None and free_bytes < 0:
            raise ValueError(f"a line of probe receive tells {free_bytes} free bytes")
        return Ready(free_bytes)
    if "end" in fields:
        return Ended()
    raise ValueError(f"a line of probe receive says nothing that is known: {line[:200]!r}")


def order_file(path: str, offset: int, *, executable: bool) -> bytes:
    """Go on with a file that is ``offset`` bytes long; with 0 begin it anew."""
    return f"file {'755' if executable else '644'} {offset} ".encode() + _name(path) + b"\0"


def order_piece(name: str, length: int) -> bytes:
    """Append a piece that has arrived."""
    return f"piece {name} {length}\0".encode()


def order_grow(name: str, length: int) -> bytes:
    """Let a piece that is arriving be the file, from its beginning on."""
    return f"grow {name} {length}\0".encode()


def order_zeros(count: int) -> bytes:
    """Append zeros, as a hole."""
    return f"zeros {count}\0".encode()


def order_done() -> bytes:
    """The file is whole: tell its hash."""
    return b"done\0"


def order_drop(path: str) -> bytes:
    """Remove a file that does not belong."""
    return b"drop " + _name(path) + b"\0"


def order_end() -> bytes:
    """All is there."""
    return b"end\0"


def _name(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
