from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from harness.phone.thermal import Meaning, celsius, leading_zone, meaning_of, trip_limits

# Vendors' zones in their forms, values of our own.
SNAPDRAGON = {
    "aoss0-usr": 30100, "cpu-0-0-usr": 33300, "cpu-1-4-usr": 47700, "cpuss-0-usr": 35000, "cpu-1-4-step": 61000,
    "pm-ibat-lvl0": 611, "pm-vbat-lvl0": 4021, "pm-bcl-lvl0": 0, "soc": 83, "socd": 17, "pm-vph-lvl0": 4100,
    "pm2-bcl-lvl0": -274000, "skin-therm-usr": 33900, "camera-therm-usr": -40000, "gpu-skin-avg-step": 8100,
    "lmh-dcvs-00": 75000, "battery": 31000,
}  # fmt: skip
FACTS = Path(__file__).parents[4] / "shared" / "facts" / "android"


def leader(zones: dict[str, int | None]) -> str | None:
    position = leading_zone(list(zones), list(zones.values()))
    return None if position is None else list(zones)[position]


@pytest.mark.parametrize(
    ("name", "raw", "degrees"),
    [
        ("cpu-0-0", 41_300, 41.3),
        ("cpu-0-0", -5_000, -5.0),
        ("mtktsAP", 45, 45.0),
        ("tsens_tz_sensor3", 412, 41.2),
        ("tsens_tz_sensor3", 1_499, 149.9),
        ("cpu-0-0", 1_501, 1.501),
        ("cpu-0-0", 149, 149.0),
        ("cpu-0-0", None, None),
        ("cpu-0-0", 0, None),
        ("cpu-0-0", -40_000, None),
        ("cpu-0-0", -273_000, None),
        ("cpu-0-0", -274_000, None),
        ("mtktscpu", -127_000, None),
        ("cpu-0-0", 150_000, None),
        ("cpu-0-0", 2**63, None),
        ("cpu-0-0", -30_000, None),
        ("soc", 72, None),
        ("socd", 28, None),
        ("pm8150b-vbat-lvl0", 4_000, None),
        ("pm8150b-ibat-lvl0", 800, None),
        ("pm8150b-vph-lvl0", 4_000, None),
        ("lmh-dcvs-01", 75_000, None),
        ("gpu-skin-avg-step", 7_000, None),
        ("", 30_000, 30.0),
    ],
)
def test_a_zone_is_read_in_its_own_unit_or_not_at_all(name: str, raw: int | None, degrees: float | None) -> None:
    assert celsius(name, raw) == (None if degrees is None else pytest.approx(degrees))


def test_skin_speaks_first_then_battery_then_the_hottest_core() -> None:
    zones: dict[str, int | None] = dict(SNAPDRAGON)
    assert leader(zones) == "skin-therm-usr"
    del zones["skin-therm-usr"]
    assert leader(zones) == "battery"
    del zones["battery"]
    assert leader(zones) == "cpu-1-4-usr"


@pytest.mark.parametrize(
    "name",
    [
        "cpu-0-0-usr", "cpu-1-2-3", "cpuss-0", "cpu0-gold-usr", "apc0-cpu1-usr", "tsens_tz_sensor4", "mtktscpu",
        "cpu_big0", "cpu_little", "soc_max", "BIG", "MID", "MIDH", "LITTLE", "cluster0", "soc_thermal", "x86_pkg_temp",
        "cputop-thmzone", "soc-thmzone", "prometheus6-tzone0", "ank3-thmzone",
    ],
)  # fmt: skip
def test_every_vendors_cpu_can_speak(name: str) -> None:
    assert leader({"aoss0-usr": 90_000, name: 40_000, "usb_pwr_therm": 60_000}) == name


@pytest.mark.parametrize("name", ["G3D", "gpuss-0", "camera-therm", "modem", "soc", "usb_pwr_therm", ""])
def test_other_zones_never_speak(name: str) -> None:
    assert leader({name: 40_000}) is None


def test_a_zone_that_cannot_be_read_does_not_speak() -> None:
    assert leader({"skin-therm": -40_000, "cpu-0-0": None, "cpu-0-1": 40_000}) == "cpu-0-1"
    assert leader({"cpu-0-0": None, "cpu-0-1": 0}) is None
    assert leader({}) is None


