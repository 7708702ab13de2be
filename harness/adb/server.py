"""The adb server: is one there, of which version, which phones does it list. Started only where none runs."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from dataclasses import dataclass

from harness.adb.connection import HostConnection
from harness.core.adbprogram import find_adb
from harness.core.deadline import Deadline
from harness.core.errors import AdbFailedError, HostError, PhoneError

ASK_SERVER_S = 5.0
START_SERVER_S = 30.0


@dataclass(frozen=True)
class TransportInfo:
    """One line of ``adb devices -l``. ``state`` may contain blanks (``no permissions (…)``)."""

    serial: str
    state: str
    transport_id: int | None
    usb: str | None
    model: str | None


@dataclass(frozen=True)
class AdbServer:
    """An adb server by address."""

    host: str
    port: int

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"{self.host}:{self.port}"

    def listens(self) -> bool:
        """Return whether anybody, adb server or not, takes connections there."""
        try:
            with socket.create_connection((self.host, self.port), timeout=ASK_SERVER_S):
                return True
        except OSError:
            return False

    def version(self) -> int:
        """Return its protocol version, e.g. 41.

        Raises:
            AdbFailedError: nothing answers, or something that is no adb server.
        """
        with self._ask("host:version") as connection:
            digits = connection.read_block()
        try:
            return int(digits, 16)
        except ValueError:
            raise AdbFailedError(self.address, f"what listens there is no adb server (it sent {digits!r})") from None

    def transports(self) -> list[TransportInfo]:
        """Return every transport it lists, in every state."""
        with self._ask("host:devices-l") as connection:
            return parse_devices(connection.read_block().decode("utf-8", "replace"))

    def features(self, serial: str, transport_id: str | None = None) -> frozenset[str]:
        """Return what the phone with this serial (or transport, where two share a serial) can do, e.g. ``shell_v2``."""
        chosen = f"host-transport-id:{transport_id}" if transport_id else f"host-serial:{serial}"
        with self._ask(f"{chosen}:features", serial) as connection:
            return frozenset(connection.read_block().decode("utf-8", "replace").split(","))

    def _ask(self, service: str, phone: str = "") -> HostConnection:
        deadline = Deadline(ASK_SERVER_S, f"asking the adb server {self.address}", phone or self.address)
        connection = HostConnection(self.host, self.port, phone or self.address, deadline)
        try:
            connection.request(service)
        except BaseException:
            connection.close()
            raise
        return connection


def default_server() -> AdbServer:
    """Return the server that adb's own tools would use (``ANDROID_ADB_SERVER_ADDRESS`` and ``…_PORT``)."""
    host = os.environ.get("ANDROID_ADB_SERVER_ADDRESS", "127.0.0.1")
    port = os.environ.get("ANDROID_ADB_SERVER_PORT", "5037")
    if not port.isdigit():
        raise HostError(f"ANDROID_ADB_SERVER_PORT is {port!r}", remedy="unset it or set it to a port number")
    return AdbServer(host, int(port))


def ensure_server(server: AdbServer) -> int:
    """Return the version of ``server``, starting one on this computer if nothing listens there.

    A server that is up is used as it is, whatever its version: no adb program is run against it.

    Raises:
        HostError: something else listens there, it is on another computer and down, or it cannot be started.
    """
    if server.listens():
        try:
            return server.version()
        except PhoneError as error:
            raise HostError(
                f"port {server.address} is in use, but not by an adb server ({error.message})",
                remedy="free it or set ANDROID_ADB_SERVER_PORT",
            ) from error
    if server.host not in ("127.0.0.1", "localhost", "::1"):
        raise HostError(f"no adb server answers at {server.address}", remedy="start it on that computer")
    adb = find_adb()
    try:
        subprocess.run(
            [str(adb), "-P", str(server.port), "start-server"],
            check=True,
            capture_output=True,
            timeout=START_SERVER_S,
            stdin=subprocess.DEVNULL,
        )
        return server.version()
    except (OSError, subprocess.SubprocessError, PhoneError) as error:
        said = (getattr(error, "stderr", None) or b"").decode("utf-8", "replace").strip().splitlines()
        raise HostError(
            f"{adb} could not start an adb server on {server.address}: {said[-1] if said else error}",
            remedy=f"try it by hand: {adb} -P {server.port} start-server",
        ) from error


# "<serial>   <state>[ key:value …]"; a state may contain blanks, key:value pairs do not.
_LINE = re.compile(r"^(?P<serial>\S+)\s+(?P<state>.+?)(?P<pairs>(?:\s+[a-z_]+:\S+)*)\s*$")


def parse_devices(text: str) -> list[TransportInfo]:
    """Parse the answer to ``host:devices-l`` (columns padded with blanks, pairs in any order)."""
    found = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        pairs = dict(pair.split(":", 1) for pair in match["pairs"].split())
        state = match["state"]
        # "no permissions (…); see [http://…]" ends in something that looks like a pair
        transport = pairs.get("transport_id", "")
        usb = re.search(r"\busb:(\S+)", line)
        found.append(
            TransportInfo(
                serial=match["serial"],
                state=state.removesuffix(f" usb:{usb[1]}") if usb else state,
                transport_id=int(transport) if transport.isdigit() else None,
                usb=usb[1] if usb else None,
                model=pairs.get("model"),
            )
        )
    return found
