"""The sync protocol (adb's SYNC.TXT): push and pull over one connection, 64-bit safe, with the phone's own words.

Sizes are never read from the 32-bit ``STAT``: a push sends until the local file ends, a pull reads until DONE.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from harness.adb.connection import HostConnection
from harness.core.errors import AdbFailedError, PhoneError, PhoneLostError, TransferError
from harness.core.transport import Progress, PushItem

# adbd's SYNC_DATA_MAX; it drops the connection on more.
_CHUNK_BYTES = 64 * 1024
_MAX_PATH_BYTES = 1024
_FILE = 0o100000


class SyncSession:
    """A connection on which ``sync:`` was opened."""

    def __init__(self, connection: HostConnection, phone: str) -> None:
        self._connection = connection
        self._phone = phone

    def push(self, item: PushItem, progress: Progress | None = None) -> None:
        """Push one file.

        Raises:
            TransferError: it cannot be read here, or the phone refused it; the message is the phone's.
        """
        try:
            with item.local.open("rb") as file:
                modified_s = int(os.fstat(file.fileno()).st_mtime)
                path = self._path(item.remote) + f",{_FILE | item.mode}".encode()
                self._connection.send(b"SEND" + struct.pack("<I", len(path)) + path)
                while chunk := file.read(_CHUNK_BYTES):
                    self._send_data(item, chunk)
                    if progress is not None:
                        progress(len(chunk))
        except OSError as error:
            raise TransferError(self._phone, item.remote, f"{item.local} cannot be read here ({error})") from error
        self._connection.send(b"DONE" + struct.pack("<I", modified_s & 0xFFFFFFFF))
        self._read_status(item.remote)

    def _send_data(self, item: PushItem, chunk: bytes) -> None:
        try:
            self._connection.send(b"DATA" + struct.pack("<I", len(chunk)) + chunk)
        except PhoneLostError as error:
            # Old phones close the connection on a refused file: the reason is already here to be read.
            try:
                self._read_status(item.remote)
            except TransferError as refused:
                raise refused from error
            except PhoneError:
                raise error from None
            raise

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
        header = self._connection.read_exact(8)
        return header[:4], int.from_bytes(header[4:], "little")

    def _text(self, length: int) -> str:
        return self._connection.read_exact(min(length, 64 * 1024)).decode("utf-8", "replace")

    def _path(self, remote: str) -> bytes:
        path = remote.encode("utf-8", "surrogateescape")
        if len(path) > _MAX_PATH_BYTES - 16:
            raise TransferError(self._phone, remote, f"the path has {len(path)} bytes, adb takes {_MAX_PATH_BYTES}")
        return path
