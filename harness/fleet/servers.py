"""The adb servers of a run: ``--adb HOST:PORT[,…]``, and what they list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from harness.adb.server import AdbServer, TransportInfo, default_server, ensure_server
from harness.core.errors import ConfigError, FarmError, HostError
from harness.core.reasons import Reason
from harness.fleet.choose import Listed, name_all
from harness.fleet.states import Why, why_error

DEFAULT_PORT = 5037
# HOST, HOST:PORT, [IPv6] or [IPv6]:PORT
_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:\[\]]+))(?::(?P<port>[0-9]{1,5}))?")


def read_servers(text: str | None) -> tuple[AdbServer, ...]:
    """Read ``--adb``; empty means the default server.

    Raises:
        ConfigError: a word is no address.
    """
    servers = []
    for word in filter(None, (part.strip() for part in (text or "").split(","))):
        match = _ADDRESS.fullmatch(word)
        port = int(match["port"] or DEFAULT_PORT) if match else 0
        if match is None or not 0 < port < 65536:
            raise ConfigError(f"--adb {word}: this is no HOST:PORT", remedy="say e.g. --adb 127.0.0.1:5037,lab2:5037")
        servers.append(AdbServer(match["six"] or match["host"], port))
    if text is not None and not servers:
        raise ConfigError("--adb names no server", remedy="say e.g. --adb 127.0.0.1:5037, or leave it away")
    return tuple(dict.fromkeys(servers))


@dataclass(frozen=True)
class Listing:
    """What all servers list, and by name those that do not answer, with why."""

    phones: tuple[Listed, ...]
    silent: tuple[tuple[str, Why], ...] = ()


def list_phones(servers: Sequence[AdbServer]) -> Listing:
    """Ask every server for its phones, side by side.

    Without ``servers`` it is the default one, which is started if nothing runs there; a server that was named is only
    asked, because starting one of our own at its place would hide that it is down.

    Raises:
        HostError: none of them answers.
    """
    if not servers:
        server = default_server()
        ensure_server(server)
        return Listing(tuple(name_all([(server, info) for info in server.transports()])))

    def ask(server: AdbServer) -> list[TransportInfo] | Why:
        if not server.listens():
            remedy = (
                f"on the computer with the phones: adb -P {server.port} start-server; if that is another one, set up "
                "the tunnel to it again (docs/servers.md)"
            )
            return Why(Reason.ADB_ERROR.code, f"no adb server answers at {server.address}", remedy)
        try:
            server.version()  # what is no adb server says so here, in words
            return server.transports()
        except FarmError as error:
            return why_error(error, server.address)

    with ThreadPoolExecutor(max_workers=min(len(servers), 16), thread_name_prefix="adb-server") as pool:
        answers = list(zip(servers, pool.map(ask, servers), strict=True))
    silent = tuple((f"adb server {server.address}", answer) for server, answer in answers if isinstance(answer, Why))
    if len(silent) == len(servers):
        said = "; ".join(why.reason for _, why in silent)
        raise HostError(f"none of --adb can be used: {said}", remedy="start a server there, or leave --adb away")
    found = [(server, info) for server, answer in answers if not isinstance(answer, Why) for info in answer]
    return Listing(tuple(name_all(found, named=True)), silent)
