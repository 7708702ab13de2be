from __future__ import annotations

from harness.fleet.same import Connection, second_connections
from harness.fleet.states import Why


def test_a_cable_is_kept_before_a_network() -> None:
    met = [Connection("10.0.0.7:5555", "id", "boot", usb=False), Connection("R58M", "id", "boot", usb=True)]
    assert second_connections(met) == {
        "10.0.0.7:5555": Why("same_phone", "it is the same phone as R58M", "nothing to do")
    }


def test_of_two_addresses_the_first_is_kept() -> None:
    names = ("127.0.0.1:5999", "localhost:5999", "::1:5999")
    met = [Connection(name, "id", "boot", usb=False) for name in names]
    assert set(second_connections(met)) == set(names[1:])


def test_another_id_or_another_boot_is_another_phone() -> None:
    met = [Connection("a", "id", "boot", True), Connection("b", "id", "other boot", True)]
    met.append(Connection("c", "other id", "boot", True))
    assert second_connections(met) == {}
