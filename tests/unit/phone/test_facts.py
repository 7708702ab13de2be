from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from harness.phone.battery import parse_battery
from harness.phone.cpu import Cluster
from harness.phone.drivers import DriverListing, PublicLibraries
from harness.phone.facts import Facts, Told, Zone, build_facts, read_zones
from harness.phone.gpu import Gpu
from harness.phone.probed import read_probe_facts
from harness.phone.storage import Storage
from harness.phone.thermalservice import parse_thermalservice

PROPERTIES = {
    "ro.product.model": "Toy 3",
    "ro.product.manufacturer": "Maker",
    "ro.soc.model": "SM8550",
    "ro.board.platform": "kalama",
    "ro.build.version.release": "15",
    "ro.build.version.sdk": "35",
    "ro.product.cpu.abilist": "arm64-v8a,armeabi-v7a",
    "ro.build.fingerprint": "maker/toy/1",
    "ro.serialno": "TOY1",
    "ro.build.version.security_patch": "2025-06-05",
    "ro.build.type": "user",
    "ro.gfx.driver.0": "com.example.gpudrivers",
    "ro.odm.build.media_performance_class": "34",
}
PROBE: dict[str, Any] = {
    "kernel": "6.1.0",
    "machine": "aarch64",
    "page_size": 4096,
    "boot_id": "0b5e55ed",
    "cores": [
        {"cpu": 0, "implementer": "0x41", "part": "0xd46", "max_khz": 1_800_000},
        {"cpu": 4, "implementer": "0x41", "part": "0xd4e", "max_khz": 2_400_000},
        {"cpu": 7, "max_khz": 2_400_000},
    ],
    "clusters": [[0], [4, 7]],
    "features": ["asimddp", "i8mm", "paca"],
    "mem_total_bytes": 8 << 30,
    "mem_available_bytes": 3 << 30,
    "llc_bytes": 10 << 20,
    "zones": [{"zone": 3, "type": "cpu-0-0", "milli_c": 41000}, {"zone": 9, "type": "skin-therm", "milli_c": 318}],
    "denied": [],
}
DRIVERS = DriverListing("/vendor/lib64/libOpenCL.so", "")


GPU = Gpu("Toyo 7", "V@0001.2", "OpenGL ES 3.2 V@0001.2")
BATTERY = parse_battery(
    b"  AC powered: false\n  USB powered: true\n  status: 2\n  health: 2\n  level: 61\n  voltage: 4012\n"
    b"  temperature: 299\n"
)
THERMAL = parse_thermalservice(b"IsStatusOverride: false\nThermal Status: 1\nCached temperatures:\nHAL Ready: false\n")


def told(probe: dict[str, Any] | None = None, properties: dict[str, str] | None = None, **over: Any) -> Told:
    return Told(
        properties=PROPERTIES if properties is None else properties,
        probe=read_probe_facts({**(PROBE if probe is None else probe), **over}),
        drivers=DRIVERS,
        python_mnn="3.6.1",
        gpu=GPU,
        public_libraries=PublicLibraries(("libOpenCL.so",)),
        storage=Storage(110 << 30, 40 << 30),
        battery=BATTERY,
        thermal=THERMAL,
    )


def build(probe: dict[str, Any] | None = None, properties: dict[str, str] | None = None, **over: Any) -> Facts:
    return build_facts(told(probe, properties, **over))


