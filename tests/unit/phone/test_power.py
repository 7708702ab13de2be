from __future__ import annotations

from pathlib import Path

import pytest

from harness.phone.power import Power, parse_doze_enabled, parse_foreground, parse_power

SAMPLES = Path(__file__).parents[4] / "shared" / "facts" / "android" / "08_battery_power.txt"


@pytest.mark.parametrize(
    ("word", "screen"),
    [("Awake", "on"), ("Dreaming", "on"), ("Asleep", "off"), ("Dozing", "off"), ("Rebooting", None)],
)
def test_the_wakefulness_tells_the_screen(word: str, screen: str | None) -> None:
    assert parse_power(f"Power Manager State:\r\n  mWakefulness={word}\r\n".encode()) == Power(screen, None)


def test_a_display_that_still_fades_does_not_count() -> None:
    dump = b"  mWakefulness=Asleep\n  mWakefulnessChanging=true\n  mIsPowered=true\nDisplay Power: state=ON\n"
    assert parse_power(dump) == Power("off", powered=True)


@pytest.mark.parametrize(("state", "screen"), [("ON", "on"), ("VR", "on"), ("OFF", "off"), ("DOZE_SUSPEND", "off")])
def test_without_a_wakefulness_the_display_tells(state: str, screen: str) -> None:
    assert parse_power(f"  mIsPowered=false\nDisplay Power: state={state}\n".encode()) == Power(screen, powered=False)


def test_words_in_the_middle_of_a_line_are_no_state() -> None:
    dump = b"  last: mWakefulness=Asleep mIsPowered=true\n  mWakefulnessChanging=false\n"
    assert parse_power(dump) == Power(None, None)


@pytest.mark.parametrize("data", [b"", b"Can't find service: power\n", bytes(range(256))])
def test_what_is_no_dump_tells_nothing(data: bytes) -> None:
    assert parse_power(data) == Power(None, None)
    assert parse_doze_enabled(data) is None
    assert parse_foreground(data) is None


@pytest.mark.parametrize(("data", "enabled"), [(b"1\n", True), (b"0\r\n", False), (b" 0\n", False), (b"10\n", None)])
def test_doze_is_one_digit(data: bytes, enabled: bool | None) -> None:
    assert parse_doze_enabled(data) is enabled


RECORD = "ActivityRecord{7bd21c u0 org.toy.chat/.Talk$Room t31}"


@pytest.mark.parametrize(
    "line",
    [
        f"    topResumedActivity={RECORD}",
        f"  ResumedActivity: {RECORD}",
        f"    mResumedActivity: {RECORD}",
        f"  mFocusedActivity: {RECORD}",
        f"  mFocusedApp={RECORD}",
        f"  mFocusedApp=AppWindowToken{{51f token=Token{{9c {RECORD}}}}}",
        "  mCurrentFocus=Window{9e u0 org.toy.chat/.Talk$Room}",
        "  mCurrentFocus=Window{4330b6c0 org.toy.chat/.Talk$Room paused=false}",
    ],
)
def test_the_app_in_front_is_found_in_the_words_of_every_android(line: str) -> None:
    assert parse_foreground(f"DUMP\n{line}\n".encode()) == "org.toy.chat/.Talk$Room"


def test_the_resumed_activity_counts_more_than_a_window_over_it() -> None:
    dump = f"  mCurrentFocus=Window{{1 u0 org.other/.Dialogue}}\n  mResumedActivity: {RECORD}\n"
    assert parse_foreground(dump.encode()) == "org.toy.chat/.Talk$Room"


def test_a_lock_screen_is_no_app() -> None:
    assert parse_foreground(b"  mCurrentFocus=Window{8a u0 NotificationShade}\n  mFocusedApp=null\n") is None
    behind = f"  mCurrentFocus=Window{{8a u0 StatusBar}}\n  mFocusedApp={RECORD}\n"
    assert parse_foreground(behind.encode()) == "org.toy.chat/.Talk$Room"


@pytest.mark.skipif(not SAMPLES.is_file(), reason=f"{SAMPLES} is not here")
def test_captured_dumps_of_real_phones_are_read() -> None:
    known = {"power-awake": Power("on", powered=False), "power-galaxy-s9": Power("off", None)}
    text = SAMPLES.read_text()
    bodies = {name: text.split(f"#@ id={name} ")[1].partition("<<<\n")[2].partition(">>>")[0] for name in known}
    assert {name: parse_power(body.encode()) for name, body in bodies.items()} == known
