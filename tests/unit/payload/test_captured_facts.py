"""Every captured sample of ../shared/facts/android that tells facts, read in place by the parser of its kind.

What a sample must give is told here in words and counts of our own, or read from the sample a second time in a simpler
way; none of its text is copied.
"""

from __future__ import annotations

import ast
import csv
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.payload.probe_facts import parse_facts
from harness.phone.battery import parse_battery
from harness.phone.cpu import clusters_of, implementers_of, instructions_of
from harness.phone.drivers import PUBLIC_LISTS, DriverListing, parse_public_libraries
from harness.phone.facts import Facts, Told, build_facts
from harness.phone.getprop import parse_getprop
from harness.phone.gpu import gpu_of, parse_gles, parse_kgsl_model
from harness.phone.probed import ProbeFacts, read_probe_facts
from harness.phone.soc import CPU_HARDWARE, SOC_ID, find_soc
from harness.phone.thermal import celsius, meaning_of
from harness.phone.thermalservice import parse_thermalservice

FACTS = Path(__file__).parents[4] / "shared" / "facts" / "android"


@dataclass(frozen=True)
class Sample:
    """A captured text, by the name that its heading gives it, else by the file's own counting."""

    id: str
    head: str
    text: str

    @property
    def data(self) -> bytes:
        return self.text.encode()


def samples(file: str) -> list[Sample]:
    path = FACTS / file
    if not path.is_file():
        return []
    found: list[Sample] = []
    head, lines, inside = "", list[str](), False
    for line in path.read_text(encoding="utf-8").splitlines():
        if line == "<<<":
            inside, lines = True, []
        elif line == ">>>":
            name = re.search(r"\bid=(\S+)", head)
            found.append(Sample(name[1] if name else f"block-{len(found)}", head, "\n".join(lines) + "\n"))
            inside, head = False, ""
        elif inside:
            lines.append(line)
        elif line.startswith("#@"):
            head = line
    return found


def each(file: str) -> pytest.MarkDecorator:
    """Parametrize by the samples of a file; without the file one test skips and says so."""
    known = samples(file)
    missing = pytest.param(None, marks=pytest.mark.skip(reason=f"../shared/facts/android/{file} is missing"))
    return pytest.mark.parametrize("sample", known or [missing], ids=[sample.id for sample in known] or ["missing"])


# --- 01: dumpsys thermalservice ---


@each("01_dumpsys_thermalservice.txt")
def test_every_thermal_service_is_read(sample: Sample) -> None:
    read = parse_thermalservice(sample.data)
    status = re.search(r"Thermal Status: (\d)", sample.text)
    assert status is not None
    assert (read.status, read.overridden) == (int(status[1]), False)
    assert read.ready is ("HAL Ready: true" in sample.text)
    _cached, _heading, live = sample.text.partition("Current temperatures from HAL:")
    values = re.findall(r"mValue=(\S+), mType=(-?\d+), mName=([^,]+), mStatus=(\d)", live)
    assert [(sensor.name, sensor.status) for sensor in read.sensors] == [(v[2], int(v[3])) for v in values]
    for sensor, (value, kind, *_rest) in zip(read.sensors, values, strict=True):
        if kind in ("6", "7", "8") or value in ("NaN", "0.0"):
            assert sensor.celsius is None
        else:
            assert sensor.celsius == pytest.approx(float(value), abs=0.001)
    if read.ready:
        assert len(values) >= 1
        assert {"cpu", "skin", "battery"} & {sensor.kind for sensor in read.sensors}
    else:
        assert (read.sensors, read.nulls["sensors"]) == ((), "the vendor's part is not ready")
    assert len(read.cooling) == live.count("CoolingDevice{")
    assert all(device.level is not None for device in read.cooling)
    assert len(read.limits) == live.count("otThrottlingThresholds")
    assert all(len(limits.hot_c) == 7 for limits in read.limits)
    assert all(any(limits.hot_c) or limits.kind == "bcl_voltage" for limits in read.limits)
    version = re.search(r"ThermalHAL (.*?) +connected", sample.text)
    assert read.hal == (version[1] if version else None)


