"""The phone that ``--device`` names: a serial that adb lists, or a provider's word."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.adb.server import AdbServer, default_server, ensure_server
from harness.adb.transport import AdbTransport
from harness.core.errors import ConfigError, PhoneOfflineError, UnauthorizedError
from harness.core.provider import Endpoint, load_provider, provider_names
from harness.selfcheck.subject import Subject


@contextmanager
def subject_called(word: str) -> Iterator[Subject]:
    """Reach the phone called ``word``; a provider's phone is up meanwhile.

    Raises:
        ConfigError: nobody has such a phone, or the word means several.
        FarmError: it is there and cannot be used.
    """
    prefix, _, rest = word.partition(":")
    if prefix in provider_names():
        with _provided(prefix, rest) as subject:
            yield subject
        return
    server = default_server()
    ensure_server(server)
    listed = {info.serial: info.state for info in server.transports()}
    if word not in listed:
        there = ", ".join(listed) or "no phone at all"
        raise ConfigError(f"adb at {server.address} lists no phone {word!r}", remedy=f"it lists {there}")
    if listed[word] == "unauthorized":
        raise UnauthorizedError(word, "adb is not authorized", remedy="unlock the phone and accept this computer's key")
    if listed[word] != "device":
        raise PhoneOfflineError(word, f"adb lists it as {listed[word]!r}", remedy="replug it, or run: adb reconnect")
    endpoint = Endpoint(name=word, adb_host=server.host, adb_port=server.port, transport_serial=word)
    yield Subject(AdbTransport(endpoint), server)


@contextmanager
def _provided(prefix: str, rest: str) -> Iterator[Subject]:
    provider = load_provider(prefix)
    wrong = provider.check(rest)
    if wrong is not None:
        raise ConfigError(f"--device {prefix}:{rest}: {wrong}")
    try:
        endpoints = provider.start([rest])
        if len(endpoints) != 1:
            raise ConfigError(f"--device {prefix}:{rest} means {len(endpoints)} phones", remedy="name one")
        [endpoint] = endpoints
        own = provider.transport(endpoint)
        if own is not None:
            yield Subject(own, None)
        else:
            yield Subject(AdbTransport(endpoint), AdbServer(endpoint.adb_host, endpoint.adb_port))
    finally:
        provider.stop()
