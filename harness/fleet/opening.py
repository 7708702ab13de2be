"""From ``--devices`` to phones that are ready: words, providers, adb's list, and who is left out and why."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from harness.adb.server import AdbServer, TransportInfo, default_server, ensure_server
from harness.bench.phone import ConnectedPhone, connect
from harness.core.errors import ConfigError, FarmError
from harness.core.provider import Endpoint, Provider, load_provider, provider_names
from harness.plan.tiers import load_tier_rules
from harness.store.schema import LeftOut

# What to do about a phone that adb lists in another state than "device" (states: adb's transport.cpp).
_REMEDIES = {
    "unauthorized": "unlock the phone and accept this computer's key",
    "authorizing": "unlock the phone and accept this computer's key",
    "offline": "replug it, or run: adb reconnect",
    "connecting": "wait a moment and run again",
    "recovery": "reboot it to Android",
    "bootloader": "reboot it to Android",
    "sideload": "reboot it to Android",
    "no permissions": "add a udev rule for it, or add yourself to the group plugdev",
}


@dataclass
class Fleet:
    """The phones of a run. ``close`` takes provided phones down."""

    phones: list[ConnectedPhone] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    providers: list[Provider] = field(default_factory=list)

    def close(self) -> None:
        """Take provided phones down; harmless twice."""
        while self.providers:
            self.providers.pop().stop()


@dataclass(frozen=True)
class Words:
    """The words of ``--devices``, sorted by who provides them."""

    adb: tuple[str, ...]
    provided: dict[str, tuple[str, ...]]


def read_words(spec: str) -> Words:
    """Split ``--devices`` and let each provider check its words.

    Raises:
        ConfigError: a word is empty or its provider refuses it.
    """
    words = [word.strip() for word in spec.split(",")]
    if not any(words):
        raise ConfigError("--devices names no phone", remedy="use all, a serial, virtual:2 or host")
    prefixes = provider_names()
    adb: list[str] = []
    provided: dict[str, list[str]] = {}
    for word in filter(None, words):
        prefix, _, rest = word.partition(":")
        if prefix not in prefixes:
            adb.append(word)
            continue
        wrong = load_provider(prefix).check(rest)
        if wrong is not None:
            raise ConfigError(f"--devices {word}: {wrong}")
        provided.setdefault(prefix, []).append(rest)
    return Words(tuple(adb), {prefix: tuple(rest) for prefix, rest in provided.items()})


def open_fleet(words: Words, say: Callable[[str, str], None]) -> Fleet:
    """Start providers, list adb's phones, and make every chosen phone ready, side by side.

    Raises:
        ConfigError: a name that nobody has.
        HostError: no adb, no sandbox, a port in use.
    """
    fleet = Fleet()
    try:
        endpoints = _adb_endpoints(words.adb, fleet) if words.adb else []
        for prefix, rest in words.provided.items():
            provider = load_provider(prefix)
            fleet.providers.append(provider)
            endpoints += provider.start(list(rest))
        _connect_all(endpoints, fleet, say)
    except BaseException:
        fleet.close()
        raise
    return fleet


def _connect_all(endpoints: list[Endpoint], fleet: Fleet, say: Callable[[str, str], None]) -> None:
    if not endpoints:
        return
    rules = load_tier_rules()

    def one(endpoint: Endpoint) -> ConnectedPhone | LeftOut:
        try:
            return connect(endpoint, rules, lambda what: say(endpoint.name, what))
        except FarmError as error:
            return LeftOut(name=endpoint.name, reason=error.message, remedy=error.remedy)

    with ThreadPoolExecutor(max_workers=min(len(endpoints), 16), thread_name_prefix="connect") as pool:
        for result in pool.map(one, endpoints):
            if isinstance(result, LeftOut):
                fleet.left_out.append(result)
            else:
                fleet.phones.append(result)


def _adb_endpoints(words: tuple[str, ...], fleet: Fleet) -> list[Endpoint]:
    server = default_server()
    ensure_server(server)
    listed = server.transports()
    chosen = choose(words, listed)
    endpoints = []
    for info in chosen:
        if info.state == "device":
            endpoints.append(_endpoint(info, listed, server))
        else:
            remedy = next((text for state, text in _REMEDIES.items() if info.state.startswith(state)), "")
            fleet.left_out.append(LeftOut(name=info.serial, reason=f"adb lists it as {info.state}", remedy=remedy))
    return endpoints


def choose(words: tuple[str, ...], listed: list[TransportInfo]) -> list[TransportInfo]:
    """Return the transports that ``words`` name: ``all``, or serials.

    Raises:
        ConfigError: a serial that is not listed.
    """
    chosen: list[TransportInfo] = []
    for word in words:
        found = listed if word == "all" else [info for info in listed if info.serial == word]
        if not found and word != "all":
            there = ", ".join(f"{info.serial} ({info.state})" for info in listed) or "none"
            raise ConfigError(
                f"--devices {word}: no phone has this serial; adb lists: {there}",
                remedy=f"use one of these, all, or {', '.join(f'{name}:…' for name in provider_names())}",
            )
        chosen += [info for info in found if info not in chosen]
    return chosen


def _endpoint(info: TransportInfo, listed: list[TransportInfo], server: AdbServer) -> Endpoint:
    """Name a phone by its serial; by its transport too, if two share one."""
    shared = sum(other.serial == info.serial for other in listed) > 1
    name = f"{info.serial}@{info.transport_id}" if shared else info.serial
    extra = {"transport_id": str(info.transport_id)} if info.transport_id is not None else {}
    return Endpoint(name, "adb", server.host, server.port, info.serial, extra=extra)
