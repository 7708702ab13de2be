"""The real probe for this computer, built once, and helpers that run it."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.payload.probe_build import build_probe
from harness.payload.probe_events import RunLog

RunProbe = Callable[..., RunLog]


@pytest.fixture(scope="session")
def probe() -> Path:
    if platform.machine() != "x86_64":
        pytest.skip(f"these tests run the x86_64 probe; this computer is {platform.machine()}")
    return build_probe("x86_64")


@pytest.fixture
def run_probe(probe: Path, tmp_path: Path) -> RunProbe:
    """Run a command under the probe and read its events; `options` go before the command."""

    def run(*command: str, options: tuple[str, ...] = (), **popen: object) -> RunLog:
        argv = [str(probe), "run", "--dir", str(tmp_path / "run"), *options, "--", *command]
        done = subprocess.run(argv, capture_output=True, timeout=30, **popen)  # type: ignore[call-overload]
        assert done.stderr == b""
        assert done.returncode == 0
        assert done.stdout == (tmp_path / "run" / "events.jsonl").read_bytes()
        return RunLog.read(done.stdout)

    return run


@pytest.fixture
def sensor_tree(tmp_path: Path) -> Path:
    """A sysfs with a hole in the cores, one core off, two cores of one clock, a zone without sensor, one denied."""
    root = tmp_path / "sys"
    cpu = root / "devices/system/cpu"
    cpu.mkdir(parents=True)
    (cpu / "present").write_text("0,4-7\n")
    (cpu / "online").write_text("0,4-5,7\n")
    clocks = {
        0: (1_200_000, 1_800_000, 1_800_000, 300_000, "0"),
        4: (2_000_000, 2_300_000, 2_400_000, 400_000, "4 5 6"),
        7: (2_400_000, 2_800_000, 2_800_000, 500_000, "7"),
    }
    for number, (current, cap, top, least, related) in clocks.items():
        folder = cpu / f"cpu{number}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_cur_freq").write_text(f"{current}\n")
        (folder / "scaling_max_freq").write_text(f"{cap}\n")
        (folder / "cpuinfo_max_freq").write_text(f"{top}\n")
        (folder / "cpuinfo_min_freq").write_text(f"{least}\n")
        (folder / "related_cpus").write_text(f"{related} \n")
    (cpu / "cpu5").mkdir()
    (cpu / "cpu5" / "cpufreq").symlink_to("../cpu4/cpufreq")
    (cpu / "cpu6").mkdir()
    for number, kind, temperature in ((0, "cpu-0-0", "-40000\n"), (7, "skin", "31\n"), (10, None, "not a number\n")):
        zone = root / "class/thermal" / f"thermal_zone{number}"
        zone.mkdir(parents=True)
        (zone / "temp").write_text(temperature)
        if kind is None:
            (zone / "type").mkdir()  # there, but unreadable, for root too
        else:
            (zone / "type").write_text(f"{kind}\n")
    (root / "class/thermal" / "cooling_device0").mkdir()
    return root
