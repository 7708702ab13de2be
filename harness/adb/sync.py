"""The sync protocol (adb's SYNC.TXT): push and pull over one connection, 64-bit safe, with the phone's own words.

Sizes are never read from the 32-bit ``STAT``: a push sends until the local file ends, a pull reads until DONE.
"""

from __future__ import annotations

import os
import select
import struct
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from harness.adb.connection import HostConnection
from harness.core.errors import AdbFailedError, PhoneError, PhoneLostError, TransferError
from harness.core.transport import Arrived, Progress, PushItem

# adbd's SYNC_DATA_MAX; it drops the connection on more.
_CHUNK_BYTES = 64 * 1024
_HEADER_BYTES = 8
# So many pieces with their headers stay below the largest payload of one packet, 1 MiB.
_PIECES = 15
# A phone that is sent many small files need not wait for us between them.
_MOST_UNANSWERED = 4
_MAX_PATH_BYTES = 1024
_FILE = 0o100000


class SyncSession:
    """A connection on which ``sync:`` was opened."""

    def __init__(self, connection: HostConnection, phone: str) -> None:
        self._connection = connection
        self._phone = phone
        self._unanswered: deque[PushItem] = deque()
        self._view = memoryview(bytearray(_PIECES * (_HEADER_BYTES + _CHUNK_BYTES)))

    def push(self, items: Iterable[PushItem], progress: Progress | None = None, arrived: Arrived | None = None) -> None:
        """Push files, one after the other; the next is on its way before the phone has answered to the last.

        Raises:
            TransferError: one cannot be read here, or the phone refused it; the message is the phone's.
        """
        for item in items:
            self._send_file(item, progress, arrived)
            self._unanswered.append(item)
            self._take_answers(_MOST_UNANSWERED, arrived)
        self._take_answers(0, arrived)

    def _send_file(self, item: PushItem, progress: Progress | None, arrived: Arrived | None) -> None:
        try:
            with item.local.open("rb") as file:
                fd = file.fileno()
                modified_s = int(os.fstat(fd).st_mtime)
                path = self._path(item.remote) + f",{_FILE | item.mode}".encode()
                self._send(item, b"SEND" + struct.pack("<I", len(path)) + path)
                at, left = item.offset, item.length
                while left is None or left:
                    count, data = self._fill(fd, at, left)
                    if not count:
                        break
                    self._send(item, data)
                    at, left = at + count, None if left is None else left - count
                    if progress is not None:
                        progress(count)
                    while self._unanswered and self._has_answer():
                        self._take_answer(arrived)
        except OSError as error:
            raise TransferError(self._phone, item.remote, f"{item.local} cannot be read here ({error})") from error
        if left:
            raise TransferError(self._phone, item.remote, f"{item.local} has become shorter by {left} bytes")
        self._send(item, b"DONE" + struct.pack("<I", modified_s & 0xFFFFFFFF))

    def _fill(self, fd: int, at: int, left: int | None) -> tuple[int, memoryview]:
        """Read as much as goes into one packet of adb, with the headers of its pieces in place, without a copy."""
        want = _PIECES * _CHUNK_BYTES if left is None else min(left, _PIECES * _CHUNK_BYTES)
        room = [
            self._view[start + _HEADER_BYTES : start + _HEADER_BYTES + min(_CHUNK_BYTES, want - index * _CHUNK_BYTES)]
            for index, start in enumerate(range(0, len(self._view), _HEADER_BYTES + _CHUNK_BYTES))
            if want > index * _CHUNK_BYTES
        ]
        got = os.preadv(fd, room, at)
        end = 0
        for start in range(0, got, _CHUNK_BYTES):
            length = min(_CHUNK_BYTES, got - start)
            struct.pack_into("<4sI", self._view, end, b"DATA", length)
            end += _HEADER_BYTES + length
        return got, self._view[:end]

    def _send(self, item: PushItem, data: bytes | memoryview) -> None:
        try:
            self._connection.send(data)
        except PhoneLostError as error:
            # Old phones close the connection on a refused file: the reason is already here to be read.
            try:
                self._read_status((*self._unanswered, item)[0].remote)
            except TransferError as refused:
                raise refused from error
            except PhoneError:
                raise error from None
            raise

    def _has_answer(self) -> bool:
        return bool(select.select([self._connection.socket], [], [], 0)[0])

    def _take_answers(self, most: int, arrived: Arrived | None) -> None:
        """Wait until no more than ``most`` files are unanswered."""
        while len(self._unanswered) > most:
            self._take_answer(arrived)

    def _take_answer(self, arrived: Arrived | None) -> None:
        item = self._unanswered[0]
        self._read_status(item.remote)
        self._unanswered.popleft()
        if arrived is not None:
            arrived(item)

    def pull(self, remote: str, local: Path) -> None:
        """Pull one file; ``local`` appears whole or not at all.

        Raises:
            TransferError: the phone has no such file or does not give it.
        """
        path = self._path(remote)
        self._connection.send(b"RECV" + struct.pack("<I", len(path)) + path)
        temporary = local.with_name(f".{local.name}.{os.getpid()}.part")
        try:
            with temporary.open("wb") as file:
                while True:
                    kind, length = self._header()
                    if kind == b"DATA" and length <= _CHUNK_BYTES:
                        file.write(self._connection.read_exact(length))
                    elif kind == b"DONE":
                        break
                    elif kind == b"FAIL":
                        raise TransferError(self._phone, remote, self._text(length))
                    else:
                        raise AdbFailedError(self._phone, f"the phone sent {kind!r} in the middle of a pull")
            temporary.replace(local)
        finally:
            temporary.unlink(missing_ok=True)

    def _read_status(self, remote: str) -> None:
        kind, length = self._header()
        if kind == b"FAIL":
            raise TransferError(self._phone, remote, self._text(length))
        if kind != b"OKAY":
            raise AdbFailedError(self._phone, f"the phone answered {kind!r} to a push")

    def _header(self) -> tuple[bytes, int]:
        header = self._connection.read_exact(_HEADER_BYTES)
        return header[:4], int.from_bytes(header[4:], "little")

    def _text(self, length: int) -> str:
        return self._connection.read_exact(min(length, 64 * 1024)).decode("utf-8", "replace")

    def _path(self, remote: str) -> bytes:
        path = remote.encode("utf-8", "surrogateescape")
        if len(path) > _MAX_PATH_BYTES - 16:
            raise TransferError(self._phone, remote, f"the path has {len(path)} bytes, adb takes {_MAX_PATH_BYTES}")
        return path
