from __future__ import annotations

from typing import Any

import pytest

from harness.core.transport import ShellResult
from harness.phone.settings import (
    KINDS,
    STAY_ON,
    Commands,
    RefusedError,
    UnreadableError,
    change,
    known,
    over_the_air,
    same,
    what_it_said,
)

DENIED = (
    b"\nException occurred while executing 'put':\n"
    b"java.lang.SecurityException: Permission denial: writing requires:android.permission.WRITE_SECURE_SETTINGS\n"
    b"\tat com.android.Toy.refuse(Toy.java:7)\n"
)


@pytest.fixture
def commands(phone: Any) -> Commands:
    return Commands(phone, phone.deadline(), sleep=lambda _: None)


@pytest.mark.parametrize(
    ("kind", "key", "old", "new"),
    [
        ("setting", STAY_ON, "0", "7"),
        ("setting", "global/window_animation_scale", None, "0"),
        ("airplane", "mode", None, "1"),
        ("doze", "deep", "1", "0"),
        ("doze", "light", "1", "0"),
        ("screen", "state", "off", "on"),
    ],
)
def test_what_is_changed_and_changed_back_is_as_before(
    phone: Any, commands: Commands, kind: str, key: str, old: str | None, new: str
) -> None:
    before = phone.state()
    assert KINDS[kind].read(commands, key) == old
    assert change(KINDS[kind], commands, key, new, old) == new
    assert KINDS[kind].read(commands, key) == new
    assert phone.state() != before
    back = change(KINDS[kind], commands, key, old, new)
    assert back == ("0" if kind == "airplane" else old)
    if kind != "airplane":
        assert phone.state() == before


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (ShellResult(0, b"", b""), "exit code 0, not a word"),
        (ShellResult(255, b"null\n", b"cmd: Can't find service: settings\n"), "null"),
        (ShellResult(0, b"600", b""), "600"),
        (ShellResult(0, b"\xf0\x28\x8c60000\n", b""), "\ufffd(\ufffd60000"),
        (ShellResult(0, b"java.lang.IllegalStateException: no\n\tat x\n", b""), "java.lang.IllegalStateException: no"),
        (ShellResult(0, b"1\n2\n", b""), "2"),
    ],
)
def test_a_setting_that_cannot_be_read_is_no_value(phone: Any, commands: Commands, said: ShellResult, why: str) -> None:
    phone.refuses["settings get"] = said
    with pytest.raises(UnreadableError) as caught:
        KINDS["setting"].read(commands, STAY_ON)
    assert str(caught.value) == why


@pytest.mark.parametrize(("said", "value"), [(b"\n", ""), (b"0\r\n", "0"), (b"null\n", None), (b"1.0\n", "1.0")])
def test_a_setting_is_one_whole_line(phone: Any, commands: Commands, said: bytes, value: str | None) -> None:
    phone.refuses["settings get"] = ShellResult(0, said, b"")
    assert KINDS["setting"].read(commands, STAY_ON) == value


@pytest.mark.parametrize("code", [0, 255])
def test_a_refusal_names_the_exception_and_the_switch_whatever_the_exit_code(
    phone: Any, commands: Commands, code: int
) -> None:
    phone.refuses["settings put"] = ShellResult(code, b"", DENIED)
    with pytest.raises(RefusedError) as caught:
        change(KINDS["setting"], commands, STAY_ON, "7", "0")
    assert str(caught.value) == (
        "it stayed 0 (java.lang.SecurityException: Permission denial: writing requires:android.permission."
        "WRITE_SECURE_SETTINGS; switch on 'USB debugging (Security settings)' in its developer options)"
    )


def test_a_phone_with_a_limit_has_a_third_value(phone: Any, commands: Commands) -> None:
    phone.limits["system/screen_off_timeout"] = "1800000"
    assert change(KINDS["setting"], commands, "system/screen_off_timeout", "86400000", "60000") == "1800000"


