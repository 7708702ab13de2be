"""A private adb server: the adb that adbutils carries, on a port and with keys of its own."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from pathlib import Path

from harness.core.deadline import Deadline
from harness.core.errors import HostError
from harness.core.resources import cache_dir
from harness.virtual import children, ports

log = logging.getLogger(__name__)

_FORGET_S = 0.5


class ServerRefusedError(HostError):
    """The server answered FAIL."""


class AdbServer:
    """One server process. It sees no USB, no mDNS, no emulators: only what it is told to connect to."""

    def __init__(self, adb: Path) -> None:
        home = cache_dir("virtual", "adb")
        self._key = home / ".android" / "adbkey.pub"
        self.log = home / "log.txt"
        listener = ports.listen()
        self.port: int = listener.getsockname()[1]
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(home),
            "ANDROID_USER_HOME": str(home / ".android"),
            "TMPDIR": str(home),
            "ADB_USB": "0",
            "ADB_MDNS": "0",
            "ADB_MDNS_OPENSCREEN": "0",
            "ADB_EMU": "0",
            "ADB_LOCAL_TRANSPORT_MAX_PORT": "0",
        }
        with listener:
            # It takes over the listening socket, so nobody can snatch the port meanwhile.
            argv = [str(adb), "-L", f"acceptfd:{listener.fileno()}", "server", "nodaemon"]
            self.log.write_bytes(b"")
            self.process = children.spawn(argv, fds=[listener.fileno()], log=self.log, environment=environment)

    def wait_ready(self, deadline: Deadline) -> None:
        """Wait until it answers.

        Raises:
            HostError: it ended, or did not answer in time.
        """
        self.ask("host:version", deadline)

    def connect(self, serial: str, deadline: Deadline) -> None:
        """Connect it to the phone at ``serial`` (``HOST:PORT``) and wait until the phone is usable.

        Raises:
            HostError: it could not be reached.
        """
        said = self.ask(f"host:connect:{serial}", deadline)
        if not said.startswith(("connected to", "already connected to")):
            raise HostError(f"adb does not reach {serial} ({said})", remedy=f"see {self.log}")
        self.wait_usable(serial, deadline)

    def wait_usable(self, serial: str, deadline: Deadline) -> None:
        """Wait until the phone is listed as ``device``.

        Raises:
            HostError: it was not in time.
        """
        self.ask(f"host-serial:{serial}:wait-for-local-device", deadline, answers=2)

    def state(self, serial: str, deadline: Deadline) -> str | None:
        """Return the phone's state, e.g. ``offline``; ``None`` if it is not listed.

        Raises:
            HostError: the server itself does not answer.
        """
        try:
            return self.ask(f"host-serial:{serial}:get-state", deadline)
        except ServerRefusedError:
            return None

    def public_key(self) -> str | None:
        """Return the key it shows to phones, ``None`` if it has none yet. It has one once it is ready."""
        try:
            return self._key.read_text().partition(" ")[0].strip()
        except FileNotFoundError:
            return None

    def plug_in(self, serial: str, deadline: Deadline) -> str:
        """Let it reach the phone anew, as when a cable is plugged in, and return what it says; it may refuse.

        Raises:
            HostError: the server itself does not answer.
        """
        self.unplug(serial, deadline)
        return self.ask(f"host:connect:{serial}", deadline)

    def unplug(self, serial: str, deadline: Deadline) -> None:
        """Let it forget the phone, as when a cable is pulled; harmless if it does not know it.

        Raises:
            HostError: the server itself does not answer.
        """
        try:
            self.ask(f"host:disconnect:{serial}", deadline)
        except ServerRefusedError as error:
            log.debug("%s", error)
        # It forgets the phone a moment later; whoever connects it before then is told that it is connected already. One
        # that comes back by itself meanwhile is never gone, and need not be.
        with contextlib.suppress(HostError):
            self.ask(
                f"host-serial:{serial}:wait-for-any-disconnect", deadline.within(_FORGET_S, "forgetting"), answers=2
            )

    def ask(self, request: str, deadline: Deadline, *, answers: int = 1) -> str:
        """Send one request and return the text of its answer.

        Args:
            request: a service name of adb's ``SERVICES.TXT``.
            deadline: by when.
            answers: 2 for ``wait-for-…``, which says OKAY twice and has no text.

        Raises:
            HostError: it answered FAIL, broke off or was too late.
        """
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=deadline.remaining_s()) as connection:
                connection.sendall(f"{len(request):04x}{request}".encode())
                for _ in range(answers):
                    status = _receive(connection, 4, deadline)
                    if status != b"OKAY":
                        text = _receive_text(connection, deadline)
                        raise ServerRefusedError(f"adb answered {request}: {text}", remedy=f"see {self.log}")
                return _receive_text(connection, deadline) if answers == 1 else ""
        except (OSError, ValueError) as error:
            raise HostError(f"the private adb server does not answer ({error})", remedy=f"see {self.log}") from error


def _receive(connection: socket.socket, count: int, deadline: Deadline) -> bytes:
    data = b""
    while len(data) < count:
        connection.settimeout(deadline.remaining_s())
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionResetError("it closed the connection")
        data += part
    return data


def _receive_text(connection: socket.socket, deadline: Deadline) -> str:
    length = int(_receive(connection, 4, deadline), 16)
    with contextlib.suppress(UnicodeDecodeError):
        return _receive(connection, length, deadline).decode()
    raise ValueError("text that is not UTF-8")