def test_lists_of_different_length_are_read_as_far_as_they_go() -> None:
    assert leading_zone(["cpu-0", "cpu-1", "cpu-2"], [30_000, 40_000]) == 1
    assert leading_zone(["cpu-0"], [30_000, 40_000]) == 0


@pytest.mark.parametrize(
    ("meaning", "names"),
    [
        ("cpu", "cpu-0-0-usr cpu-2-1-0 cpu0-silver-usr cpuss-1 tsens_tz_sensor7 mtktscpu soc_max cpu-big-core1-1 MIDL"),
        ("cpu", "cluster1 soc_thermal soc-thermal cputop-thmzone prometheus7-thmzone x86_pkg_temp"),
        ("gpu", "gpuss-0-usr gpu0-usr gpu gpu1 G3D GPU gpu-thmzone gpuank2-thmzone mali mtktsgpu"),
        ("skin", "skin-therm quiet_therm xo-therm-adc mtktsAP ap_ntc shell shell_front case_therm"),
        ("battery", "battery Battery bms maxfg batt_therm mtktsbattery"),
        ("none", "soc socd vbat pm8150b-ibat-lvl0 pm8150l-bcl-lvl1 lmh-dcvs-00 gpu-skin-avg-step"),
        ("other", "aoss0-usr ddr-usr camera-therm ISP NPU TPU usb_pwr_therm pmic_temp wifi_ntc board-thmzone modem"),
    ],
)  # fmt: skip
def test_a_zones_name_tells_what_it_measures(meaning: Meaning, names: str) -> None:
    assert {name: meaning_of(name) for name in names.split()} == dict.fromkeys(names.split(), meaning)


def test_a_zone_without_a_name_is_any_zone() -> None:
    assert meaning_of("") == "other"


@pytest.fixture
def real_zones() -> str:
    file = FACTS / "02_thermal_zones.txt"
    if not file.is_file():
        pytest.skip("../shared/facts/android/02_thermal_zones.txt is missing")
    return file.read_text(encoding="utf-8")


def test_real_phones_zones_are_read_as_temperatures_of_a_phone(real_zones: str) -> None:
    blocks = re.findall(r"<<<\n(.*?)>>>", real_zones, re.DOTALL)
    read = [dict(re.findall(r"^(\S+?):? (-?\d+)$", block, re.MULTILINE)) for block in blocks]
    known = {name: degrees for zones in read for name, raw in zones.items() if (degrees := celsius(name, int(raw)))}
    assert len(known) > 30
    assert all(20 < degrees < 60 for degrees in known.values()), known
    leaders = [leader({name: int(raw) for name, raw in zones.items()}) for zones in read if zones]
    assert None not in leaders
    assert len(leaders) >= 2


def test_real_names_are_of_the_kind_that_the_table_says(real_zones: str) -> None:
    table = FACTS / "thermal_zone_names.csv"
    if not table.is_file():
        pytest.skip("../shared/facts/android/thermal_zone_names.csv is missing")
    names = set(re.findall(r"^(?:thermal_zone\d+_)?([A-Za-z][\w.-]*)", "\n".join(
        re.findall(r"<<<\n(.*?)>>>", real_zones, re.DOTALL)), re.MULTILINE))  # fmt: skip
    checked = 0
    with table.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if not row["zone_type_regex"].startswith("^"):
                continue
            for name in (name for name in names if re.search(row["zone_type_regex"], name)):
                checked += 1
                if row["kind"] == "EXCLUDE":
                    assert celsius(name, 40_000) is None, name
                elif row["kind"].startswith(("cpu", "skin")) and "gpu" not in name:
                    assert leader({name: 40_000}) == name
    assert checked > 15


def test_trips_are_set_in_the_unit_of_each_zone_and_only_where_something_is_read() -> None:
    zones = {
        "skin-therm": 31_000,
        "quiet-therm": 30,
        "battery": 289,
        "maxfg": None,
        "cpu-0-0": 45_000,
        "shell(front)": 30_000,
        "vbat": 4100,
    }
    limits = trip_limits(list(zones), list(zones.values()), {"skin": 65.0, "battery": 60.5})
    assert limits == {"skin-therm": 65_000, "quiet-therm": 65, "battery": 605}
