"""The shell protocol v2 (adb's shell_protocol.h): packets of one byte id, four bytes length, data."""

from __future__ import annotations

import select
import shlex
from collections.abc import Iterator, Sequence

from harness.adb.connection import HostConnection
from harness.core.deadline import Deadline
from harness.core.errors import AdbFailedError, DeadlineError, PhoneLostError
from harness.core.lines import LineBuffer
from harness.core.transport import ShellResult

_STDIN, _STDOUT, _STDERR, _EXIT, _CLOSE_STDIN = range(5)
_HEADER_BYTES = 5
# adbd refuses larger packets; the same size as adb's own client uses.
_CHUNK_BYTES = 32 * 1024
# adbd itself never sends more than its maximal payload of 1 MiB in one packet.
_MAX_PACKET_BYTES = 16 * 1024 * 1024
_MAX_ERROR_BYTES = 64 * 1024
_NO_EXIT_CODE = "the connection was closed before the exit code came"


def shell_service(argv: Sequence[str]) -> str:
    """Return the adb service that runs ``argv`` without a terminal, quoted for the phone's shell."""
    return f"shell,v2,raw:{shlex.join(argv)}"


class ShellPackets:
    """What came, cut into packets."""

    def __init__(self, phone: str) -> None:
        self._phone = phone
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Take what came."""
        self._buffer += chunk

    def ready(self) -> Iterator[tuple[int, bytes]]:
        """Yield the whole packets as ``(kind, data)``.

        Raises:
            AdbFailedError: it is not the shell protocol.
        """
        buffer = self._buffer
        while len(buffer) >= _HEADER_BYTES:
            kind, length = buffer[0], int.from_bytes(buffer[1:_HEADER_BYTES], "little")
            if length > _MAX_PACKET_BYTES or kind > _CLOSE_STDIN:
                raise AdbFailedError(self._phone, "what came is not the shell protocol")
            if len(buffer) < _HEADER_BYTES + length:
                break
            data = bytes(buffer[_HEADER_BYTES : _HEADER_BYTES + length])
            del buffer[: _HEADER_BYTES + length]
            yield kind, data


class AdbConversation:
    """A running command that is talked to; see :class:`~harness.core.transport.Conversation`.

    ``idle_s`` is how long nothing may come while an answer is waited for.
    """

    def __init__(self, connection: HostConnection, phone: str, deadline: Deadline, idle_s: float) -> None:
        self._connection = connection
        self._phone = phone
        self._deadline = deadline
        self._idle_s = idle_s
        self._packets = ShellPackets(phone)
        self._lines = LineBuffer()
        self._errors = bytearray()
        self._exit_code: int | None = None

    @property
    def result(self) -> ShellResult | None:
        """What it left; see the protocol."""
        if self._exit_code is None:
            return None
        return ShellResult(self._exit_code, self._lines.rest, bytes(self._errors))

    def say(self, data: bytes) -> None:
        """Send to its stdin; see the protocol."""
        for start in range(0, len(data), _CHUNK_BYTES):
            self._connection.send(_packet(_STDIN, data[start : start + _CHUNK_BYTES]))

    def hear(self, *, wait: bool) -> list[bytes]:
        """Return its lines; see the protocol."""
        lines: list[bytes] = []
        while self._exit_code is None:
            left = self._deadline.within(self._idle_s, f"a word of {self._deadline.what}")
            block = wait and not lines
            if block:
                self._connection.acknowledge_at_once()
            if not select.select([self._connection.socket], [], [], left.remaining_s() if block else 0)[0]:
                if block:
                    raise DeadlineError(self._phone, left.what, left.seconds)
                break
            chunk = self._connection.read_some(64 * 1024)
            if not chunk:
                raise PhoneLostError(self._phone, _NO_EXIT_CODE)
            self._packets.feed(chunk)
            lines += self._take_packets()
        return lines

    def _take_packets(self) -> list[bytes]:
        lines: list[bytes] = []
        for kind, data in self._packets.ready():
            if kind == _STDOUT:
                try:
                    lines += self._lines.feed(data)
                except ValueError as error:
                    raise AdbFailedError(self._phone, f"{self._deadline.what}: {error}") from error
            elif kind == _STDERR:
                self._errors += data[: _MAX_ERROR_BYTES - len(self._errors)]
            elif kind == _EXIT:
                self._exit_code = data[0] if data else 0
        return lines


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
        packets = ShellPackets(self._phone)
        while True:
            for kind, data in packets.ready():
                if kind == _EXIT:
                    self._exit_code = data[0] if data else 0
                    return
                if kind in (_STDOUT, _STDERR):
                    yield kind, data
            chunk = self._pump()
            if not chunk:
                raise PhoneLostError(self._phone, _NO_EXIT_CODE)
            packets.feed(chunk)

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
        parts += _packet(_STDIN, piece)
    return bytes(parts) + _packet(_CLOSE_STDIN, b"")


def _packet(kind: int, data: bytes) -> bytes:
    return bytes([kind]) + len(data).to_bytes(4, "little") + data
