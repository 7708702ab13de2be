"""The adb server that runs use: what is set for it, what answers there, and who else listens around it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.adb.server import AdbServer
from harness.core.errors import FarmError
from harness.core.hostcheck import HostFinding
from harness.doctor.host import Host

DEFAULT_PORT = 5037
# An adb server looks for emulators on the odd ports of this range (adb's client/transport_emulator).
EMULATOR_PORTS = range(5555, 5586, 2)
_LISTEN = "0A"


@dataclass(frozen=True)
class ServerState:
    """What is at the server's address: ``version`` if an adb server is, ``problem`` if something else is."""

    address: str
    version: int | None = None
    problem: str = ""


def server_state(host: Host) -> ServerState:
    """Ask the default server by socket, which changes nothing; a port that makes no sense is nobody's."""
    port = host.environ.get("ANDROID_ADB_SERVER_PORT", str(DEFAULT_PORT))
    name = host.environ.get("ANDROID_ADB_SERVER_ADDRESS", "127.0.0.1")
    if not _is_port(port):
        return ServerState(f"{name}:{port}")
    server = AdbServer(name, int(port))
    if not server.listens():
        return ServerState(server.address)
    try:
        return ServerState(server.address, server.version())
    except FarmError as error:
        return ServerState(server.address, None, error.message)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536


def check_settings(host: Host) -> list[HostFinding]:
    """Variables that move the server make sense, and move it for everybody."""
    findings = []
    port = host.environ.get("ANDROID_ADB_SERVER_PORT")
    if port is not None and not _is_port(port):
        findings.append(
            HostFinding(
                "adb_port_wrong",
                "error",
                "ANDROID_ADB_SERVER_PORT is no port",
                f"it is {port!r}",
                "unset ANDROID_ADB_SERVER_PORT, or set it to a number from 1 to 65535",
            )
        )
    address = host.environ.get("ANDROID_ADB_SERVER_ADDRESS")
    if address is not None and not _is_here(address) and server_state(host).version is None:
        findings.append(
            HostFinding(
                "adb_server_away",
                "error",
                "ANDROID_ADB_SERVER_ADDRESS names another computer, and no adb server answers there",
                f"it is {address!r}",
                f"start one on {address} (adb -a nodaemon server), or unset ANDROID_ADB_SERVER_ADDRESS",
            )
        )
    socket = host.environ.get("ADB_SERVER_SOCKET")
    if socket:
        findings.append(
            HostFinding(
                "adb_socket_set",
                "warning",
                "adb goes by ADB_SERVER_SOCKET, mnn-farm does not",
                f"it is {socket!r}; runs use {server_state(host).address}",
                "unset ADB_SERVER_SOCKET, or name the same server: pytest --adb HOST:PORT",
            )
        )
    return findings


def check_server(host: Host) -> list[HostFinding]:
    """What listens at the server's address is an adb server, and not for the whole network."""
    server = server_state(host)
    if server.problem:
        return [
            HostFinding(
                "adb_port_taken",
                "error",
                "something that is no adb server has its port",
                f"{server.address}: {server.problem}",
                f"see who has it: ss -ltnp 'sport = :{server.address.rpartition(':')[2]}'; end it, or set "
                "ANDROID_ADB_SERVER_PORT to a free port",
            )
        ]
    port = int(server.address.rpartition(":")[2]) if server.version is not None else None
    if port is not None and any(listener.port == port and listener.open for listener in listeners(host.proc_root)):
        return [
            HostFinding(
                "adb_server_open",
                "warning",
                "the adb server takes orders from the whole network",
                f"it listens on port {port} of every address, and adb asks nobody for a password",
                "start it without -a, or let a firewall admit only the lab's computers",
            )
        ]
    return []


def check_emulator_ports(host: Host) -> list[HostFinding]:
    """Nothing listens where an adb server looks for emulators."""
    ports = sorted({listener.port for listener in listeners(host.proc_root)} & set(EMULATOR_PORTS))
    if not ports:
        return []
    return [
        HostFinding(
            "emulator_ports",
            "info",
            "adb takes what listens on these ports for emulators",
            f"port {', '.join(map(str, ports))}: adb lists emulator-{ports[0] - 1} and the like, offline if it is none",
            "leave it if it is an emulator; else move it away, or leave it out: --devices "
            f"all,not:emulator-{ports[0] - 1}",
        )
    ]


@dataclass(frozen=True)
class Listener:
    """A TCP port that somebody listens on; ``open`` to other computers, or only to this one."""

    port: int
    open: bool


def listeners(proc: Path) -> Iterator[Listener]:
    """Yield the TCP ports of this computer that are listened on (``/proc/net/tcp``: addresses in hex, host order)."""
    for name in ("tcp", "tcp6"):
        try:
            text = (proc / "net" / name).read_text()
        except OSError:
            continue
        for match in re.finditer(r"^\s*\d+: ([0-9A-F]+):([0-9A-F]{4}) \S+ ([0-9A-F]{2}) ", text, re.MULTILINE):
            if match[3] == _LISTEN:
                yield Listener(int(match[2], 16), set(match[1]) == {"0"})


def _is_here(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