def test_the_kinds_of_thermal_services_are_all_there() -> None:
    read = {sample.id: parse_thermalservice(sample.data) for sample in samples("01_dumpsys_thermalservice.txt")}
    if not read:
        pytest.skip("../shared/facts/android/01_dumpsys_thermalservice.txt is missing")
    assert {service.hal for service in read.values()} >= {"1.0", "2.0", "AIDL 1", None}
    assert max(service.status or 0 for service in read.values()) == 2
    assert any(device.level for service in read.values() for device in service.cooling)
    assert any(" " in sensor.name for service in read.values() for sensor in service.sensors)
    assert {"unknown", "npu", "soc", "usb_port"} <= {s.kind for service in read.values() for s in service.sensors}


# --- 02: thermal zones ---


@each("02_thermal_zones.txt")
def test_every_list_of_zones_has_its_meanings(sample: Sample) -> None:
    names = [re.sub(r"^thermal_zone\d+_", "", line.split(" ")[0].rstrip(":")) for line in sample.text.splitlines()]
    meanings = {name: meaning_of(name) for name in names}
    assert "cpu" in meanings.values()
    for name, meaning in meanings.items():
        if re.fullmatch(r"gpu.*(usr|thmzone)|G3D", name):
            assert meaning == "gpu", name
        if name in ("battery", "bms", "mtktsbattery"):
            assert meaning == "battery", name
        if re.search(r"skin-therm|quiet.therm|xo.therm|mtktsAP", name):
            assert meaning == "skin", name
        if re.search(r"lvl\d$|^soc$", name):
            assert meaning == "none", name
    for name, raw in re.findall(r"^(\S+?):? (-?\d+)$", sample.text, re.MULTILINE):
        value = celsius(name, int(raw))
        assert value is None or 20 < value < 60, name
        if meanings[name] in ("cpu", "gpu", "battery"):
            assert value is not None, name


def test_zones_mean_what_the_vendors_table_says() -> None:
    path = FACTS / "thermal_zone_names.csv"
    if not path.is_file():
        pytest.skip("../shared/facts/android/thermal_zone_names.csv is missing")
    names = {
        name
        for sample in samples("02_thermal_zones.txt")
        for name in re.findall(r"^(?:thermal_zone\d+_)?([A-Za-z][\w.-]*)", sample.text, re.MULTILINE)
    }
    checked = 0
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for name in names if row["zone_type_regex"].startswith("^") else ():
                if re.search(row["zone_type_regex"], name):
                    checked += 1
                    kind = {"EXCLUDE": "none", "soc(unlabelled)": "cpu"}.get(row["kind"], row["kind"])
                    assert meaning_of(name) in (*re.split(r"[/(+]", kind), "other"), (name, row["kind"])
    assert checked > 20


# --- 03: cooling devices. The product reads them from the thermal service (01); a table of sysfs files re-laid by its
# author is no format of a phone. What lists them as the service does is read as that.


@each("03_cooling_devices.txt")
def test_cooling_devices_are_read_where_the_service_lists_them(sample: Sample) -> None:
    if "CoolingDevice{" not in sample.text:
        pytest.skip("a table of /sys/class/thermal/cooling_device*, which the product does not read: caps tell it")
    read = parse_thermalservice(f"Current cooling devices from HAL:\n{sample.text}".encode())
    assert [str(device.level) for device in read.cooling] == re.findall(r"mValue=(\d+)", sample.text)
    assert all(device.name.startswith("thermal-") for device in read.cooling)


# --- 04 and 05: clocks and cores, read by the real probe from a tree that is laid out as captured ---


def run_probe(probe: Path, sysfs: Path, procfs: Path) -> ProbeFacts:
    argv = [str(probe), "facts", "--sysfs", str(sysfs), "--procfs", str(procfs)]
    return parse_facts(subprocess.run(argv, capture_output=True, timeout=10, check=True).stdout)