def test_a_phone_that_tells_everything_has_no_null() -> None:
    facts = build()
    assert facts.nulls == {}
    assert facts.notes == ()
    assert (facts.model, facts.soc, facts.sdk, facts.abis) == ("Toy 3", "SM8550", 35, ("arm64-v8a", "armeabi-v7a"))
    assert (facts.soc_vendor, facts.soc_name) == ("Qualcomm", "Snapdragon 8 Gen 2")
    assert (facts.security_patch, facts.build_type) == ("2025-06-05", "user")
    assert (facts.cores, facts.clusters, facts.cpu_max_khz) == (3, ((0,), (4, 7)), 2_400_000)
    assert facts.core_max_khz == {0: 1_800_000, 4: 2_400_000, 7: 2_400_000}
    assert facts.cpu_clusters == (
        Cluster((0,), "Cortex-A510", "0x41", "0xd46", 1_800_000),
        Cluster((4, 7), "Cortex-X3", "0x41", "0xd4e", 2_400_000),
    )
    assert (facts.cpu_features, facts.instructions) == (("asimddp", "i8mm", "paca"), ("dotprod", "i8mm"))
    assert (facts.ram_bytes, facts.opencl, facts.vulkan) == (8 << 30, "/vendor/lib64/libOpenCL.so", "")
    assert (facts.gpu, facts.driver, facts.gles) == ("Toyo 7", "V@0001.2", "OpenGL ES 3.2 V@0001.2")
    assert (facts.updatable_driver, facts.opencl_public) == ("com.example.gpudrivers", ("libOpenCL.so",))
    assert (facts.storage_total_bytes, facts.storage_free_bytes) == (110 << 30, 40 << 30)
    assert (facts.battery, facts.thermal) == (BATTERY, THERMAL)
    assert facts.zones == (Zone(3, "cpu-0-0", 41000, "cpu", 41.0), Zone(9, "skin-therm", 318, "skin", 31.8))
    plain = json.loads(json.dumps(facts.as_dict()))
    assert (plain["model"], plain["battery"]["level_pct"], plain["thermal"]["status"]) == ("Toy 3", 61, 1)
    assert plain["cpu_clusters"][1]["core"] == "Cortex-X3"


@pytest.mark.parametrize(
    ("declared", "known", "why"),
    [
        ("33", 33, None),
        ("0", None, "the phone declares none"),
        ("", None, "the phone has no property ro.odm.build.media_performance_class"),
        ("S", None, "ro.odm.build.media_performance_class is 'S', no number"),
    ],
)
def test_the_media_performance_class_is_what_the_phone_declares(declared: str, known: int | None, why: Any) -> None:
    facts = build(None, {**PROPERTIES, "ro.odm.build.media_performance_class": declared})
    assert (facts.media_performance_class, facts.nulls.get("media_performance_class")) == (known, why)


def test_a_phone_that_tells_nothing_has_a_reason_for_every_null() -> None:
    facts = build_facts(Told({}, read_probe_facts({}), DriverListing(None, None, {"opencl": "x", "vulkan": "x"})))
    missing = {name for name, value in facts.as_dict().items() if value is None}
    assert missing == {
        "model", "manufacturer", "soc", "platform", "android_release", "sdk", "fingerprint", "serialno", "boot_id",
        "kernel", "page_size", "cpu_max_khz", "ram_bytes", "available_bytes", "opencl", "vulkan", "python_mnn",
        "soc_vendor", "soc_name", "security_patch", "build_type", "instructions", "gpu", "driver", "gles",
        "llc_bytes", "updatable_driver", "opencl_public", "storage_total_bytes", "storage_free_bytes",
        "battery", "thermal", "media_performance_class",
    }  # fmt: skip
    assert missing <= set(facts.nulls)
    assert all(facts.nulls.values())
    assert facts.nulls["model"] == "the phone has no property ro.product.model"
    assert facts.nulls["cpu_clusters"] == "the phone tells no cores"
    assert facts.abis == ()
    assert facts.nulls["abis"] == "the phone has no property ro.product.cpu.abilist"


def test_a_file_that_may_not_be_read_is_the_reason_of_its_facts_and_of_no_other() -> None:
    denied = [
        {"path": "/proc/meminfo", "errno": "EACCES"},
        {"path": "/proc/sys/kernel/random/boot_id", "errno": "EPERM"},
    ]
    facts = build(kernel=None, mem_total_bytes=None, boot_id=None, denied=denied)
    assert facts.nulls == {
        "kernel": "not readable (the phone does not tell)",
        "ram_bytes": "not readable (/proc/meminfo: EACCES)",
        "boot_id": "not readable (/proc/sys/kernel/random/boot_id: EPERM)",
    }


