from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path

from harness.virtual.adbd.condition import Link
from harness.virtual.adbd.packets import Buffer
from harness.virtual.adbd.sync import serve_sync

PIECE = 64 * 1024
PIECES = 16


class Feed:
    """A stream that delivers prepared payloads and keeps what is written."""

    def __init__(self, payloads: Iterator[bytes]) -> None:
        self._payloads = payloads
        self.written = b""
        self.has_unread = True

    async def read(self) -> Buffer:
        return next(self._payloads, b"")

    async def write(self, data: Buffer) -> None:
        self.written += bytes(data)


def test_a_file_over_four_gibibytes_of_zeros_and_an_end_arrives_whole_and_takes_no_room(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    megabyte = (struct.pack("<4sI", b"DATA", PIECE) + bytes(PIECE)) * PIECES
    request = f"{path},33188".encode()
    megabytes = 4 * 1024 + 3

    def payloads() -> Iterator[bytes]:
        yield struct.pack("<4sI", b"SEND", len(request)) + request
        for _ in range(megabytes):
            yield megabyte
        yield struct.pack("<4sI", b"DATA", 3) + b"end" + struct.pack("<4sI", b"DONE", 1_600_000_000)

    feed = Feed(payloads())
    link = Link(lambda _event: None, lambda: None)
    asyncio.run(serve_sync(feed, link=link))  # type: ignore[arg-type]
    status = path.stat()
    assert feed.written == struct.pack("<4sI", b"OKAY", 0)
    assert status.st_size == megabytes * 2**20 + 3
    assert status.st_blocks * 512 < 2**20
    assert int(status.st_mtime) == 1_600_000_000
    with path.open("rb") as file:
        file.seek(-4, 2)
        assert file.read() == b"\0end"
