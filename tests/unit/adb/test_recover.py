from __future__ import annotations

import pytest

from harness.adb.recover import is_address


@pytest.mark.parametrize("serial", ["127.0.0.1:5555", "phone-7.lab:37123", "[fe80::1%usb0]:5555"])
def test_an_address_has_to_be_plugged_in_again(serial: str) -> None:
    assert is_address(serial)


@pytest.mark.parametrize("serial", ["R5CT30ABCDE", "emulator-5554", "adb-8A1X0-kWqz1f._adb-tls-connect._tcp", "a:b"])
def test_what_adb_finds_by_itself_is_no_address(serial: str) -> None:
    assert not is_address(serial)