@pytest.mark.parametrize(
    ("over", "why"),
    [
        ({"llc_bytes": None}, "the kernel does not tell all sizes of its caches"),
        ({"llc_bytes": 0}, "the probe tells 0, which is not above 0"),
        ({"llc_bytes": None, "denied": [{"path": "/s/cpu0/cache/index2/size", "errno": "EACCES"}]}, "EACCES"),
    ],
)
def test_unknown_caches_have_their_reason(over: dict[str, Any], why: str) -> None:
    facts = build(**over)
    assert facts.llc_bytes is None
    assert why in facts.nulls["llc_bytes"]


def test_a_sensor_that_tells_nothing_has_its_own_reason() -> None:
    zones = [
        {"zone": 0, "type": "BIG", "milli_c": None},
        {"zone": 2, "type": "camera-therm", "milli_c": -40000},
        {"zone": 3, "type": "modem", "milli_c": None},
        {"zone": 4, "type": "socd", "milli_c": 18},
        {"zone": 5, "type": None, "milli_c": 0},
        {"zone": 6, "type": "battery", "milli_c": 30000},
    ]
    cores = [
        {"cpu": 0, "max_khz": None, "online": True},
        {"cpu": 1, "max_khz": None, "online": True},
        {"cpu": 2, "max_khz": None, "online": False},
    ]
    denied = [
        {"path": "/sys/class/thermal/thermal_zone0/temp", "errno": "EACCES"},
        {"path": "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "errno": "EPERM"},
    ]
    assert build(zones=zones, cores=cores, denied=denied, clusters=[]).nulls == {
        "zones[0]": "/sys/class/thermal/thermal_zone0/temp: EACCES",
        "zones[2]": "camera-therm says -40000, which is no temperature",
        "zones[3]": "its sensor does not answer",
        "zones[4]": "socd says 18, which is no temperature",
        "zones[5]": "a zone without a readable name says 0, which is no temperature",
        "core_max_khz[0]": "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq: EPERM",
        "core_max_khz[1]": "the kernel does not tell it",
        "core_max_khz[2]": "the core is off",
        "cpu_max_khz": "no core's clock is readable",
        "cpu_clusters": "the phone tells no cores",
    }


@pytest.mark.parametrize(
    ("denied", "zones", "cores"),
    [
        ([], "the kernel shows no thermal zones", "the kernel shows no cores"),
        (["/sys/class/thermal"], "/sys/class/thermal: EACCES", "the kernel shows no cores"),
        (
            ["/sys/devices/system/cpu/present"],
            "the kernel shows no thermal zones",
            "/sys/devices/system/cpu/present: EACCES",
        ),
    ],
)
def test_a_folder_that_may_not_be_listed_is_the_reason_of_an_empty_list(
    denied: list[str], zones: str, cores: str
) -> None:
    facts = build(zones=[], cores=[], clusters=[], denied=[{"path": path, "errno": "EACCES"} for path in denied])
    assert (facts.nulls["zones"], facts.nulls["cores"]) == (zones, cores)


def test_an_answer_of_a_wrong_kind_is_quoted_as_the_reason() -> None:
    facts = build(page_size="large", features=7)
    assert facts.nulls == {
        "page_size": "not readable (the probe tells 'large', which is not a whole number)",
        "instructions": "the probe tells 7, which is not a list",
    }


def test_what_is_said_here_and_there_and_does_not_fit_is_noted() -> None:
    facts = build_facts(
        dataclasses.replace(told(), gpu=Gpu("Mali-G610", None, None, nulls={"driver": "x", "gles": "x"}))
    )
    assert facts.notes == ("the GPU is Mali-G610, which no Qualcomm chip has",)
    facts = build_facts(dataclasses.replace(told(), gpu=Gpu("SwiftShader Device", "1", "1", software=True)))
    assert facts.notes == ("SwiftShader Device computes on the CPU: the phone uses no GPU",)


@pytest.mark.parametrize(
    ("machine", "abis"),
    [("x86_64", ("x86_64",)), ("aarch64", ("arm64-v8a",)), ("armv8l", ("armeabi-v7a",)), ("riscv64", ()), (None, ())],
)
def test_a_computer_without_properties_has_its_kernels_abi(machine: str | None, abis: tuple[str, ...]) -> None:
    facts = build(properties={}, machine=machine)
    assert facts.abis == abis
    assert ("abis" in facts.nulls) == (not abis)


@pytest.mark.parametrize(
    ("keys", "abis"),
    [
        ({"ro.product.cpu.abilist": "arm64-v8a, armeabi-v7a,"}, ("arm64-v8a", "armeabi-v7a")),
        ({"ro.vendor.product.cpu.abilist": "arm64-v8a"}, ("arm64-v8a",)),
        ({"ro.product.cpu.abi": "armeabi-v7a", "ro.product.cpu.abi2": "armeabi"}, ("armeabi-v7a", "armeabi")),
        ({"ro.product.cpu.abi": "x86"}, ("x86",)),
    ],
)
def test_phones_of_all_ages_name_their_abis(keys: dict[str, str], abis: tuple[str, ...]) -> None:
    facts = build(properties=keys)
    assert facts.abis == abis
    assert "abis" not in facts.nulls


@pytest.mark.parametrize(
    ("keys", "soc"),
    [
        ({"ro.soc.model": "A", "ro.hardware.chipname": "B"}, "A"),
        ({"ro.hardware.chipname": "B", "ro.board.platform": "C"}, "B"),
        ({"ro.board.platform": "C"}, "C"),
        ({"ro.soc.model": " ", "ro.board.platform": "C"}, "C"),
        ({}, None),
    ],
)
def test_older_phones_name_their_chip_elsewhere(keys: dict[str, str], soc: str | None) -> None:
    assert build(properties=keys).soc == soc


@pytest.mark.parametrize("sdk", ["S", "35.1", "-1", "²", ""])
def test_a_version_that_is_no_number_is_unknown_with_its_reason(sdk: str) -> None:
    facts = build(properties={**PROPERTIES, "ro.build.version.sdk": sdk})
    assert facts.sdk is None
    assert "sdk" in facts.nulls


ODD: list[object] = [
    None,
    True,
    7,
    -1,
    1.5,
    10**400,
    "text",
    "",
    "\udcff",
    [],
    [None],
    [1],
    ["x"],
    [[]],
    [{}],
    {},
    {"a": 1},
]


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("key", sorted(PROBE))
def test_no_odd_answer_of_the_probe_becomes_a_traceback_or_a_wrong_kind(key: str, value: object) -> None:
    facts = build(**{key: value})
    for text in (facts.kernel, facts.boot_id):
        assert text is None or (isinstance(text, str) and text.encode("utf-8"))
    for number in (facts.page_size, facts.ram_bytes, facts.available_bytes, facts.cpu_max_khz):
        assert number is None or type(number) is int
    assert all(type(khz) in (int, type(None)) for khz in facts.core_max_khz.values())
    assert all(isinstance(zone.type, str) for zone in facts.zones)
    missing = {name for name, known in facts.as_dict().items() if known is None}
    assert missing <= set(facts.nulls)
    json.dumps(facts.as_dict())


@pytest.mark.parametrize("entry", ODD, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize(
    ("key", "field"), [("cores", "cpu"), ("cores", "max_khz"), ("zones", "zone"), ("zones", "type"), ("denied", "path")]
)
def test_no_odd_entry_of_a_list_becomes_a_traceback(key: str, field: str, entry: object) -> None:
    good = {"cpu": 1, "max_khz": 5, "zone": 1, "type": "cpu", "milli_c": 1, "path": "/proc/meminfo", "errno": "E"}
    facts = build(mem_total_bytes=None, **{key: [entry, {**good, field: entry}, good]})
    assert "ram_bytes" in facts.nulls
    if key == "cores":
        assert facts.core_max_khz[1] == 5
    if key == "zones":
        assert facts.zones[-1].type == "cpu"


def test_zero_memory_is_unknown_not_nothing() -> None:
    facts = build(mem_total_bytes=0)
    assert facts.ram_bytes is None
    assert "ram_bytes" in facts.nulls


def test_names_come_as_bytes_in_disguise() -> None:
    zones = read_zones(read_probe_facts({"zones": [{"zone": 0, "type": "caf\u00c3\u00a9", "milli_c": 1}]}))
    assert zones[0].type == "café"
