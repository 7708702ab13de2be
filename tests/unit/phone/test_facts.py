from __future__ import annotations

import json
from typing import Any

import pytest

from harness.phone.facts import (
    OPENCL_LIBRARIES,
    VULKAN_DRIVERS,
    DriverListing,
    Facts,
    build_facts,
    parse_drivers,
    read_zones,
)

PROPERTIES = {
    "ro.product.model": "Toy 3",
    "ro.product.manufacturer": "Maker",
    "ro.soc.model": "TS900",
    "ro.board.platform": "ts",
    "ro.build.version.release": "15",
    "ro.build.version.sdk": "35",
    "ro.product.cpu.abilist": "arm64-v8a,armeabi-v7a",
    "ro.build.fingerprint": "maker/toy/1",
    "ro.serialno": "TOY1",
}
PROBE: dict[str, Any] = {
    "kernel": "6.1.0",
    "machine": "aarch64",
    "page_size": 4096,
    "boot_id": "0b5e55ed",
    "cores": [{"cpu": 0, "max_khz": 1_800_000}, {"cpu": 4, "max_khz": 2_400_000}, {"cpu": 7, "max_khz": None}],
    "clusters": [[0], [4, 7]],
    "features": ["asimddp", "i8mm"],
    "mem_total_bytes": 8 << 30,
    "mem_available_bytes": 3 << 30,
    "zones": [{"zone": 3, "type": "cpu-0-0", "milli_c": 41000}, {"zone": 9, "type": None, "milli_c": None}],
    "denied": [],
}
DRIVERS = DriverListing("/vendor/lib64/libOpenCL.so", "")


def build(probe: dict[str, Any] | None = None, properties: dict[str, str] | None = None, **over: Any) -> Facts:
    chosen = PROBE if probe is None else probe
    return build_facts(PROPERTIES if properties is None else properties, {**chosen, **over}, DRIVERS, "3.6.1")


def test_a_phone_that_tells_everything_has_no_null() -> None:
    facts = build()
    assert facts.nulls == {}
    assert (facts.model, facts.soc, facts.sdk, facts.abis) == ("Toy 3", "TS900", 35, ("arm64-v8a", "armeabi-v7a"))
    assert (facts.cores, facts.clusters, facts.cpu_max_khz) == (3, ((0,), (4, 7)), 2_400_000)
    assert facts.core_max_khz == {0: 1_800_000, 4: 2_400_000, 7: None}
    assert (facts.ram_bytes, facts.opencl, facts.vulkan) == (8 << 30, "/vendor/lib64/libOpenCL.so", "")
    assert [(z.zone, z.type, z.milli_c) for z in facts.zones] == [(3, "cpu-0-0", 41000), (9, "", None)]
    assert json.loads(json.dumps(facts.as_dict()))["model"] == "Toy 3"


def test_a_phone_that_tells_nothing_has_a_reason_for_every_null() -> None:
    facts = build_facts({}, {}, DriverListing(None, None, {"opencl": "x", "vulkan": "x"}), None)
    missing = {name for name, value in facts.as_dict().items() if value is None}
    assert missing == {
        "model", "manufacturer", "soc", "platform", "android_release", "sdk", "fingerprint", "serialno", "boot_id",
        "kernel", "page_size", "cpu_max_khz", "ram_bytes", "available_bytes", "opencl", "vulkan", "python_mnn",
    }  # fmt: skip
    assert missing <= set(facts.nulls)
    assert facts.nulls["model"] == "the phone has no property ro.product.model"
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
    ("machine", "abis"),
    [("x86_64", ("x86_64",)), ("aarch64", ("arm64-v8a",)), ("armv8l", ("armeabi-v7a",)), ("riscv64", ()), (None, ())],
)
def test_a_computer_without_properties_has_its_kernels_abi(machine: str | None, abis: tuple[str, ...]) -> None:
    facts = build(properties={}, machine=machine)
    assert facts.abis == abis
    assert ("abis" in facts.nulls) == (not abis)


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
    zones = read_zones({"zones": [{"zone": 0, "type": "caf\u00c3\u00a9", "milli_c": 1}]})
    assert zones[0].type == "café"


# --- drivers, as `ls -d` tells of them ---

CL, VK = OPENCL_LIBRARIES[0], "/vendor/lib64/hw/vulkan.toy.so"
ALL = (*OPENCL_LIBRARIES, *VULKAN_DRIVERS)


def missing(*but: str, form: str = "ls: {}: No such file or directory") -> bytes:
    return "\n".join(form.format(path) for path in ALL if path not in but).encode()


def test_a_driver_that_is_listed_is_there() -> None:
    found = parse_drivers(f"{CL}\n{VK}\n".encode(), missing(CL, VULKAN_DRIVERS[0]))
    assert found == DriverListing(CL, VK)


def test_the_first_of_several_names_is_told() -> None:
    listing = "\n".join(reversed(OPENCL_LIBRARIES)).encode()
    assert parse_drivers(listing, missing(*OPENCL_LIBRARIES)).opencl == OPENCL_LIBRARIES[0]


@pytest.mark.parametrize(
    "form", ["ls: {}: No such file or directory", "ls: cannot access '{}': No such file or directory", "ls: {}: weg"]
)
def test_a_driver_that_ls_did_not_find_is_missing(form: str) -> None:
    assert parse_drivers(b"", missing(form=form)) == DriverListing("", "")


def test_a_driver_in_a_folder_that_may_not_be_searched_is_unknown() -> None:
    found = parse_drivers(b"", missing(CL) + f"\nls: {CL}: Permission denied\n".encode())
    assert (found.opencl, found.vulkan) == (None, "")
    assert found.nulls == {"opencl": f"ls: {CL}: Permission denied"}


def test_a_driver_found_elsewhere_is_there_in_spite_of_a_denied_folder() -> None:
    other = OPENCL_LIBRARIES[2]
    found = parse_drivers(other.encode(), missing(CL, other) + f"\nls: {CL}: Permission denied\n".encode())
    assert (found.opencl, found.nulls) == (other, {})


@pytest.mark.parametrize("said", [b"", b"sh: ls: inaccessible or not found\n", b"\xff\xfe\n"])
def test_an_ls_that_says_nothing_proves_no_absence(said: bytes) -> None:
    found = parse_drivers(b"", said)
    assert (found.opencl, found.vulkan) == (None, None)
    assert set(found.nulls) == {"opencl", "vulkan"}


def test_only_a_path_that_was_asked_for_counts() -> None:
    listing = b"no vulkan here\n/tmp/vulkan.fake.so\n/tmp/libOpenCL.so\n"
    assert parse_drivers(listing, missing()) == DriverListing("", "")
