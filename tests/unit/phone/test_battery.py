from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.phone.battery import Battery, parse_battery

SAMPLES = Path(__file__).parents[4] / "shared" / "facts" / "android" / "08_battery_power.txt"
PLAIN = b"""Current Battery Service state:
  AC powered: false
  USB powered: true
  Wireless powered: false
  Dock powered: false
  Max charging current: 900000
  Charge counter: 2950000
  status: 2
  health: 2
  present: true
  level: 81
  scale: 100
  voltage: 4107
  temperature: 312
  technology: Li-ion
"""
READ = Battery(81, 31.2, "usb", "charging", "good", 4107, overridden=False)


def said(old: bytes, new: bytes) -> Battery:
    assert old in PLAIN
    return parse_battery(PLAIN.replace(old, new))


def test_a_plain_dump_is_read_whole() -> None:
    assert parse_battery(PLAIN) == READ
    assert READ.charging


def test_old_phones_line_ends_change_nothing() -> None:
    assert parse_battery(PLAIN.replace(b"\n", b"\r\n")) == READ


def test_the_capacity_level_is_not_the_level() -> None:
    before_and_after = PLAIN.replace(b"  level: 81", b"  Capacity level: -1\n  level: 81") + b"  Capacity level: -1\n"
    first_only = PLAIN.replace(b"  level: 81", b"  Capacity level: -1\n  level: 81")
    assert parse_battery(first_only) == READ
    assert parse_battery(before_and_after) == READ


def test_an_event_log_after_the_state_is_not_the_state() -> None:
    log = (
        b"[EventLogBuffer]\n05-02 03:04:05.678  Sending: level:44, temperature:199\n  level: 44\n  Dock powered: true\n"
    )
    assert parse_battery(PLAIN + log) == READ
    without_dock = PLAIN.replace(b"  Dock powered: false\n", b"").replace(b"USB powered: true", b"USB powered: false")
    assert parse_battery(without_dock + b"  level: 44\n  Dock powered: true\n") == replace(READ, plugged="none")


def test_lines_of_a_log_do_not_stand_in_for_lines_that_are_missing() -> None:
    battery = parse_battery(PLAIN.replace(b"  level: 81\n", b"") + b"[EventLogBuffer]\n  level: 44\n")
    assert battery.level_pct is None
    assert battery.nulls == {"level_pct": "dumpsys battery has no line 'level'"}


def test_an_override_is_told() -> None:
    frozen = said(b"state:\n", b"state:\n  (UPDATES STOPPED -- use 'reset' to restart)\n")
    assert frozen == replace(READ, overridden=True)


@pytest.mark.parametrize(
    ("powered", "plugged"),
    [
        ({"AC", "USB", "Wireless", "Dock"}, "ac"),
        ({"USB", "Wireless", "Dock"}, "usb"),
        ({"Wireless", "Dock"}, "wireless"),
        ({"Dock"}, "dock"),
        (set(), "none"),
    ],
)
def test_the_strongest_charger_counts(powered: set[str], plugged: str) -> None:
    lines = PLAIN.decode()
    for name in ("AC", "USB", "Wireless", "Dock"):
        for word in ("true", "false"):
            lines = lines.replace(f"{name} powered: {word}", f"{name} powered: {str(name in powered).lower()}")
    assert parse_battery(lines.encode()).plugged == plugged


def test_a_phone_without_wireless_charging_has_no_such_line() -> None:
    assert said(
        b"USB powered: true\n  Wireless powered: false\n  Dock powered: false", b"USB powered: false"
    ) == replace(READ, plugged="none")


def test_a_missing_plug_line_makes_the_plug_unknown_not_absent() -> None:
    battery = said(b"  USB powered: true\n", b"")
    assert (battery.plugged, battery.nulls) == (None, {"plugged": "dumpsys battery does not tell 'USB powered'"})