def lay_out(sample: Sample, root: Path) -> dict[str, str]:
    """Write files that a sample lists as ``path => content`` below ``root``."""
    files = {
        path: ast.literal_eval(content)
        for path, content in re.findall(r"^(/sys/\S+) => (.*)$", sample.text, re.MULTILINE)
    }
    for path, content in files.items():
        place = root / path.removeprefix("/sys/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
    return files


def numbers(mask: str) -> list[int]:
    spans = [part.split("-") for part in mask.strip().split(",") if part]
    return [number for span in spans for number in range(int(span[0]), int(span[-1]) + 1)]


# How many clusters their makers say these have; a core that was off and in no clock group stays alone.
CLUSTERS = {"pixel-8": 3, "galaxy-s9-us": 2, "galaxy-s9-global": 2, "huawei-mate-20": 3, "meizu-pro-6s": 3}


@each("04_cpufreq_sysfs.txt")
def test_every_phones_clocks_are_read(sample: Sample, probe: Path, tmp_path: Path) -> None:
    files = lay_out(sample, tmp_path / "sys")
    (tmp_path / "proc").mkdir()
    facts = run_probe(probe, tmp_path / "sys", tmp_path / "proc")
    cpu = "/sys/devices/system/cpu"
    assert [core.cpu for core in facts.cores] == numbers(files[f"{cpu}/present"])
    online = numbers(files[f"{cpu}/online"])
    for core in facts.cores:
        told = files.get(f"{cpu}/cpu{core.cpu}/cpufreq/cpuinfo_max_freq")
        assert core.max_khz == (int(told) if told else None)
        assert core.online is (core.cpu in online)
        cap = files.get(f"{cpu}/cpu{core.cpu}/cpufreq/scaling_max_freq")
        assert core.scaling_max_khz == (int(cap) if cap else None)
    assert sorted(cpu for cluster in facts.clusters for cpu in cluster) == [core.cpu for core in facts.cores]
    told_clusters, why = clusters_of(facts)
    assert why.startswith("the kernel tells no part of core"), "these captures have no cpuinfo beside them"
    if sample.id in CLUSTERS:
        assert len(facts.clusters) == CLUSTERS[sample.id]
    assert max(c.max_khz or 0 for c in told_clusters) == max(core.max_khz or 0 for core in facts.cores)


# Kinds of core of each, and its instructions of our vocabulary; "" where no kernel tells a part.
CPUINFO = {
    "galaxy-s9-us": ("Kryo 3xx Gold + Kryo 3xx Silver", "fp16"),
    "galaxy-s9-global": ("Cortex-A55 + Exynos M3", "fp16"),
    "huawei-mate-20": ("Cortex-A55 + Cortex-A76 (HiSilicon)", "fp16"),
    "oppo-r15": ("Cortex-A53 + Cortex-A73", ""),
    "pixel-2-xl": ("Kryo 2xx Gold + Kryo 2xx Silver", ""),
    "huawei-p20-pro": ("Cortex-A53 + Cortex-A73", ""),
    "galaxy-s9-us.armeabi": ("Kryo 3xx Gold + Kryo 3xx Silver", ""),
    "moto-g-gen5": ("Cortex-A53", ""),
    "leagoo-t5c": ("", ""),
    "pixel-8": ("Cortex-A510 + Cortex-A715 + Cortex-X3", "dotprod i8mm fp16 sve sve2"),
    "snapdragon-8-elite": ("Oryon", "dotprod i8mm fp16 bf16"),
    "snapdragon-8-gen3": ("Cortex-A520 + Cortex-A720 + Cortex-X4", "dotprod i8mm fp16 bf16"),
    "snapdragon-8-gen1": ("Cortex-A510 + Cortex-A710 + Cortex-X2", "dotprod i8mm fp16 bf16 sve"),
    "mediatek-dimensity-9300": ("Cortex-A720 + Cortex-X4", "dotprod i8mm fp16 bf16"),
    "oneplus-9pro": ("Cortex-A55 + Cortex-A78 + Cortex-X1", "dotprod fp16"),
    "unisoc-9230": ("Cortex-A55 + Cortex-A75", "dotprod fp16"),
    "HiSilicon-Kirin-9000s.cpuinfo": (
        "Cortex-A510 + TaiShan V120 big + TaiShan V120 middle",
        "dotprod i8mm fp16 sve",
    ),
    "Google-Tensor-G2.cpuinfo": ("Cortex-A55 + Cortex-A78 + Cortex-X1", "dotprod fp16"),
    "Exynos-9820.cpuinfo": ("Cortex-A55 + Cortex-A75 + Exynos M4", "dotprod fp16"),
    "Unisoc-UMS9620-5.4.180.cpuinfo": ("Cortex-A55 + Cortex-A76", "dotprod fp16"),
    "snapdragon-8-elite-gen5": ("Oryon", "dotprod i8mm fp16 bf16 sve sve2 sme"),
    "dimensity-9500": ("C1-Pro", "dotprod i8mm fp16 bf16 sve sve2 sme sme2"),
}


@each("05_proc_cpuinfo.txt")
def test_every_cpuinfo_names_its_cores_and_instructions(sample: Sample, probe: Path, tmp_path: Path) -> None:
    names, instructions = CPUINFO[sample.id]
    listed = [int(number) for number in re.findall(r"^processor\s*: (\d+)$", sample.text, re.MULTILINE)]
    cpu = tmp_path / "sys/devices/system/cpu"
    cpu.mkdir(parents=True)
    (cpu / "present").write_text(",".join(map(str, listed)))
    (tmp_path / "cpuinfo").write_text(sample.text)
    facts = run_probe(probe, tmp_path / "sys", tmp_path)
    assert [core.cpu for core in facts.cores] == listed
    clusters, why = clusters_of(facts)
    assert " + ".join(sorted({cluster.core for cluster in clusters if cluster.core})) == names
    assert why == ("" if names else "the kernel tells no part of core 0")
    assert " ".join(instructions_of(facts.features)) == instructions
    assert len(facts.features) > 5
    hardware = re.search(r"^Hardware\s*: (.*)$", sample.text, re.MULTILINE)
    if hardware is not None and names:
        soc = find_soc({}, {CPU_HARDWARE: hardware[1]}, names.split(" + "), implementers_of(facts))
        assert soc.vendor is not None
        assert soc.notes == ()
        assert (soc.name is None) == (sample.id == "moto-g-gen5"), "a chip of 2016 that the table does not have"


# --- 06: GPU. Of Qualcomm's many files the product reads the name; clocks and loads of a GPU it does not sample. ---


@each("06_gpu_kgsl_sysfs.txt")
def test_every_gpu_of_qualcomms_is_named(sample: Sample) -> None:
    content = re.search(r"gpu_model => (.*)", sample.text)
    assert content is not None
    told = ast.literal_eval(content[1])
    digits = re.findall(r"\d{3}", told)[0]
    assert parse_kgsl_model(told.encode()) == f"Adreno (TM) {digits}"


# --- 07: memory. Of these the product uses /proc/meminfo, by the probe. ---

NO_USE = {
    "proc-status": "peaks of a process are read by `probe run` (test_probe_run.py), not by facts",
    "smaps": "the product takes a process's peak from VmHWM, not from smaps",
    "dumpsys-meminfo": "the product runs no app: its own process is watched by the probe",
    "dumpsys-gpu": "GPU memory of a run is read from the kernel by `probe run`, not from this service",
    "mali-gpu": "GPU memory of a run is read by `probe run` (test_probe_gpu.py), not by facts",
}


@each("07_memory.txt")
def test_memory_of_a_phone_is_read(sample: Sample, probe: Path, tmp_path: Path) -> None:
    if reason := next((why for start, why in NO_USE.items() if sample.id.startswith(start)), None):
        pytest.skip(reason)
    assert sample.id.startswith("proc-meminfo")
    (tmp_path / "meminfo").write_text(sample.text)
    facts = run_probe(probe, tmp_path, tmp_path)
    kb = dict(re.findall(r"^(\w+): +(\d+) kB$", sample.text, re.MULTILINE))
    assert facts.mem_total_bytes == int(kb["MemTotal"]) * 1024
    assert facts.mem_available_bytes == int(kb["MemAvailable"]) * 1024
    assert facts.swap_total_bytes == int(kb["SwapTotal"]) * 1024


# --- 08: battery; power and Doze are read where phones are prepared ---


@each("08_battery_power.txt")
def test_every_battery_is_read(sample: Sample) -> None:
    if not sample.id.startswith("battery"):
        pytest.skip("dumpsys power and deviceidle tell no facts; they are read where phones are prepared")
    read = parse_battery(sample.data)
    first = dict(reversed(re.findall(r"^  ([\w ]+): (\S+)$", sample.text, re.MULTILINE)))
    assert read.level_pct == (int(first["level"]) if "level" in first else None)
    assert read.temp_c == (int(first["temperature"]) / 10 if "temperature" in first else None)
    assert read.voltage_mv == (int(first["voltage"]) if "voltage" in first else None)
    assert read.overridden is ("UPDATES STOPPED" in sample.text)
    for name in ("level_pct", "temp_c", "plugged", "status", "health", "voltage_mv"):
        assert (getattr(read, name) is None) == (name in read.nulls)


# --- 09: properties and the chip they tell ---

CHIPS = {
    "unisoc-rmx3834": ("Unisoc", "Unisoc T612"),
    "samsung-a71": ("Qualcomm", "Snapdragon 730/730G/732G"),
    "redmi-ares": ("MediaTek", "Dimensity 1200/1300"),
    "pixel8-buildprop": ("Google", "Tensor G3"),
    "pixel10proxl-buildprop": ("Google", "Tensor G5"),
}


@each("09_getprop.txt")
def test_every_phones_properties_tell_its_chip(sample: Sample) -> None:
    data = sample.data
    if sample.id.endswith("buildprop"):  # the product asks getprop; the file holds the same as key=value
        data = re.sub(r"^(.*?)=(.*)$", r"[\1]: [\2]", sample.text, flags=re.MULTILINE).encode()
    properties = parse_getprop(data)
    assert len(properties) == len(sample.text.splitlines())
    soc = find_soc(properties, {}, (), ())
    assert (soc.vendor, soc.name, soc.notes) == (*CHIPS[sample.id], ())
    facts = build_facts(Told(properties, read_probe_facts({}), DriverListing("", "")))
    if "ro.build.version.sdk" in properties:
        assert facts.sdk == int(properties["ro.build.version.sdk"])
    if any("abilist" in key and "32" not in key for key in properties):
        assert facts.abis[0] == "arm64-v8a"


def real_devices() -> list[dict[str, str]]:
    path = FACTS / "getprop_real.csv"
    if not path.is_file():
        pytest.skip("../shared/facts/android/getprop_real.csv is missing")
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_most_real_phones_chips_are_told_and_none_wrongly() -> None:
    makers = {"kirin": "HiSilicon", "hi3": "HiSilicon", "mt": "MediaTek", "sm": "Qualcomm", "ums": "Unisoc"}
    told = 0
    rows = real_devices()
    for row in rows:
        properties: dict[str, str] = {}
        for column, value in row.items():
            bare = value.strip("()") if value.startswith("(") and "absent" not in value else value
            alternatives = column.split("|")
            if column.startswith("ro.") and bare and "=" not in bare and "absent" not in bare:
                properties |= dict.fromkeys(alternatives, bare)
        soc = find_soc(properties, {}, (), ())
        assert soc.vendor is not None or not properties or soc.why
        assert soc.notes == (), row["device"]
        told += soc.name is not None
        model = row["ro.soc.model"].lower()
        for start, vendor in makers.items():
            if model.startswith(start):
                assert soc.vendor == vendor, row["device"]
    assert told >= 0.7 * len(rows)


def test_every_chip_of_the_verified_table_is_known_by_its_model() -> None:
    path = FACTS / "soc_map.csv"
    if not path.is_file():
        pytest.skip("../shared/facts/android/soc_map.csv is missing")
    checked = 0
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["name_source"].startswith("memory"):
                continue
            for model in row["soc_model"].split("/"):
                soc = find_soc({"ro.soc.model": model.strip()}, {}, (), ())
                assert soc.vendor == row["vendor"], model
                assert soc.name is not None, model
                assert soc.name.split("/")[0].split()[-1].strip("()") in row["marketing_name"], (model, soc.name)
                checked += 1
            for soc_id in row["qcom_soc_ids"].split():
                soc = find_soc({"ro.board.platform": "whatever"}, {SOC_ID: soc_id}, (), ())
                assert soc.name is not None, soc_id
                assert soc.name.split("/")[0] in row["marketing_name"]
    assert checked > 80


# --- 18: what the GPU can do ---


def gpu_blocks() -> Iterator[str]:
    found = samples("18_gpu_capability.txt")
    if not found:
        pytest.skip("../shared/facts/android/18_gpu_capability.txt is missing")
    yield from (sample.text for sample in found)


def test_every_gles_line_is_taken_apart() -> None:
    lines = [re.sub(r"\s+# .*", "", line) for block in gpu_blocks() for line in block.splitlines() if "GLES: " in line]
    assert len(lines) > 8
    for line in lines:
        read = parse_gles(f" ------------RE GLES------------\n{line}\n".encode())
        assert read is not None
        vendor, renderer, version = line.removeprefix("GLES: ").split(", ", 2)
        assert (read.vendor, read.renderer) == (vendor, renderer)
        assert read.version == version
        driver = re.fullmatch(r"OpenGL ES 3\.2 (\S+).*", version)
        assert read.driver == (driver[1] if driver else None)
        gpu = gpu_of(line.encode(), None, None, {}, "")
        assert (gpu.name, "driver" in gpu.nulls) == (renderer, driver is None)


def test_every_phones_public_opencl_is_told() -> None:
    (table,) = [block for block in gpu_blocks() if block.startswith("device(build)")]
    checked = 0
    for row in table.splitlines()[1:]:
        public = re.split(r"\s{2,}", row)[-1]
        if public.startswith("("):
            continue
        names = tuple(dict.fromkeys(re.findall(r"libOpenCL\S*\.so", public)))
        # Such a list has other libraries too, and no word around the names.
        content = "\n".join(["libtoy.so", *names, ""]).encode()
        assert parse_public_libraries({PUBLIC_LISTS[0]: content}, 29).opencl == names
        checked += 1
    assert checked > 5


def test_the_linkers_namespaces_are_no_fact() -> None:
    """ld.config.txt says what a program of the shell's may load; that is the same on every Android since 10."""
    assert any("[unrestricted]" in block for block in gpu_blocks())


# --- all of one phone together ---


def test_a_phone_of_captures_becomes_facts(probe: Path, tmp_path: Path) -> None:
    clocks = next((s for s in samples("04_cpufreq_sysfs.txt") if s.id == "pixel-8"), None)
    cpuinfo = next((s for s in samples("05_proc_cpuinfo.txt") if s.id == "pixel-8"), None)
    if clocks is None or cpuinfo is None:
        pytest.skip("../shared/facts/android/04_cpufreq_sysfs.txt or 05_proc_cpuinfo.txt is missing")
    lay_out(clocks, tmp_path / "sys")
    (tmp_path / "cpuinfo").write_text(cpuinfo.text)
    probed = run_probe(probe, tmp_path / "sys", tmp_path)
    properties = {"ro.soc.model": "Tensor G3", "ro.soc.manufacturer": "Google", "ro.board.platform": "zuma"}
    facts: Facts = build_facts(Told(properties, probed, DriverListing("", "")))
    assert (facts.soc_vendor, facts.soc_name, facts.notes) == ("Google", "Tensor G3", ())
    assert [len(cluster.cpus) for cluster in facts.cpu_clusters] == [4, 4, 1]
    assert implementers_of(probed) == {0x41}
    spoofed = build_facts(Told({**properties, "ro.soc.model": "SM8650"}, probed, DriverListing("", "")))
    assert len(spoofed.notes) >= 1
    json.dumps(facts.as_dict())
