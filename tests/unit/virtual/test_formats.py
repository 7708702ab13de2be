"""What the five phones print against the parsers that read real phones, and against real phones' line shapes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from harness.phone.getprop import parse_getprop
from harness.phone.thermal import celsius
from harness.virtual import memory, tree
from harness.virtual.adbd.crashtext import Crash, Frame, Phone, block, fatal_line
from harness.virtual.droid import battery, gpu, meminfo, thermal
from harness.virtual.profile import load_profile

FIVE = {"high": "14", "low": "12", "exynos": "10", "tensor": "16", "kirin": "8.0.0"}
SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "facts" / "android"
# From AOSP's source, not in a captured sample.
_FROM_SOURCE = {"  Dock powered: #", "  Charging state: #", "  Charging policy: #"}

needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"real phones' text is not at {SAMPLES}")


def shape(line: str) -> str:
    """A line without its values: numbers, words and names all become ``#``."""
    line = line.strip("\r\n").replace("\t", "    ")
    line = re.sub(r"(mName=|\.name = |\.type = )[^,}]+", r"\1#", line)
    line = re.sub(r"\b(true|false|NaN)\b", "#", line)
    line = re.sub(r"-?\d+(\.\d+)?", "#", line)
    return re.sub(r"technology: .*", "technology: #", line)


def sample_shapes(name: str) -> set[str]:
    shapes, inside = set(), False
    for line in (SAMPLES / name).read_text("utf-8", "replace").splitlines():
        if line in ("<<<", ">>>"):
            inside = line == "<<<"
        elif inside:
            shapes.add(shape(line))
    return shapes


def strange(lines: Iterable[str], known: set[str]) -> set[str]:
    return {shaped for line in lines if (shaped := shape(line)) not in known and shaped.strip()}


@pytest.mark.parametrize(("name", "release"), FIVE.items())
def test_getprop_is_read_by_the_harness(name: str, release: str) -> None:
    profile = load_profile(name)
    held = tree.properties(profile, "SERIAL1", "x86_64")
    read = parse_getprop("".join(f"[{key}]: [{value}]\n" for key, value in held.items()).encode())
    assert read == held
    assert read["ro.build.version.release"] == release
    assert ("ro.soc.model" in read) is (profile.build.sdk >= 31)


@pytest.mark.parametrize("name", FIVE)
def test_thermal_zones_are_read_by_the_harness(name: str) -> None:
    zones = load_profile(name).zones
    known = []
    for zone in zones:
        value = celsius(zone.type, zone.raw)
        if zone.raw in (4127, -127000):
            assert value is None, zone.type  # millivolt; no sensor
        elif zone.type != "socd":  # percent
            assert value is not None, zone.type
            known.append(value)
    assert len(known) >= 5
    assert 25 < min(known) <= max(known) < 36


@pytest.mark.parametrize("name", FIVE)
def test_the_five_phones_differ_in_release_maker_and_zones(name: str) -> None:
    others = [load_profile(other) for other in FIVE if other != name]
    mine = load_profile(name)
    assert mine.build.sdk not in {other.build.sdk for other in others}
    assert mine.soc.manufacturer not in {other.soc.manufacturer for other in others}
    assert mine.gpu.renderer not in {other.gpu.renderer for other in others}


@needs_samples
@pytest.mark.parametrize("name", [name for name in FIVE if name != "kirin"])
def test_the_thermal_service_has_lines_of_real_ones(droid: Callable[..., Any], name: str) -> None:
    lines = thermal.dump(droid(name, skin_rise_c=9.0, step=1).store())
    assert strange(lines, sample_shapes("01_dumpsys_thermalservice.txt")) == set()


@needs_samples
@pytest.mark.parametrize("name", FIVE)
def test_the_battery_service_has_lines_of_real_ones(droid: Callable[..., Any], name: str) -> None:
    lines = battery.dump(droid(name).store())
    if "[EventLogBuffer]" in lines:
        lines = lines[: lines.index("[EventLogBuffer]") + 1]
    assert strange(lines, sample_shapes("08_battery_power.txt") | _FROM_SOURCE) == set()


@needs_samples
@pytest.mark.parametrize("name", FIVE)
def test_the_gpu_line_looks_like_a_real_one(droid: Callable[..., Any], name: str) -> None:
    line = gpu.surface_flinger(droid(name).store())[-1]
    real = (SAMPLES / "18_gpu_capability.txt").read_text("utf-8", "replace")
    vendors = {found[1] for found in re.finditer(r"^GLES: ([^,]+), ", real, re.MULTILINE)} | {
        "Imagination Technologies"
    }
    assert line.split(": ", 1)[1].split(", ")[0] in vendors


