"""One connection to an adb server, with deadlines and errors that name the phone.

Why not that of adbutils, whose adb program we use: no server is ever started behind the caller's back, closing does not
sleep, reading is not quadratic, short writes do not happen, and every FAIL becomes an error of our tree. Importing it
would also load a web client and an imaging library, 8 MB in each worker.
"""

from __future__ import annotations

import re
import socket
from types import TracebackType

from harness.core.deadline import Deadline
from harness.core.errors import (
    AdbFailedError,
    DeadlineError,
    PhoneError,
    PhoneLostError,
    PhoneOfflineError,
    UnauthorizedError,
)

# Linux only.
_QUICK_ACK: int | None = getattr(socket, "TCP_QUICKACK", None)
CONNECT_S = 3.0
# A lab host that vanished without a word is noticed after this many seconds of silence and as many questions.
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


class HostConnection:
    """A socket to the adb server, used for one request; ``phone`` is only for messages.

    With ``idle_s`` each single sending and reading has that deadline of its own: whoever moves gigabytes notices long
    before the whole is late that nothing moves any more.
    """

    def __init__(self, host: str, port: int, phone: str, deadline: Deadline, idle_s: float | None = None) -> None:
        self._phone = phone
        self.idle_s = idle_s
        self._deadline = deadline
        try:
            self.socket = socket.create_connection((host, port), timeout=min(CONNECT_S, deadline.remaining_s()))
        except OSError as error:
            raise AdbFailedError(phone, f"the adb server at {host}:{port} does not answer ({error})") from error
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE.items():
            if hasattr(socket, option):  # not everywhere
                self.socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    def __enter__(self) -> HostConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close at once; the server ends the service on the phone."""
        self.socket.close()

    def request(self, service: str) -> None:
        """Ask for a service and read OKAY.

        Raises:
            PhoneError: the server said FAIL; which one depends on its text.
        """
        data = service.encode("utf-8", "surrogateescape")
        if len(data) > 0xFFFF:
            raise AdbFailedError(self._phone, f"a request of {len(data)} bytes is longer than adb takes (65535)")
        self.send(b"%04x" % len(data) + data)
        status = self.read_exact(4)
        if status == b"OKAY":
            return
        if status == b"FAIL":
            raise failure(self._phone, self.read_block().decode("utf-8", "replace"))
        raise AdbFailedError(self._phone, f"the adb server answered {status!r} instead of OKAY or FAIL")

    def read_block(self) -> bytes:
        """Read a block that is preceded by its length in four hex digits."""
        digits = self.read_exact(4)
        try:
            length = int(digits, 16)
        except ValueError:
            raise AdbFailedError(self._phone, f"the adb server sent {digits!r} where a length belongs") from None
        return self.read_exact(length)

    def send(self, data: bytes | memoryview) -> None:
        """Send all of ``data``."""
        left = self._left()
        try:
            self.socket.settimeout(left.remaining_s())
            self.socket.sendall(data)
        except TimeoutError:
            raise _late(left) from None
        except OSError as error:
            raise PhoneLostError(self._phone, f"the connection broke while sending ({error})") from error

    def read_some(self, limit: int) -> bytes:
        """Read what is there, at most ``limit`` bytes; ``b""`` at the end."""
        left = self._left()
        try:
            self.socket.settimeout(left.remaining_s())
            return self.socket.recv(limit)
        except TimeoutError:
            raise _late(left) from None
        except OSError as error:
            raise PhoneLostError(self._phone, f"the connection broke ({error})") from error

    def read_exact(self, length: int) -> bytes:
        """Read ``length`` bytes.

        Raises:
            PhoneLostError: the connection ended before.
        """
        buffer = bytearray()
        while len(buffer) < length:
            chunk = self.read_some(length - len(buffer))
            if not chunk:
                raise PhoneLostError(self._phone, "the connection was closed before the answer was complete")
            buffer += chunk
        return bytes(buffer)

    def acknowledge_at_once(self) -> None:
        """Let the kernel acknowledge what came without waiting for more.

        The server sends a small answer only when the one before was acknowledged; whoever only listens pays 40 ms for
        each of them otherwise. It holds for what comes next, not for ever.
        """
        if _QUICK_ACK is not None:
            self.socket.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)

    def _left(self) -> Deadline:
        if self.idle_s is None:
            return self._deadline
        return self._deadline.within(self.idle_s, f"a step of {self._deadline.what}")


def _late(deadline: Deadline) -> DeadlineError:
    return DeadlineError(deadline.phone, deadline.what, deadline.seconds)


def failure(phone: str, text: str) -> PhoneError:
    """Return the error that a FAIL text of the adb server stands for (texts: adb's transport.cpp and adb.cpp)."""
    said = text.strip()
    # Serials stand in quotes, and people may call a phone what they like.
    low = re.sub(r"'[^']*'", "''", said.lower())
    if "unauthorized" in low or "still authorizing" in low:
        return UnauthorizedError(
            phone, "adb is not authorized", remedy="unlock the phone and accept this computer's key"
        )
    if "offline" in low or "still connecting" in low:
        return PhoneOfflineError(phone, f"adb says {said!r}", remedy="replug it, or run: adb reconnect")
    if "not found" in low or "no device" in low or low == "closed":
        return PhoneLostError(phone, f"adb says {said!r}", remedy="check cable and power")
    return AdbFailedError(phone, f"adb says {said!r}")