def test_a_change_whose_value_cannot_be_read_back_is_not_known_to_be_refused(phone: Any, commands: Commands) -> None:
    phone.refuses["dumpsys deviceidle enabled"] = ShellResult(0, b"", b"Can't find service: deviceidle\n")
    with pytest.raises(UnreadableError, match="Can't find service: deviceidle"):
        change(KINDS["doze"], commands, "deep", "0", "1")


def test_a_screen_gets_a_moment(phone: Any) -> None:
    def wake(_: float) -> None:
        phone.screen = "on"

    phone.refuses["input"] = ShellResult(0, b"", b"")  # it takes the key and wakes later
    assert change(KINDS["screen"], Commands(phone, phone.deadline(), sleep=wake), "state", "on", "off") == "on"


def test_a_screen_that_does_not_wake_is_refused(phone: Any, commands: Commands) -> None:
    phone.refuses["input"] = ShellResult(0, b"", b"")
    with pytest.raises(RefusedError, match=r"it stayed off \(exit code 0, not a word\)"):
        change(KINDS["screen"], commands, "state", "on", "off")


BROADCAST = "am broadcast -a android.intent.action.AIRPLANE_MODE --ez state true"


def test_airplane_mode_of_an_old_phone_is_a_setting_and_a_broadcast(phone: Any, commands: Commands) -> None:
    phone.refuses["cmd connectivity"] = ShellResult(0, b"", b"No shell command implementation.\n")
    phone.refuses["am broadcast"] = ShellResult(0, b"Broadcast completed: result=0\n", b"")
    assert change(KINDS["airplane"], commands, "mode", "1", None) == "1"
    assert BROADCAST in phone.commands


@pytest.mark.parametrize("before", [None, "0"])
def test_airplane_mode_that_the_radios_were_not_told_is_not_left_in_the_settings(
    phone: Any, commands: Commands, before: str | None
) -> None:
    if before is not None:
        phone.settings["global/airplane_mode_on"] = before
    state = phone.state()
    phone.refuses["cmd connectivity"] = ShellResult(0, b"", b"No shell command implementation.\n")
    phone.refuses["am broadcast"] = ShellResult(
        0, b"java.lang.SecurityException: Permission Denial: not allowed\n", b""
    )
    with pytest.raises(RefusedError, match="SecurityException: Permission Denial: not allowed"):
        change(KINDS["airplane"], commands, "mode", "1", before)
    assert phone.state() == state


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [("0", "0.0", True), ("1", "1.0", True), (None, None, True), (None, "0", False), ("on", "off", False)],
)
def test_numbers_are_the_same_however_they_are_written(one: str | None, other: str | None, equal: bool) -> None:
    assert same(one, other) is equal
    assert same(other, one) is equal


def test_only_our_own_keys_are_known() -> None:
    assert known("setting", STAY_ON)
    assert known("doze", "light")
    assert not known("setting", "global/adb_enabled")
    assert not known("screen", "; reboot")
    assert not known("radio", "mode")


@pytest.mark.parametrize(
    ("serial", "air"),
    [
        ("R58M12ABCDE", False),
        ("emulator-5554", False),
        ("127.0.0.1:5601", False),
        ("localhost:5601", False),
        ("192.168.7.31:5555", True),
        ("lab-phone-3:5555", True),
        ("adb-R58M12ABCDE-x7Yz._adb-tls-connect._tcp", True),
        ("adb-R58M12ABCDE-x7Yz._adb-tls-connect._tcp.", True),
    ],
)
def test_a_phone_on_the_network_is_told_from_one_on_a_cable(serial: str, air: bool) -> None:
    assert over_the_air(serial) is air


def test_the_last_line_tells_where_there_is_no_exception() -> None:
    assert what_it_said(ShellResult(1, b"usage\n", b"sh: x: not found\n")) == "usage"
    assert what_it_said(ShellResult(127, b"", b"sh: x: not found\n")) == "sh: x: not found"