@needs_samples
@pytest.mark.parametrize("name", FIVE)
def test_meminfo_has_rows_of_a_real_one(name: str) -> None:
    known = {line.split(":")[0] for line in (SAMPLES / "07_memory.txt").read_text("utf-8", "replace").splitlines()}
    text = memory.meminfo(load_profile(name).memory, 300_000)
    assert {line.split(":")[0] for line in text.splitlines()} <= known
    assert all(re.fullmatch(r"[A-Za-z_]+: +\d+ kB", line) for line in text.splitlines())


@needs_samples
@pytest.mark.parametrize("sdk", [26, 29, 31, 34, 36])
def test_memory_of_a_process_has_the_header_lines_of_real_ones(sdk: int) -> None:
    known = sample_shapes("07_memory.txt")
    lines = meminfo.one_process({"RssAnon": 4000, "RssFile": 2000, "VmStk": 132, "VmSwap": 8}, sdk)
    assert strange(lines[:3], known) == set()
    footer = " ".join(shape(lines[-2]).split())
    assert footer in {" ".join(line.split()) for line in known}


@needs_samples
@pytest.mark.parametrize("name", FIVE)
def test_cpuinfo_has_rows_of_real_ones(name: str) -> None:
    known = {
        line.split(":")[0] for line in (SAMPLES / "05_proc_cpuinfo.txt").read_text("utf-8", "replace").splitlines()
    }
    assert {line.split(":")[0] for line in tree.cpuinfo(load_profile(name)).splitlines()} <= known


@needs_samples
@pytest.mark.parametrize("name", [name for name in FIVE if name != "kirin"])  # of that maker only few names are known
def test_zones_have_names_of_their_makers(name: str) -> None:
    text = (SAMPLES / "thermal_zone_names.csv").read_text("utf-8", "replace")
    text += (SAMPLES / "02_thermal_zones.txt").read_text("utf-8", "replace")
    patterns = [part for line in text.splitlines()[1:] for part in re.findall(r"\^[^,$]*\$", line)]
    unknown = [
        zone.type
        for zone in load_profile(name).zones
        if not any(re.search(pattern, zone.type) for pattern in patterns) and zone.type.lower() not in text.lower()
    ]
    assert unknown == []


def quoted_away(line: str) -> str:
    return re.sub(r"\d+", "#", re.sub(r"'[^']*'", "''", line)).strip()


@needs_samples
@pytest.mark.parametrize("name", FIVE)
def test_lmkd_words_a_kill_as_real_ones_do(name: str) -> None:
    profile = load_profile(name)
    victim = memory.Holder(4711, "/data/local/tmp/runner", 900_000, 880_000, 12)
    real = (SAMPLES / "14_lmk_oom.txt").read_text("utf-8", "replace")
    known = quoted_away(real.replace("%d", "1").replace("\n", " ").replace("<6>", ""))
    known = " ".join(known.replace("'%s'", "''").split())
    for line in memory.kill_report(victim, profile.memory, profile.build.sdk, 2000).text.split("\n"):
        assert " ".join(quoted_away(line).split()) in known


@needs_samples
@pytest.mark.parametrize("sdk", [26, 29, 31, 34, 36])
def test_a_crash_block_has_lines_of_real_ones(sdk: int) -> None:
    crash = Crash(
        pid=2211, tid=2211, uid=2000, name="runner", process="./runner", command="./runner", signal=11, code=1,
        executable="/data/local/tmp/runner", address=0x7F00DEAD0010, sender_pid=0, sender_uid=0, uptime_s=3,
        registers={}, frame=Frame(0x1234, "/data/local/tmp/runner"),
    )  # fmt: skip
    real = (SAMPLES / "10_crash_debuggerd_logcat.txt").read_text("utf-8", "replace")
    real += (SAMPLES / "11_tombstone.txt").read_text("utf-8", "replace")
    for line in block(crash, Phone(sdk, "f", "arm64", "6.1", 4096), "2026-03-04 05:06:07.123456789+0100"):
        start = re.split(r"\d|\./|/data| '", line.strip())[0]
        assert start in real, line
    assert "signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x" in real
    assert re.sub(r"0x\w+.*", "", fatal_line(crash)) in real
