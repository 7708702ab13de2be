from __future__ import annotations

import dataclasses

import pytest

from harness.phone.thermal import celsius, leading_zone
from harness.virtual import tree, vitals
from harness.virtual.profile import Profile, load_profile, profile_names


def hot(profile: Profile, step: int = 2) -> vitals.Vitals:
    return dataclasses.replace(vitals.idle(profile), chip_rise_c=20.0, skin_rise_c=6.0, step=step, busy=True)


def test_the_clock_falls_to_one_of_its_steps() -> None:
    profile = load_profile("high")
    texts = dict(vitals.sysfs_texts(profile, hot(profile)))
    big = profile.cpu.clusters[-1]
    clock = int(texts[f"{vitals.CPUFREQ}/policy7/scaling_max_freq"])
    assert clock in big.table_khz
    assert 0.74 * big.max_khz < clock <= 0.83 * big.max_khz
    assert texts[f"{vitals.CPUFREQ}/policy7/scaling_cur_freq"] == f"{clock}\n"
    assert texts[f"{vitals.THERMAL}/cooling_device2/cur_state"] == "2\n"


@pytest.mark.parametrize("name", profile_names())
def test_every_file_that_changes_is_there_from_the_start(name: str) -> None:
    profile = load_profile(name)
    there = {node.path for node in tree.sysfs(profile) if node.content is not None}
    assert {path for path, _ in vitals.sysfs_texts(profile, hot(profile, 1))} <= there


@pytest.mark.parametrize("name", profile_names())
def test_the_zone_that_speaks_for_a_phone_is_cool_at_rest_and_warms_with_what_it_sits_on(name: str) -> None:
    profile = load_profile(name)
    types = [zone.type for zone in profile.zones]
    readings = []
    for state in (vitals.idle(profile), hot(profile)):
        raws = [vitals.zone_raw(zone, state) for zone in profile.zones]
        leading = leading_zone(types, raws)
        assert leading is not None
        readings.append(celsius(types[leading], raws[leading]))
    assert readings[0] is not None
    assert readings[0] < 36.0
    zone = profile.zones[leading]
    rise = {"chip": 20.0, "skin": 6.0}[zone.node] * zone.gain
    assert rise > 1.0
    assert readings[1] == pytest.approx(readings[0] + rise, abs=1.0 if zone.per_degree == 1 else 0.1)


@pytest.mark.parametrize("name", profile_names())
def test_the_idle_temperature_of_the_model_is_that_of_the_hottest_chip_zone(name: str) -> None:
    profile = load_profile(name)
    chip = [zone.raw / zone.per_degree for zone in profile.zones if zone.node == "chip"]
    assert max(chip) == pytest.approx(profile.heat.idle_c)


def test_a_zone_in_whole_degrees_stays_in_whole_degrees() -> None:
    profile = load_profile("low")
    zone = next(zone for zone in profile.zones if zone.per_degree == 1)
    assert vitals.zone_raw(zone, hot(profile)) == zone.raw + 6


def test_what_is_no_temperature_does_not_warm() -> None:
    profile = load_profile("high")
    fixed = {zone.type: vitals.zone_raw(zone, hot(profile)) for zone in profile.zones if zone.node == "fixed"}
    assert fixed == {"socd": 64, "vbat": 4127}
