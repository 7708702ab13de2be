"""By what a phone is asked for, and whose business its adb server is."""

from __future__ import annotations

import pytest

from harness.adb import transport as module
from harness.adb.server import AdbServer, TransportInfo
from harness.adb.transport import AdbTransport
from harness.core.deadline import Deadline
from harness.core.provider import NAMED, Endpoint
from harness.core.transport import ABSENT

DEADLINE = Deadline(5, "a test", "toy")


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[TransportInfo]:
    """What the server lists; a test changes it."""
    phones: list[TransportInfo] = []
    monkeypatch.setattr(AdbServer, "transports", lambda _: list(phones))
    return phones


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the server is asked for."""
    services: list[str] = []

    class Connection:
        def __init__(self, *_: object) -> None:
            self.idle_s: float | None = None

        def __enter__(self) -> Connection:
            return self

        def __exit__(self, *_: object) -> None: ...

        def request(self, service: str) -> None:
            services.append(service)

        def read_some(self, _: int) -> bytes:
            return b""

    monkeypatch.setattr(module, "HostConnection", Connection)
    return services


def phone(**extra: str) -> AdbTransport:
    return AdbTransport(Endpoint("toy", "adb", "127.0.0.1", 15037, "S", extra=extra))


def info(number: int, usb: str | None = None) -> TransportInfo:
    return TransportInfo("S", "device", number, usb, None)


def test_a_phone_is_asked_for_by_its_serial_whatever_number_the_server_gave_it(
    listed: list[TransportInfo], asked: list[str]
) -> None:
    toy = phone()
    listed[:] = [info(3)]
    assert toy.state() == "device"
    toy.reboot(deadline=DEADLINE)
    assert asked == ["host:transport:S", "reboot:"]


def test_of_two_with_one_serial_it_is_the_one_at_its_port_under_its_new_number(
    listed: list[TransportInfo], asked: list[str]
) -> None:
    toy = phone(transport_id="3", usb="1-4")
    listed[:] = [info(1, "1-4"), info(3, "1-5")]  # the server was started again
    assert toy.state() == "device"
    toy.reboot(deadline=DEADLINE)
    assert asked == ["host:transport-id:1", "reboot:"]


def test_a_second_one_that_is_plugged_in_later_is_told_apart(listed: list[TransportInfo], asked: list[str]) -> None:
    toy = phone(usb="1-4")
    listed[:] = [info(1, "1-4"), info(2, "1-5")]
    assert toy.state() == "device"
    toy.reboot(deadline=DEADLINE)
    assert asked == ["host:transport-id:1", "reboot:"]
    listed[:] = []
    assert toy.state() == ABSENT


@pytest.mark.parametrize(("extra", "started"), [({}, 1), ({"server": NAMED}, 0)])
def test_a_server_that_the_user_named_is_not_started(
    listed: list[TransportInfo], monkeypatch: pytest.MonkeyPatch, extra: dict[str, str], started: int
) -> None:
    starts: list[AdbServer] = []
    monkeypatch.setattr(module, "ensure_server", starts.append)
    phone(**extra).reconnect(deadline=DEADLINE)
    assert starts == [AdbServer("127.0.0.1", 15037)] * started
