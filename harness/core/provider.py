"""How phones that adb does not find by itself enter: a provider, found by the prefix of a ``--devices`` word.

Providers are entry points of the group ``mnn_farm.providers``, named by their prefix (``virtual``, ``host``). The
harness asks nothing about what they are: it gets an adb endpoint, or a transport object of the provider's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Protocol

from harness.core.errors import ConfigError, HarnessError
from harness.core.transport import Transport

GROUP = "mnn_farm.providers"
NAMED = "named"
"""In an endpoint's ``extra``, under ``server``: its adb server was named by the user, and is never started by us."""


@dataclass(frozen=True)
class Endpoint:
    """Where a phone can be reached. It crosses process borders, so it holds plain values only.

    Attributes:
        name: name for people, e.g. ``virtual-high-1``.
        provider: entry point name of its provider; ``adb`` for phones found by adb itself.
        adb_host, adb_port: the adb server that has it (unused by providers with a transport of their own).
        transport_serial: the serial by which that server lists it.
        contention_group: phones of one group share processing power, so they never measure at the same time;
            ``""`` for a phone of its own.
    """

    name: str
    provider: str = "adb"
    adb_host: str = "127.0.0.1"
    adb_port: int = 5037
    transport_serial: str = ""
    contention_group: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def port(self) -> str:
        """Where it is plugged in: its USB port, else its address or its provider. A bad cable stays there."""
        return self.extra.get("usb") or self.transport_serial or self.provider


class Provider(Protocol):
    """Provides phones for the words after its prefix, e.g. ``["2"]`` for ``virtual:2``.

    It is started once, in the controlling process, and must take everything down in :meth:`stop` and also
    when that process is killed.
    """

    def check(self, word: str) -> str | None:
        """Return what is wrong with the part after ``prefix:`` (``""`` for the bare prefix), ``None`` if nothing."""
        ...

    def start(self, words: Sequence[str]) -> list[Endpoint]:
        """Bring up the phones for all words of this provider.

        Raises:
            HostError: this computer cannot (no sandbox, no adb, …).
        """
        ...

    def stop(self) -> None:
        """Take all of them down; harmless twice."""
        ...

    def transport(self, endpoint: Endpoint) -> Transport | None:
        """Return the provider's own way to reach ``endpoint``; ``None`` means through adb. Any process may call it."""
        ...


def provider_names() -> list[str]:
    """Return the prefixes of all installed providers, sorted."""
    return sorted(point.name for point in entry_points(group=GROUP))


def load_provider(name: str) -> Provider:
    """Make the provider with this prefix.

    Raises:
        ConfigError: there is none.
        HarnessError: it is installed but cannot be loaded.
    """
    for point in entry_points(group=GROUP):
        if point.name == name:
            try:
                provider: Provider = point.load()()
            except ImportError as error:
                raise HarnessError(f"provider {name!r} ({point.value}) cannot be loaded: {error}") from error
            return provider
    raise ConfigError(f"no provider of phones is called {name!r}", remedy=f"known: {', '.join(provider_names())}")
