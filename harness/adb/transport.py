"""A phone behind an adb server: the :class:`~harness.core.transport.Transport` that almost everybody uses."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.adb.connection import HostConnection
from harness.adb.recover import plug_in, reconnect
from harness.adb.server import AdbServer, TransportInfo, ensure_server
from harness.adb.shell import AdbConversation, AdbShellStream, shell_service
from harness.adb.sync import SyncSession
from harness.core.deadline import Deadline
from harness.core.errors import AdbFailedError, PhoneError
from harness.core.kept import Kept
from harness.core.log import phone_logger
from harness.core.provider import NAMED, Endpoint
from harness.core.transport import ABSENT, STDOUT, Arrived, Progress, PushItem, ShellResult

BASE_DIR = "/data/local/tmp/mnn-farm"
# adbd takes a request at once, whatever becomes of it then.
OPEN_S = 10.0
# A phone whose storage is busy takes nothing for some seconds; a link on which nothing moves for so long is dead.
TRANSFER_STALL_S = 60.0


class AdbTransport:
    """One transport of one adb server. Holds no connection between calls, so it may be shared and pickled.

    A phone is asked for by its serial: a number of its transport, which a server that was started again has given to
    another phone, only tells apart two that share a serial. One that comes back gets a new number; :meth:`state` finds
    it, by its USB port.
    """

    base_dir = BASE_DIR

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = endpoint.name
        self.serial = endpoint.transport_serial
        self._server = AdbServer(endpoint.adb_host, endpoint.adb_port)
        self._transport_id = endpoint.extra.get("transport_id")
        self._usb = endpoint.extra.get("usb")
        self._may_start_server = endpoint.extra.get("server") != NAMED
        self._version: int | None = None

    @property
    def server(self) -> tuple[str, int] | None:
        """The adb server's ``(host:port, version)``."""
        if self._version is None:
            self._version = self._server.version()
        return self._server.address, self._version

    def require_features(self) -> None:
        """Check once that the phone speaks what we need.

        Raises:
            AdbFailedError: it is older than Android 7 and cannot report exit codes.
        """
        if "shell_v2" not in self._server.features(self.serial, self._transport_id):
            raise AdbFailedError(
                self.name,
                "its adbd has no shell protocol v2, so exit codes would be lost",
                remedy="use a phone with Android 7 or later",
            )

    def shell(
        self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"", most: int | None = None
    ) -> ShellResult:
        """Run a command and wait for it; see the protocol."""
        out, errors = Kept(sys.maxsize if most is None else most), list[bytes]()
        with self._stream(argv, deadline, stdin) as stream:
            for fd, chunk in stream:
                (out.add if fd == STDOUT else errors.append)(chunk)
        assert stream.exit_code is not None  # noqa: S101  the iteration ends with it or raises
        return ShellResult(stream.exit_code, out.whole(), b"".join(errors))

    @contextmanager
    def stream(
        self, argv: Sequence[str], *, deadline: Deadline, idle_s: float | None = None
    ) -> Iterator[AdbShellStream]:
        """Run a command and hand over its output as it comes; see the protocol."""
        with self._stream(argv, deadline, b"", idle_s) as stream:
            yield stream

    @contextmanager
    def _stream(
        self, argv: Sequence[str], deadline: Deadline, stdin: bytes, idle_s: float | None = None
    ) -> Iterator[AdbShellStream]:
        with self._open(shell_service(argv), deadline) as connection:
            yield AdbShellStream(connection, self.name, deadline, stdin, idle_s)

    @contextmanager
    def converse(self, argv: Sequence[str], *, deadline: Deadline) -> Iterator[AdbConversation]:
        """Run a command and talk to it; see the protocol."""
        with self._open(shell_service(argv), deadline, TRANSFER_STALL_S) as connection:
            yield AdbConversation(connection, self.name, deadline, TRANSFER_STALL_S)

    def push(
        self,
        items: Iterable[PushItem],
        *,
        deadline: Deadline,
        progress: Progress | None = None,
        arrived: Arrived | None = None,
    ) -> None:
        """Push files over one connection; see the protocol."""
        with self._open("sync:", deadline, TRANSFER_STALL_S) as connection:
            SyncSession(connection, self.name).push(items, progress, arrived)

    def pull(self, remote: str, local: Path, *, deadline: Deadline) -> None:
        """Pull one file; see the protocol."""
        with self._open("sync:", deadline, TRANSFER_STALL_S) as connection:
            SyncSession(connection, self.name).pull(remote, local)

    def state(self) -> str:
        """Return how the adb server lists the phone now; see the protocol."""
        same = self._all_listed()
        here = self._mine(same)
        if here is None:
            return ABSENT
        alone = len(same) == 1 or here.transport_id is None
        self._transport_id = None if alone else str(here.transport_id)
        return here.state

    def reconnect(self, *, deadline: Deadline) -> None:
        """Kick this transport, or plug a TCP phone in again; before that start the local adb server if it is gone.

        A server that was named by the user is not started: what is gone may be the tunnel to another computer's, in
        whose place ours would stand in the way.
        """
        if self._may_start_server:
            ensure_server(self._server)
        here = self._mine(self._all_listed())
        try:
            if here is None:
                plug_in(self._server, self.serial, deadline)
            else:
                number = str(here.transport_id) if here.transport_id is not None else None
                reconnect(self._server, self.serial, number, deadline)
        except PhoneError as error:
            phone_logger(__name__, self.name).info("reconnecting: %s", error)

    def reboot(self, *, deadline: Deadline) -> None:
        """Restart the phone through its adbd; see the protocol."""
        with self._open("reboot:", deadline) as connection:
            connection.read_some(1)

    def _all_listed(self) -> list[TransportInfo]:
        """Return all phones with our serial."""
        return [info for info in self._server.transports() if info.serial == self.serial]

    def _mine(self, same: list[TransportInfo]) -> TransportInfo | None:
        if len(same) > 1:
            by_port = [info for info in same if self._usb is not None and info.usb == self._usb]
            same = by_port or [info for info in same if str(info.transport_id) == self._transport_id]
        return same[0] if same else None

    @contextmanager
    def _open(self, service: str, deadline: Deadline, idle_s: float | None = None) -> Iterator[HostConnection]:
        """Connect to the phone's transport, then to a service on it: one connection, two requests."""
        chosen = f"transport-id:{self._transport_id}" if self._transport_id else f"transport:{self.serial}"
        with HostConnection(self._server.host, self._server.port, self.name, deadline, OPEN_S) as connection:
            connection.request(f"host:{chosen}")
            connection.request(service)
            connection.idle_s = idle_s
            yield connection
