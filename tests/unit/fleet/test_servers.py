from __future__ import annotations

from dataclasses import dataclass

import pytest

from harness.adb.server import AdbServer, TransportInfo
from harness.core.errors import AdbFailedError, ConfigError, HostError
from harness.fleet.servers import list_phones, read_servers
from harness.fleet.states import Why

PHONE = TransportInfo("a", "device", 1, None, None)


@dataclass(frozen=True)
class Answering(AdbServer):
    def listens(self) -> bool:
        return True

    def version(self) -> int:
        return 41

    def transports(self) -> list[TransportInfo]:
        return [PHONE]


@dataclass(frozen=True)
class Silent(AdbServer):
    def listens(self) -> bool:
        return False


@dataclass(frozen=True)
class Other(AdbServer):
    """Something that listens and is no adb server."""

    def listens(self) -> bool:
        return True

    def version(self) -> int:
        raise AdbFailedError(self.address, "what listens there is no adb server")


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        (None, []),
        ("lab2:6000", [("lab2", 6000)]),
        (" lab2 , 10.0.0.7:1,lab2:5037", [("lab2", 5037), ("10.0.0.7", 1)]),
        ("[::1]:6000,[fe80::1]", [("::1", 6000), ("fe80::1", 5037)]),
    ],
)
def test_addresses_are_read(text: str | None, servers: list[tuple[str, int]]) -> None:
    assert [(server.host, server.port) for server in read_servers(text)] == servers


@pytest.mark.parametrize("text", ["lab2:", "lab2:x", "lab2:0", "lab2:65536", "a b", "::1", ":5037"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="this is no HOST:PORT"):
        read_servers(text)


def test_no_address_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="--adb names no server"):
        read_servers(",")


def test_a_server_that_does_not_answer_does_not_stop_the_others() -> None:
    listing = list_phones([Silent("lab1", 5037), Answering("lab2", 5037), Answering("lab3", 5037)])
    assert [(one.name, one.server.host) for one in listing.phones] == [("a@lab2:5037", "lab2"), ("a@lab3:5037", "lab3")]
    assert listing.silent == (
        (
            "adb server lab1:5037",
            Why(
                "adb_error",
                "no adb server answers at lab1:5037",
                "on the computer with the phones: adb -P 5037 start-server; if that is another one, set up the tunnel "
                "to it again (docs/servers.md)",
            ),
        ),
    )


def test_something_else_that_listens_is_no_server_either() -> None:
    listing = list_phones([Other("lab1", 80), Answering("lab2", 5037)])
    assert listing.silent == (("adb server lab1:80", Why("adb_error", "what listens there is no adb server")),)


def test_none_that_answers_is_an_error_that_names_them_all() -> None:
    sentence = "none of --adb can be used: no adb server answers at lab1:1; no adb server answers at lab2:2"
    with pytest.raises(HostError, match=sentence):
        list_phones([Silent("lab1", 1), Silent("lab2", 2)])
