from __future__ import annotations

import pytest

from harness.phone.thermalservice import CoolingDevice, Limits, Sensor, ThermalService, parse_thermalservice

# The format of Android 10 and later, values made up.
DUMP = """\
IsStatusOverride: false
ThermalEventListeners:
	callbacks: 2
	killed: false
Thermal Status: 3
Cached temperatures:
	Temperature{mValue=71.25, mType=0, mName=cpu-old, mStatus=0}
HAL Ready: true
HAL connection:
	ThermalHAL 2.0 connected: yes
Current temperatures from HAL:
	Temperature{mValue=51.300003, mType=0, mName=CPU0, mStatus=0}
	Temperature{mValue=44.0, mType=3, mName=back skin, mStatus=3}
	Temperature{mValue=46.5, mType=3, mName=front, mStatus=2}
	Temperature{mValue=0.0, mType=2, mName=SUBBAT, mStatus=0}
	Temperature{mValue=NaN, mType=-1, mName=disp, mStatus=0}
	Temperature{mValue=4.1, mType=6, mName=vbat, mStatus=0}
	Temperature{mValue=31000.0, mType=12, mName=modem, mStatus=0}
	Temperature{mValue=33.5, mType=99, mName=new, mStatus=0}
Current cooling devices from HAL:
	CoolingDevice{mValue=4, mType=2, mName=thermal-cpufreq-0}
	CoolingDevice{mValue=0, mType=0, mName=a fan}
Temperature static thresholds from HAL:
	TemperatureThreshold{mType=3, mName=front, mHotThrottlingThresholds=[NaN, 39.0, NaN, 43.5, NaN, NaN, 60.0], \
mColdThrottlingThresholds=[NaN, NaN, NaN, NaN, NaN, NaN, NaN]}
Temperature headroom thresholds:
	[NaN, 0.8, NaN, 1.0, NaN, NaN, NaN]
"""
FRONT = Limits("front", "skin", (None, 39.0, None, 43.5, None, None, 60.0))


def test_a_dump_is_read_from_the_vendors_part_and_not_from_the_cache() -> None:
    read = parse_thermalservice(DUMP.encode())
    assert read == ThermalService(
        status=3,
        overridden=False,
        ready=True,
        hal="2.0",
        sensors=(
            Sensor("CPU0", "cpu", 51.3, 0),
            Sensor("back skin", "skin", 44.0, 3),
            Sensor("front", "skin", 46.5, 2),
            Sensor("SUBBAT", "battery", None, 0),
            Sensor("disp", "unknown", None, 0),
            Sensor("vbat", "bcl_voltage", None, 0),
            Sensor("modem", "modem", None, 0),
            Sensor("new", "unknown", 33.5, 0),
        ),
        cooling=(CoolingDevice("thermal-cpufreq-0", 4), CoolingDevice("a fan", 0)),
        limits=(FRONT,),
    )
    assert read.hottest_c("skin") == 46.5
    assert read.hottest_c("battery") is None


@pytest.mark.parametrize(
    "bend",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\t", "    "),
        lambda text: text.replace("\t", ""),
        lambda text: text.replace("ThermalHAL 2.0 connected", "ThermalHAL 2.0  connected"),
        lambda text: text.replace("IsStatusOverride: false\n", ""),
        lambda text: text.replace(", mColdThrottlingThresholds=[NaN, NaN, NaN, NaN, NaN, NaN, NaN]}", "}"),
        lambda text: (
            text.replace("TemperatureThreshold{mType=3", "{.type = SKIN")
            .replace(", mName=front, mHotThr", ", .name = front, .hotThr")
            .replace("Thresholds=[", "Thresholds = [")
        ),
        lambda text: text.replace("TemperatureThreshold{mType=3", "TemperatureThreshold{type: SKIN").replace(
            ", mName=front, mHotThrottlingThresholds=", ", name: front, hotThrottlingThresholds: "
        ),
    ],
)
def test_vendors_and_releases_write_it_differently(bend) -> None:  # type: ignore[no-untyped-def]
    assert bend(DUMP) != DUMP
    assert parse_thermalservice(bend(DUMP).encode()) == parse_thermalservice(DUMP.encode())


def test_fields_may_come_in_any_order() -> None:
    line = "Temperature{mName=x, mStatus=1, mType=9, mValue=40.0}"
    assert parse_thermalservice(f"Current temperatures from HAL:\n{line}\n".encode()).sensors == (
        Sensor("x", "npu", 40.0, 1),
    )


@pytest.mark.parametrize("version", ["1.0", "1.1", "2.0", "AIDL 1", "AIDL 3"])
def test_the_vendors_part_has_a_version(version: str) -> None:
    assert parse_thermalservice(DUMP.replace("2.0", version).encode()).hal == version


def test_a_part_that_is_not_ready_tells_no_temperature_though_some_are_cached() -> None:
    text = DUMP[: DUMP.index("HAL Ready")] + "HAL Ready: false\n"
    read = parse_thermalservice(text.encode())
    assert (read.status, read.ready, read.hal, read.sensors) == (3, False, None, ())
    assert read.nulls == {"hal": "the vendor's part is not ready", "sensors": "the vendor's part is not ready"}


def test_empty_sections_are_no_sections() -> None:
    text = "Thermal Status: 0\nHAL Ready: true\nCurrent temperatures from HAL:\nCurrent cooling devices from HAL:\n"
    read = parse_thermalservice(text.encode())
    assert (read.sensors, read.cooling, read.limits) == ((), (), ())
    assert read.nulls == {"hal": "it names no version", "sensors": "the vendor's part lists no temperatures"}


def test_a_status_that_somebody_set_is_told() -> None:
    assert parse_thermalservice(b"IsStatusOverride: true\nThermal Status: 5\n").overridden


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it says 'nothing'"),
        (b"\n Permission Denial: can't dump\n", 'it says "Permission Denial: can\'t dump"'),
        (b"Thermal Status: 7\n", "it says 'Thermal Status: 7'"),
        (b"Thermal Status: -1\n", "it says 'Thermal Status: -1'"),
        (b"\xff\xfe{{{}}}\n}{\n", "it says '��{{{}}}'"),
    ],
)
def test_a_status_that_is_none_is_unknown_with_its_reason(data: bytes, why: str) -> None:
    read = parse_thermalservice(data)
    assert read.status is None
    assert read.nulls["status"] == why