@pytest.mark.parametrize(
    ("old", "new", "read"),
    [
        (b"level: 81\n  scale: 100", b"level: 81\n  scale: 200", {"level_pct": 40}),
        (b"  scale: 100\n", b"", {}),
        (b"status: 2", b"status: 5", {"status": "full"}),
        (b"status: 2", b"status: 4", {"status": "not_charging"}),
        (b"status: 2", b"status: 3", {"status": "discharging"}),
        (b"status: 2", b"status: 1", {"status": "unknown"}),
        (b"health: 2", b"health: 3", {"health": "overheat"}),
        (b"temperature: 312", b"temperature: -45", {"temp_c": -4.5}),
        (b"voltage: 4107", b"voltage: 4107000", {"voltage_mv": 4107}),
        (b"voltage: 4107", b"voltage: 8214", {"voltage_mv": 8214}),
    ],
)
def test_a_value_is_read_in_its_unit(old: bytes, new: bytes, read: dict[str, object]) -> None:
    assert said(old, new) == replace(READ, **read)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("old", "new", "field", "why"),
    [
        (b"level: 81", b"level: 101", "level_pct", "dumpsys battery says level: 101, which cannot be"),
        (b"level: 81", b"level: -1", "level_pct", "dumpsys battery says level: -1, which cannot be"),
        (b"level: 81", b"level: full", "level_pct", "dumpsys battery says level: 'full', no number"),
        (b"scale: 100", b"scale: 0", "level_pct", "dumpsys battery says scale: 0, which cannot be"),
        (b"scale: 100", b"scale: ?", "level_pct", "dumpsys battery says scale: '?', no number"),
        (b"temperature: 312", b"temperature: 0", "temp_c", "dumpsys battery says temperature: 0, which cannot be"),
        (
            b"temperature: 312",
            b"temperature: 9990",
            "temp_c",
            "dumpsys battery says temperature: 9990, which cannot be",
        ),
        (b"  temperature: 312\n", b"", "temp_c", "dumpsys battery has no line 'temperature'"),
        (b"status: 2", b"status: 9", "status", "dumpsys battery says status: 9, which cannot be"),
        (b"health: 2", b"health: 0", "health", "dumpsys battery says health: 0, which cannot be"),
        (b"voltage: 4107", b"voltage: 4", "voltage_mv", "dumpsys battery says voltage: 4, which cannot be"),
    ],
)
def test_what_cannot_be_is_unknown_with_its_reason(old: bytes, new: bytes, field: str, why: str) -> None:
    assert said(old, new) == replace(READ, **{field: None}, nulls={field: why})  # type: ignore[arg-type]


@pytest.mark.parametrize("data", [b"", b"Can't find service: battery\n", bytes(range(256)), b"level: " + b"9" * 5000])
def test_what_is_no_dump_is_unknown_throughout(data: bytes) -> None:
    battery = parse_battery(data)
    assert battery == Battery(None, None, None, None, None, None, overridden=False, nulls=battery.nulls)
    assert set(battery.nulls) == {"level_pct", "temp_c", "plugged", "status", "health", "voltage_mv"}


@pytest.mark.skipif(not SAMPLES.is_file(), reason=f"{SAMPLES} is not here")
def test_captured_dumps_of_real_phones_are_read() -> None:
    known = {
        "battery-typical": Battery(100, 27.4, "usb", "full", "good", 4352, overridden=False),
        "battery-odd-counter": Battery(15, 34.0, "ac", "charging", "good", 4359, overridden=False),
        "battery-no-wireless-line": Battery(67, 33.7, "none", "discharging", "good", 3964, overridden=False),
        "battery-samsung-eventlog": Battery(75, 35.7, None, "charging", "good", 4156, overridden=False),
        "battery-updates-stopped": Battery(None, None, "none", None, None, None, overridden=True),
    }
    read = {}
    for part in SAMPLES.read_text().split("#@ id=battery-")[1:]:
        body = part.partition("<<<\n")[2].partition(">>>")[0]
        read[f"battery-{part.split()[0]}"] = replace(parse_battery(body.encode()), nulls={})
    assert read == known
