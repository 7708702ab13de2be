from __future__ import annotations

from types import ModuleType

from harness.report.fleet import fleet_table, shown


def table(make: ModuleType, **member):
    head = make.info("atlas").model_dump(mode="json", by_alias=True)
    head["fleet"][0] |= member
    return fleet_table(type(make.info()).model_validate(head), {"id-of-atlas": "atlas"})


def row(made) -> dict[str, str]:
    return dict(zip(made.titles, (figure.text for figure in made.rows[0].figures), strict=True))


def test_known_facts_have_their_units(make: ModuleType) -> None:
    assert row(fleet_table(make.info("atlas"), {})) == {
        "model": "Model atlas",
        "SoC": "SM0000",
        "tier": "high",
        "RAM": "8.00 GiB",
        "Android": "14",
        "ABI": "arm64-v8a, armeabi-v7a",
        "cores": "8",
        "OpenCL": "yes",
        "Vulkan": "none",
        "°C": "31.2",
    }


def test_an_unknown_fact_is_a_dash_with_its_reason(make: ModuleType) -> None:
    made = table(make, facts={"ram_bytes": None, "android_release": None}, nulls={"ram_bytes": "denied by SELinux"})
    assert row(made)["RAM"] == "—"
    assert made.notes["denied by SELinux"] == ["RAM"]
    assert "Android" in made.notes["not among the phone's facts"]
    # of the phone itself, though not among its facts
    assert row(made)["SoC"] == "SM0000"


def test_reasons_inside_the_facts_count_too(make: ModuleType) -> None:
    made = table(make, facts={"nulls": {"opencl": "may not list /vendor"}})
    assert made.notes["may not list /vendor"] == ["OpenCL"]


def test_what_belongs_together_is_told_in_words(make: ModuleType) -> None:
    facts = {
        "soc": "SM9999",
        "soc_name": "Toy 9 Gen 1",
        "cpu_clusters": [
            {"cpus": [0, 1, 2], "core": "Cortex-A55", "max_khz": 1_804_800},
            {"cpus": [7], "core": None, "max_khz": None},
            "junk",
        ],
        "gpu": "Toyo 7",
        "driver": "V@0001.2",
        "battery": {"level_pct": 61, "temp_c": 29.5, "plugged": "usb", "status": "charging", "health": None},
        "thermal": {"status": 2, "hal": None},
        "zones": [
            {"type": "tenths", "milli_c": 412, "celsius": 41.2},
            {"type": "socd", "milli_c": 30, "celsius": None},
        ],
    }
    made = table(make, facts=facts)
    told = row(made)
    assert told["SoC"] == "Toy 9 Gen 1 (SM9999)"
    assert told["cores"] == "1 × unknown core + 3 × Cortex-A55 1.80 GHz"
    assert told["GPU"] == "Toyo 7, V@0001.2"
    assert (told["battery, %"], told["°C"]) == ("61.0", "41.2")
    rest = made.rows[0].rest
    assert rest["battery"] == "plugged usb, status charging, health unknown"
    assert (rest["thermal"], rest["zones"]) == ("status 2, HAL unknown", "tenths 41.2 °C")


def test_clusters_that_nobody_can_read_leave_the_number_of_cores(make: ModuleType) -> None:
    assert row(table(make, facts={"cpu_clusters": ["junk"], "cores": 8}))["cores"] == "8"
    assert row(table(make, facts={"cpu_clusters": [], "cores": 8}))["cores"] == "8"


def test_battery_has_a_column_only_when_known(make: ModuleType) -> None:
    assert "battery, %" not in fleet_table(make.info(), {}).titles
    assert row(table(make, facts={"battery_pct": 83}))["battery, %"] == "83.0"


def test_a_temperature_that_cannot_be_is_not_shown(make: ModuleType) -> None:
    zones = [{"type": "a", "milli_c": 214748364}, {"type": "b", "milli_c": None}, "junk"]
    assert row(table(make, facts={"zones": zones}))["°C"] == "—"


def test_everything_else_is_among_the_further_facts(make: ModuleType) -> None:
    rest = fleet_table(make.info("atlas"), {}).rows[0].rest
    assert rest["kernel"] == "5.15.0"
    assert rest["opencl"] == "/vendor/lib64/libOpenCL.so"
    assert rest["cpu_max_khz"] == "— (no core's clock is readable)"
    assert rest["zones"] == "cpu 31.2 °C"


def test_a_fact_of_any_type_can_be_shown() -> None:
    values = (True, False, [1, 2], "x", {"a": [1]}, [{"b": 1}], 3)
    assert [shown(value) for value in values] == ["yes", "no", "1, 2", "x", '{"a": [1]}', '[{"b": 1}]', "3"]
