"""What the adb server says after FAIL, and which error of the tree that is."""

from __future__ import annotations

import pytest

from harness.adb.connection import failure
from harness.core.errors import AdbFailedError, PhoneError, PhoneLostError, PhoneOfflineError, UnauthorizedError


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set\n", UnauthorizedError),
        ("device still authorizing", UnauthorizedError),
        ("device offline", PhoneOfflineError),
        ("device still connecting", PhoneOfflineError),
        ("device 'TOY0001' not found", PhoneLostError),
        ("no devices/emulators found", PhoneLostError),
        ("no device with transport id '7'", PhoneLostError),
        ("closed", PhoneLostError),
        (" closed\n", PhoneLostError),
        ("more than one device/emulator", AdbFailedError),
        ("insufficient permissions for device: user lab is not in the plugdev group", AdbFailedError),
        ("protocol fault (couldn't read status): Connection reset by peer", AdbFailedError),
        ("unknown host service", AdbFailedError),
        ("", AdbFailedError),
    ],
)
def test_a_fail_text_has_its_error(text: str, kind: type[PhoneError]) -> None:
    error = failure("toy-1", text)
    assert type(error) is kind
    assert str(error).startswith("toy-1: ")
    assert error.infra


@pytest.mark.parametrize("serial", ["offline-rig:5999", "unauthorized", "still connecting", "closed"])
def test_a_phones_name_decides_nothing(serial: str) -> None:
    error = failure("toy-1", f"device '{serial}' not found")
    assert type(error) is PhoneLostError
    assert serial in str(error)


def test_whoever_can_do_something_is_told_what() -> None:
    assert "accept this computer's key" in failure("toy-1", "device unauthorized.").remedy
    assert "adb reconnect" in failure("toy-1", "device offline").remedy
    assert "cable" in failure("toy-1", "closed").remedy
