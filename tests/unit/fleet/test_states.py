from __future__ import annotations

import pytest

from harness.core.errors import PhoneLostError
from harness.fleet.states import (
    MIN_FREE_BYTES,
    Why,
    why_booting,
    why_error,
    why_full,
    why_state,
)


def test_device_is_the_one_usable_state() -> None:
    assert why_state("device") is None


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("offline", "device_offline"),
        ("connecting", "device_offline"),
        ("unauthorized", "unauthorized"),
        ("authorizing", "unauthorized"),
        ("recovery", "recovery"),
        ("rescue", "rescue"),
        ("sideload", "sideload"),
        ("bootloader", "bootloader"),
        ("fastboot", "bootloader"),
        ("no permissions (user lab is not in the plugdev group); see [http://example.org]", "no_permissions"),
        ("host", "host_mode"),
        ("detached", "detached"),
        ("unknown", "unknown_state"),
        ("", "unknown_state"),
    ],
)
def test_every_other_has_code_reason_and_remedy(state: str, code: str) -> None:
    why = why_state(state)
    assert why is not None
    assert (why.code, why.reason) == (code, f"adb lists it as {state}")
    assert why.remedy


def test_an_android_that_has_not_said_so_is_booting() -> None:
    assert why_booting({"ro.build.version.sdk": "34", "sys.boot_completed": "1"}) is None
    for booting in ({}, {"sys.boot_completed": ""}, {"sys.boot_completed": "0"}):
        why = why_booting({"ro.build.version.sdk": "34", **booting})
        assert why is not None
        assert why.code == "booting"


def test_what_is_no_android_has_booted() -> None:
    assert why_booting({"ro.product.model": "Linux x86_64"}) is None


def test_a_full_phone_is_left_out_and_an_unknown_one_is_not() -> None:
    assert why_full(None) is None
    assert why_full(MIN_FREE_BYTES) is None
    assert why_full(7 * 1024**2) == Why(
        "no_space", "only 7 MiB are free on its storage; 500 are needed", "free storage on the phone"
    )


def test_an_error_is_a_reason_without_the_name_said_twice() -> None:
    assert why_error(PhoneLostError("toy", "it went", remedy="look"), "toy") == Why("device_lost", "it went", "look")


def test_it_is_kept_with_its_code() -> None:
    left = Why("booting", "it boots", "wait").left_out("toy")
    assert left.model_dump() == {"name": "toy", "code": "booting", "reason": "it boots", "remedy": "wait"}
