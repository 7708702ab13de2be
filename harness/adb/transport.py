"""A phone behind an adb server: the :class:`~harness.core.transport.Transport` that almost everybody uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.adb.connection import HostConnection
from harness.adb.server import AdbServer
from harness.adb.shell import AdbShellStream, shell_service
from harness.adb.sync import SyncSession
from harness.core.deadline import Deadline
from harness.core.errors import AdbFailedError
from harness.core.provider import Endpoint
from harness.core.transport import STDOUT, Progress, PushItem, ShellResult

BASE_DIR = "/data/local/tmp/mnn-farm"


class AdbTransport:
    """One transport of one adb server. Holds no connection between calls, so it may be shared and pickled."""

    base_dir = BASE_DIR

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = endpoint.name
        self.serial = endpoint.transport_serial
        self._server = AdbServer(endpoint.adb_host, endpoint.adb_port)
        self._transport_id = endpoint.extra.get("transport_id")
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

    def shell(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> ShellResult:
        """Run a command and wait for it; see the protocol."""
        out: tuple[list[bytes], list[bytes]] = ([], [])
        with self._stream(argv, deadline, stdin) as stream:
            for fd, chunk in stream:
                out[0 if fd == STDOUT else 1].append(chunk)
        assert stream.exit_code is not None  # noqa: S101  the iteration ends with it or raises
        return ShellResult(stream.exit_code, b"".join(out[0]), b"".join(out[1]))

    @contextmanager
    def stream(self, argv: Sequence[str], *, deadline: Deadline) -> Iterator[AdbShellStream]:
        """Run a command and hand over its output as it comes; see the protocol."""
        with self._stream(argv, deadline, b"") as stream:
            yield stream

    @contextmanager
    def _stream(self, argv: Sequence[str], deadline: Deadline, stdin: bytes) -> Iterator[AdbShellStream]:
        with self._open(shell_service(argv), deadline) as connection:
            yield AdbShellStream(connection, self.name, deadline, stdin)

    def push(self, items: Sequence[PushItem], *, deadline: Deadline, progress: Progress | None = None) -> None:
        """Push files over one connection; see the protocol."""
        with self._open("sync:", deadline) as connection:
            session = SyncSession(connection, self.name)
            for item in items:
                session.push(item, progress)

    def pull(self, remote: str, local: Path, *, deadline: Deadline) -> None:
        """Pull one file; see the protocol."""
        with self._open("sync:", deadline) as connection:
            SyncSession(connection, self.name).pull(remote, local)

    @contextmanager
    def _open(self, service: str, deadline: Deadline) -> Iterator[HostConnection]:
        """Connect to the phone's transport, then to a service on it: one connection, two requests."""
        chosen = f"transport-id:{self._transport_id}" if self._transport_id else f"transport:{self.serial}"
        with HostConnection(self._server.host, self._server.port, self.name, deadline) as connection:
            connection.request(f"host:{chosen}")
            connection.request(service)
            yield connection
