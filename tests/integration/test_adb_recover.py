"""A phone's connection is broken and comes back, through the real adb server."""

from __future__ import annotations

import pytest

from harness.adb.connection import HostConnection
from harness.adb.recover import plug_in, reconnect
from harness.adb.server import AdbServer
from harness.adb.transport import AdbTransport
from harness.core.deadline import Deadline
from harness.core.errors import PhoneLostError
from harness.core.provider import Endpoint

PHONES = ("high", "low")


@pytest.fixture
def server(virtual_phones: list[Endpoint]) -> AdbServer:
    return AdbServer(virtual_phones[0].adb_host, virtual_phones[0].adb_port)


def seconds(count: float = 20) -> Deadline:
    return Deadline(count, "a test", "the phone")


def wait_usable(server: AdbServer, serial: str) -> None:
    with HostConnection(server.host, server.port, serial, seconds()) as connection:
        connection.request(f"host-serial:{serial}:wait-for-any-device")
        assert connection.read_exact(4) == b"OKAY"


def test_a_reconnect_ends_what_ran_over_the_cable_and_leaves_the_other_phone_alone(
    server: AdbServer, virtual_phones: list[Endpoint]
) -> None:
    broken, other = (AdbTransport(phone) for phone in virtual_phones)
    ids = {info.serial: info.transport_id for info in server.transports()}
    script = ["sh", "-c", "echo here; until [ -e /data/local/tmp/go-on ]; do sleep 0.02; done; echo whole"]
    with broken.stream(["sleep", "60"], deadline=seconds()) as cut, other.stream(script, deadline=seconds()) as whole:
        seen = iter(whole)
        assert next(seen) == (1, b"here\n")
        reconnect(server, broken.serial, str(ids[broken.serial]), seconds())
        with pytest.raises(PhoneLostError):
            list(cut)
        other.shell(["touch", "/data/local/tmp/go-on"], deadline=seconds())
        assert list(seen) == [(1, b"whole\n")]
    wait_usable(server, broken.serial)
    assert broken.shell(["echo", "again"], deadline=seconds()).stdout == b"again\n"
    now = {info.serial: info.transport_id for info in server.transports()}
    assert now[other.serial] == ids[other.serial]
    assert now[broken.serial] != ids[broken.serial]


def test_a_phone_that_the_server_does_not_know_is_lost(server: AdbServer) -> None:
    with pytest.raises(PhoneLostError, match="device 'nobody' not found"):
        reconnect(server, "nobody", None, seconds())


def test_an_address_where_nothing_answers_is_a_lost_phone(server: AdbServer) -> None:
    with pytest.raises(PhoneLostError, match="failed to connect to"):
        plug_in(server, "127.0.0.1:9", seconds())


def test_what_adb_finds_by_itself_needs_no_plug() -> None:
    plug_in(AdbServer("127.0.0.1", 9), "R5CT30ABCDE", seconds())
