from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.virtual import vitals
from harness.virtual.droid import battery

Droid = Callable[..., Any]


def value_of(lines: list[str], key: str) -> str:
    """The first line of that key: what follows may be a log with older values."""
    return next(line.split(": ", 1)[1] for line in lines if line.startswith(f"  {key}: "))


@pytest.mark.parametrize(
    ("name", "has", "lacks"),
    [
        ("high", ["Wireless powered", "Dock powered", "Capacity level"], ["Charging policy"]),
        ("tensor", ["Dock powered", "Charging policy"], []),
        ("exynos", ["Wireless powered", "Capacity level"], ["Dock powered"]),
        ("kirin", ["USB powered"], ["Wireless powered", "Dock powered", "Max charging voltage"]),
    ],
)
def test_lines_differ_by_release_and_maker(droid: Droid, name: str, has: list[str], lacks: list[str]) -> None:
    text = "\n".join(battery.dump(droid(name).store()))
    assert all(f"  {key}: " in text for key in has)
    assert not any(key in text for key in lacks)


def test_values_come_from_the_model(droid: Droid) -> None:
    charge = vitals.Charge(level=41, plugged=1, status=4, voltage_mv=3790, current_ma=-300, counter_uah=1_640_000)
    lines = battery.dump(droid("low", charge=charge, skin_rise_c=5.0).store())
    assert lines[0] == "Current Battery Service state:"
    read = {
        key: value_of(lines, key) for key in ("AC powered", "USB powered", "level", "status", "voltage", "temperature")
    }
    assert read == {
        "AC powered": "true", "USB powered": "false", "level": "41", "status": "4", "voltage": "3790",
        "temperature": "330",
    }  # fmt: skip


def test_samsungs_log_repeats_the_keys_with_older_values(droid: Droid) -> None:
    lines = battery.dump(droid("exynos").store())
    levels = [line for line in lines if line.startswith("  level: ")]
    assert len(levels) == 2
    assert levels[0] == "  level: 88"
    assert lines.index("[EventLogBuffer]") > lines.index(levels[0])


def test_unplug_freezes_all_readings_until_reset(droid: Droid) -> None:
    phone = droid("high")
    assert battery.command(phone.store(), ["unplug"]) == 0
    later = vitals.service_state(phone.profile, vitals.idle(phone.profile), 1)
    later["battery"]["level"] = 12
    phone.publish(later)
    lines = battery.dump(phone.store())
    assert lines[1] == "  (UPDATES STOPPED -- use 'reset' to restart)"
    assert (value_of(lines, "USB powered"), value_of(lines, "status"), value_of(lines, "level")) == ("false", "3", "71")
    assert battery.command(phone.store(), ["reset"]) == 0
    lines = battery.dump(phone.store())
    assert (value_of(lines, "USB powered"), value_of(lines, "level")) == ("true", "12")
    assert not [line for line in lines if "UPDATES STOPPED" in line]


def test_single_values_can_be_set(droid: Droid, capsys: pytest.CaptureFixture[str]) -> None:
    phone = droid("high")
    for words in (["set", "level", "7"], ["set", "-f", "temp", "401"], ["set", "usb", "0"], ["set", "ac", "1"]):
        assert battery.command(phone.store(), words) == 0
    lines = battery.dump(phone.store())
    assert (value_of(lines, "level"), value_of(lines, "temperature")) == ("7", "401")
    assert (value_of(lines, "AC powered"), value_of(lines, "USB powered")) == ("true", "false")
    assert battery.command(phone.store(), ["get", "level"]) == 0
    assert capsys.readouterr().out == "7\n"


@pytest.mark.parametrize("words", [["set", "colour", "1"], ["set", "level", "many"], ["get", "colour"], ["explode"]])
def test_what_makes_no_sense_is_refused(droid: Droid, words: list[str]) -> None:
    phone = droid("high")
    assert battery.command(phone.store(), words) == 255
    assert "battery" not in phone.store().asked
