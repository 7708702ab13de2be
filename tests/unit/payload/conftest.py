"""The real probe for this computer, built once, and helpers that run it."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.payload.probe_build import build_probe
from harness.payload.probe_events import RunLog, Start, parse_event

RunProbe = Callable[..., RunLog]


class Background:
    """Probes that went to the background: started here, looked at from outside, and ended with the test."""

    def __init__(self, probe: Path, folder: Path) -> None:
        self.probe = probe
        self.folder = folder
        self._pids: set[int] = set()

    def ask(self, *words: str, timeout: float = 15.0, **popen: object) -> subprocess.CompletedProcess[bytes]:
        """Run one verb to its end."""
        argv = [str(self.probe), *words]
        return subprocess.run(argv, capture_output=True, timeout=timeout, **popen)  # type: ignore[call-overload,no-any-return]

    def start(self, *command: str, options: tuple[str, ...] = (), name: str = "run") -> Path:
        """Begin a detached run and return its folder."""
        folder = self.folder / name
        done = self.ask("run", "--detach", "--dir", str(folder), "--interval-ms", "10000", *options, "--", *command)
        assert (done.returncode, done.stderr) == (0, b"")
        start = parse_event(done.stdout)
        assert isinstance(start, Start)
        self.remember(start.probe_pid)
        return folder

    def remember(self, pid: int) -> None:
        self._pids.add(pid)

    def log(self, folder: Path) -> RunLog:
        return RunLog.read((folder / "events.jsonl").read_bytes())

    def start_of(self, folder: Path) -> Start:
        start = self.log(folder).start
        assert start is not None
        return start

    def close(self) -> None:
        for pid in self._pids:
            command = Path(f"/proc/{pid}/exe")
            if command.exists() and command.readlink() == self.probe:
                os.kill(pid, signal.SIGKILL)

    @staticmethod
    def wait_until(condition: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"{what} did not happen in {seconds} s"
            time.sleep(0.01)

    @staticmethod
    def process(pid: int) -> dict[str, str]:
        """Return what /proc tells of a process; empty when it is gone or dead."""
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return {}
        told = dict(zip(("state", "parent", "group", "session", "terminal"), fields, strict=False))
        return {} if told["state"] == "Z" else told


@pytest.fixture
def background(probe: Path, tmp_path: Path) -> Iterator[Background]:
    made = Background(probe, tmp_path)
    yield made
    made.close()


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


@pytest.fixture
def signals_not_default() -> Callable[[list[str]], tuple[int, int]]:
    """Return a function from the lines of a ``/proc/PID/status`` to the masks of blocked and ignored signals.

    Signals 32 to 34 belong to the C libraries; what a parent of ours left there no program can change.
    """

    def masks(status: list[str]) -> tuple[int, int]:
        fields = dict(line.split(":\t", 1) for line in status)
        programs_own = ~(0b111 << 31)
        return int(fields["SigBlk"], 16) & programs_own, int(fields["SigIgn"], 16) & programs_own

    return masks


@pytest.fixture
def phone(load_module: Callable[[Path], ModuleType]) -> Any:
    """A phone that is a dictionary, for pushes."""
    return load_module(Path(__file__).with_name("toy_phone.py")).ToyPhone()


@pytest.fixture(scope="session")
def kit(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    """The builder of graphs, tokenizers and toy models."""
    return load_module(Path(__file__).with_name("models_kit.py"))


@pytest.fixture(scope="session")
def apk_kit(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    """The writer of manifests, APKs and AABs."""
    return load_module(Path(__file__).with_name("apk_kit.py"))


@pytest.fixture(scope="session")
def elf_kit(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    """The writer of ELF files and bundles of them."""
    return load_module(Path(__file__).with_name("elf_kit.py"))
