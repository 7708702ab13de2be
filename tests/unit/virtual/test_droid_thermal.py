from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.virtual.droid import thermal
from harness.virtual.profile import load_profile

Droid = Callable[..., Any]


def between(lines: list[str], start: str) -> list[str]:
    """The indented lines of one section."""
    after = lines[lines.index(start) + 1 :]
    return after[: next((index for index, line in enumerate(after) if not line.startswith("\t")), len(after))]


def test_sections_come_in_the_order_of_the_service(droid: Droid) -> None:
    lines = thermal.dump(droid("tensor").store())
    assert [line for line in lines if not line.startswith("\t")] == [
        "IsStatusOverride: false",
        "ThermalEventListeners:",
        "ThermalStatusListeners:",
        "Thermal Status: 0",
        "Cached temperatures:",
        "HAL Ready: true",
        "HAL connection:",
        "Current temperatures from HAL:",
        "Current cooling devices from HAL:",
        "Temperature static thresholds from HAL:",
    ]
    assert between(lines, "HAL connection:") == ["\tThermalHAL AIDL 1  connected: yes"]


def test_a_sensor_shows_its_zone_and_the_status_of_its_limits(droid: Droid) -> None:
    lines = thermal.dump(droid("tensor", skin_rise_c=13.0).store())
    skin = [line for line in between(lines, "Current temperatures from HAL:") if "VIRTUAL-SKIN" in line]
    assert skin == ["\tTemperature{mValue=42.87, mType=3, mName=VIRTUAL-SKIN, mStatus=2}"]
    assert "Thermal Status: 2" in lines


def test_a_hot_chip_alone_does_not_raise_the_phones_status(droid: Droid) -> None:
    lines = thermal.dump(droid("high", chip_rise_c=65.0, step=2).store())
    assert "\tTemperature{mValue=98.0, mType=0, mName=CPU7, mStatus=3}" in lines
    assert "Thermal Status: 0" in lines
    assert "\tCoolingDevice{mValue=2, mType=2, mName=thermal-cpufreq-7}" in lines


def test_what_the_service_remembers_is_stale_until_a_status_changes(droid: Droid) -> None:
    lines = thermal.dump(droid("high", chip_rise_c=20.0, skin_rise_c=12.0).store())
    cached, live = (between(lines, f"{start}:") for start in ("Cached temperatures", "Current temperatures from HAL"))
    assert "\tTemperature{mValue=33.0, mType=0, mName=CPU7, mStatus=0}" in cached
    assert "\tTemperature{mValue=53.0, mType=0, mName=CPU7, mStatus=0}" in live
    skin = "\tTemperature{mValue=41.24, mType=3, mName=skin, mStatus=2}"
    assert (skin in cached, skin in live) == (True, True)


def test_a_phone_that_reports_no_status_stays_at_0_however_hot(droid: Droid) -> None:
    lines = thermal.dump(droid("exynos", chip_rise_c=60.0, skin_rise_c=40.0).store())
    assert "Thermal Status: 0" in lines
    assert not [line for line in lines if "Temperature{" in line and "mStatus=0}" not in line]
    assert between(lines, "Current cooling devices from HAL:") == []
    assert between(lines, "Temperature static thresholds from HAL:") == []


def test_an_old_hal_has_no_status_and_no_thresholds(droid: Droid) -> None:
    lines = thermal.dump(droid("low", skin_rise_c=40.0).store())
    assert between(lines, "HAL connection:") == ["\tThermalHAL 1.0 connected: yes"]
    assert "Temperature static thresholds from HAL:" not in lines
    assert "Thermal Status: 0" in lines


def test_nothing_follows_a_hal_that_is_not_ready(droid: Droid) -> None:
    profile = load_profile("mid")
    broken = profile.model_copy(update={"thermal": profile.thermal.model_copy(update={"hal": "none"})})
    lines = thermal.dump(droid(broken).store())
    assert lines[-2:] == ["Cached temperatures:", "HAL Ready: false"]


def test_thresholds_come_in_both_syntaxes(droid: Droid) -> None:
    hidl = thermal.dump(droid("high").store())
    aidl = thermal.dump(droid("mid").store())
    assert [
        line
        for line in hidl
        if line.startswith("\t{.type = SKIN, .name = skin, .hotThrottlingThresholds = [NaN, 38.5,")
    ]
    assert [
        line for line in aidl if line.startswith("\tTemperatureThreshold{mType=3, mName=SKIN, mHotThrottlingThresh")
    ]


def test_an_override_stays_until_it_is_taken_back(droid: Droid) -> None:
    phone = droid("high")
    assert thermal.command(phone.store(), ["override-status", "3"]) == 0
    lines = thermal.dump(phone.store())
    assert (lines[0], "Thermal Status: 3" in lines) == ("IsStatusOverride: true", True)
    assert thermal.command(phone.store(), ["reset"]) == 0
    lines = thermal.dump(phone.store())
    assert (lines[0], "Thermal Status: 0" in lines) == ("IsStatusOverride: false", True)


@pytest.mark.parametrize("word", ["7", "x", "-1"])
def test_a_status_that_does_not_exist_is_refused(droid: Droid, word: str) -> None:
    phone = droid("high")
    assert thermal.command(phone.store(), ["override-status", word]) == 255
    assert thermal.dump(phone.store())[0] == "IsStatusOverride: false"


@pytest.mark.parametrize(
    ("value", "text"),
    [(31.9, "31.9"), (33.0, "33.0"), (29.24, "29.24"), (0.0, "0.0"), (-40.0, "-40.0"), (4.127, "4.127"), (None, "NaN"),
     (100.0, "100.0"), (float("nan"), "NaN"), (32.3000030517578125, "32.300003")],
)  # fmt: skip
def test_numbers_are_written_as_java_writes_floats(value: float | None, text: str) -> None:
    assert thermal.float_text(value) == text
