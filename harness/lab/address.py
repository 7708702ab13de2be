"""Where the scheduler is, and the keys with which all of a lab talk to it.

Whoever can connect to a Dask scheduler or worker can run programs there. So without TLS only this computer's own
loopback addresses are taken; with TLS both sides must show a certificate that the lab's own authority has signed.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.errors import ConfigError

if TYPE_CHECKING:
    from distributed.security import Security

DEFAULT_PORT = 8786
AUTHORITY, CERTIFICATE, KEY = "ca.pem", "cert.pem", "key.pem"
# tcp://HOST:PORT or tls://HOST:PORT; an IPv6 address stands in brackets.
_ADDRESS = re.compile(
    r"(?P<protocol>tcp|tls)://(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>\d{1,5})"
)


@dataclass(frozen=True)
class Keys:
    """A folder with this computer's certificate and key and the certificate of the lab's authority."""

    folder: Path

    @staticmethod
    def read(folder: Path | None) -> Keys | None:
        """Check that all three files are there; ``None`` stays ``None``.

        Raises:
            ConfigError: one is missing.
        """
        if folder is None:
            return None
        for name in (AUTHORITY, CERTIFICATE, KEY):
            if not (folder / name).is_file():
                raise ConfigError(f"--tls {folder}: there is no {name} in it", remedy="docs/lab.md says how to make it")
        return Keys(folder)

    @property
    def files(self) -> tuple[str, str, str]:
        """The files of authority, certificate and key."""
        return str(self.folder / AUTHORITY), str(self.folder / CERTIFICATE), str(self.folder / KEY)


@dataclass(frozen=True)
class Address:
    """A scheduler's address, checked, with the keys that it takes."""

    protocol: str
    host: str
    port: int
    keys: Keys | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.protocol}://{host}:{self.port}"

    @property
    def listen_host(self) -> str | None:
        """The only address on which a worker that uses this scheduler may listen; ``None``: any."""
        return "127.0.0.1" if self.protocol == "tcp" else None

    def security(self) -> Security:
        """Return the keys in Dask's form."""
        from distributed.security import Security

        if self.keys is None:
            return Security(require_encryption=False)
        authority, certificate, key = self.keys.files
        roles = ("scheduler", "worker", "client")
        mine = {f"tls_{role}_{what}": file for role in roles for what, file in (("cert", certificate), ("key", key))}
        return Security(require_encryption=True, tls_ca_file=authority, **mine)


def read_address(text: str, tls: Path | None, option: str = "--scheduler") -> Address:
    """Read a scheduler's address.

    Raises:
        ConfigError: it is none, keys are missing, or it is not this computer's own and has no TLS.
    """
    match = _ADDRESS.fullmatch(text)
    port = int(match["port"]) if match else 0
    if match is None or not 0 < port < 65536:
        example = f"say e.g. tls://lab-server:{DEFAULT_PORT}, or tcp://127.0.0.1:{DEFAULT_PORT} on this computer alone"
        raise ConfigError(f"{option} {text}: this is no address of a scheduler", remedy=example)
    keys = Keys.read(tls)
    address = Address(match["protocol"], match["six"] or match["host"], port, keys)
    if address.protocol == "tls" and keys is None:
        raise ConfigError(f"{option} {text}: TLS needs keys", remedy="name their folder with --tls DIR (docs/lab.md)")
    if address.protocol == "tcp" and keys is not None:
        raise ConfigError(f"{option} {text}: with --tls the address begins with tls://", remedy="write it so")
    if address.protocol == "tcp" and not is_loopback(address.host):
        raise ConfigError(
            f"{option} {text}: without TLS anybody who reaches this address could run programs on all lab hosts",
            remedy="use tls:// and --tls DIR (docs/lab.md), or tcp://127.0.0.1 through an SSH tunnel",
        )
    return address


def is_loopback(host: str) -> bool:
    """Whether ``host`` can only mean this computer; a name other than ``localhost`` may mean anything."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
