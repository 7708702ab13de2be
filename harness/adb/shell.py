"""The shell protocol v2 (adb's shell_protocol.h): packets of one byte id, four bytes length, data."""

from __future__ import annotations

import select
import shlex
from collections.abc import Iterator, Sequence

from harness.adb.connection import HostConnection
from harness.core.deadline import Deadline
from harness.core.errors import AdbFailedError, DeadlineError, PhoneLostError

_STDIN, _STDOUT, _STDERR, _EXIT, _CLOSE_STDIN = range(5)
_HEADER_BYTES = 5
# adbd refuses larger packets; the same size as adb's own client uses.
_CHUNK_BYTES = 32 * 1024
# adbd itself never sends more than its maximal payload of 1 MiB in one packet.
_MAX_PACKET_BYTES = 16 * 1024 * 1024


def shell_service(argv: Sequence[str]) -> str:
    """Return the adb service that runs ``argv`` without a terminal, quoted for the phone's shell."""
    return f"shell,v2,raw:{shlex.join(argv)}"


class AdbShellStream:
    """A running command. Iterating sends what stdin is left and yields ``(fd, chunk)`` until the exit code comes."""

    def __init__(
        self, connection: HostConnection, phone: str, deadline: Deadline, stdin: bytes, idle_s: float | None = None
    ) -> None:
        self._connection = connection
        self._phone = phone
        self._deadline = deadline
        self._idle_s = idle_s
        self._to_send = memoryview(_stdin_packets(stdin))
        self._exit_code: int | None = None

    @property
    def exit_code(self) -> int | None:
        """Exit code once the iteration has ended."""
        return self._exit_code

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        buffer = bytearray()
        while True:
            while len(buffer) >= _HEADER_BYTES:
                kind, length = buffer[0], int.from_bytes(buffer[1:_HEADER_BYTES], "little")
                if length > _MAX_PACKET_BYTES or kind > _CLOSE_STDIN:
                    raise AdbFailedError(self._phone, "what came is not the shell protocol")
                if len(buffer) < _HEADER_BYTES + length:
                    break
                data = bytes(buffer[_HEADER_BYTES : _HEADER_BYTES + length])
                del buffer[: _HEADER_BYTES + length]
                if kind == _EXIT:
                    self._exit_code = data[0] if data else 0
                    return
                if kind in (_STDOUT, _STDERR):
                    yield kind, data
            chunk = self._pump()
            if not chunk:
                raise PhoneLostError(self._phone, "the connection was closed before the exit code came")
            buffer += chunk

    def _pump(self) -> bytes:
        """Send stdin as far as the peer takes it, and return the next bytes: never one waiting for the other."""
        socket = self._connection.socket
        left = self._deadline
        if self._idle_s is not None:
            left = left.within(self._idle_s, f"a word of {left.what}")
        while True:
            writers = [socket] if self._to_send else []
            readable, writable, _ = select.select([socket], writers, [], left.remaining_s())
            if readable:
                return self._connection.read_some(256 * 1024)
            if writable:
                socket.settimeout(0)
                try:
                    sent = socket.send(self._to_send[:_CHUNK_BYTES])
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise PhoneLostError(self._phone, f"the connection broke while sending ({error})") from error
                self._to_send = self._to_send[sent:]
                continue
            raise DeadlineError(self._phone, left.what, left.seconds)


def _stdin_packets(stdin: bytes) -> bytes:
    parts = bytearray()
    for start in range(0, len(stdin), _CHUNK_BYTES):
        piece = stdin[start : start + _CHUNK_BYTES]
        parts += bytes([_STDIN]) + len(piece).to_bytes(4, "little") + piece
    parts += bytes([_CLOSE_STDIN]) + bytes(4)
    return bytes(parts)
