from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.payload.probe_bandwidth import parse_bandwidth
from harness.payload.probe_build import build_probe, source_hash
from harness.payload.probe_events import End, RunLog, Start, parse_event
from harness.payload.probe_facts import parse_facts
from harness.payload.probe_files import Residency, parse_hash_line, parse_residency
from harness.payload.probe_lease import parse_lease_line


def test_the_program_tells_the_hash_of_its_source(probe: Path) -> None:
    done = subprocess.run([str(probe), "version"], capture_output=True, timeout=10, check=True)
    assert json.loads(done.stdout) == {"probe": 1, "source": source_hash()}


@pytest.fixture(params=["arm64-v8a", "armeabi-v7a"])
def emulated(request: pytest.FixtureRequest) -> list[str]:
    name = {"arm64-v8a": "qemu-aarch64", "armeabi-v7a": "qemu-arm"}[request.param]
    emulator = shutil.which(f"{name}-static") or shutil.which(name)
    if emulator is None:
        pytest.skip(f"{name}-static is not installed")
    return [emulator, str(build_probe(request.param))]


def test_the_arm_program_tells_facts_of_an_arm_cpu(emulated: list[str]) -> None:
    done = subprocess.run([*emulated, "facts"], capture_output=True, timeout=60, check=True)
    facts = parse_facts(done.stdout)
    wide = "aarch64" in emulated[0]
    assert facts.machine == "aarch64" if wide else facts.machine.startswith("armv")
    assert ({"fp", "asimd"} if wide else {"neon", "vfpv3"}) <= set(facts.features)


@pytest.mark.parametrize("code", [(), ("--portable",)], ids=["accelerated", "portable"])
def test_the_arm_program_hashes_as_hashlib_does(emulated: list[str], tmp_path: Path, code: tuple[str, ...]) -> None:
    paths = []
    for length in (0, 55, 56, 64, 65, 100_003):
        path = tmp_path / str(length)
        path.write_bytes(bytes(i % 251 for i in range(length)))
        paths.append(path)
    argv = [*emulated, "hash", *code, *map(str, paths)]
    done = subprocess.run(argv, capture_output=True, timeout=60, check=True)
    told = [parse_hash_line(line).sha256 for line in done.stdout.splitlines()]
    assert told == [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]


def test_the_arm_program_looks_for_files_in_memory(emulated: list[str], tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(bytes(100_003))
    argv = [*emulated, "evict", "--show", str(tmp_path / "weights")]
    told = parse_residency(subprocess.run(argv, capture_output=True, timeout=60, check=True).stdout)
    assert told == Residency(100_003, 100_003)


def test_the_arm_program_reads_memory_in_every_way(emulated: list[str], tmp_path: Path) -> None:
    roots = ("--sysfs", str(tmp_path), "--procfs", str(tmp_path))
    argv = [*emulated, "bandwidth", "--threads", "2", "--seconds", "0.2", "--mb", "2", *roots]
    done = subprocess.run(argv, capture_output=True, timeout=60, check=True)
    assert parse_bandwidth(done.stdout)[2] > 0


def test_the_arm_program_supervises_a_command(emulated: list[str], tmp_path: Path) -> None:
    argv = [*emulated, "run", "--dir", str(tmp_path / "run"), "--", "sh", "-c", "echo hello; exit 3"]
    log = RunLog.read(subprocess.run(argv, capture_output=True, timeout=60, check=True).stdout)
    assert log.stdout == b"hello\n"
    assert log.end is not None
    assert (log.end.why, log.end.exit_code) == ("exit", 3)


def test_the_arm_program_leaves_a_run_behind_streams_it_and_stops_it(emulated: list[str], tmp_path: Path) -> None:
    folder = str(tmp_path / "run")

    def ask(*words: str) -> bytes:
        return subprocess.run([*emulated, *words], capture_output=True, timeout=60, check=True).stdout

    start = parse_event(ask("run", "--detach", "--dir", folder, "--deadline-ms", "30000", "--", "sleep", "60"))
    assert isinstance(start, Start)
    with subprocess.Popen([*emulated, "attach", folder], stdout=subprocess.PIPE) as follower:
        end = parse_event(ask("stop", folder))
        told = follower.communicate(timeout=30)[0]
    assert isinstance(end, End)
    assert end.why == "stopped"
    assert told == (tmp_path / "run" / "events.jsonl").read_bytes()
    assert RunLog.read(told).end == end


def test_the_arm_program_keeps_a_lease(emulated: list[str], tmp_path: Path) -> None:
    argv = [*emulated, "lease", str(tmp_path / "lease"), "--owner", "a", "--host", "h", "--purpose", "p", "--ttl", "60"]
    with subprocess.Popen([*argv, "--attached"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert parse_lease_line(holder.stdout.readline()).state == "taken"
        show = [*emulated, "lease-show", str(tmp_path / "lease")]
        assert parse_lease_line(subprocess.run(show, capture_output=True, timeout=60).stdout).state == "held"
        holder.communicate(timeout=30)
    assert parse_lease_line(subprocess.run(show, capture_output=True, timeout=60).stdout).state == "free"
