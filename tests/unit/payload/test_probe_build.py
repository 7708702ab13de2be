from __future__ import annotations

import hashlib
import json
import shutil
import struct
import subprocess
import threading
from pathlib import Path

import pytest

from harness.core.errors import ConfigError, HostError
from harness.payload import probe_build
from harness.payload.probe_build import (
    FLAGS,
    ZIG_TARGETS,
    build_probe,
    compile_command,
    compile_environment,
    source_hash,
)
from harness.payload.probe_events import RunLog, parse_hash_line
from harness.payload.probe_facts import parse_facts

ELF_MACHINES = {"arm64-v8a": 183, "x86_64": 62}
PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
LARGEST_PAGE = 16384


@pytest.mark.parametrize("abi", sorted(ZIG_TARGETS))
def test_the_program_is_a_small_static_elf_of_its_machine(abi: str) -> None:
    content = build_probe(abi).read_bytes()
    assert content[:6] == b"\x7fELF\x02\x01", "64 bit, little-endian"
    machine, *_ = struct.unpack_from("<H", content, 18)
    assert machine == ELF_MACHINES[abi]
    (start,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", content, start + i * size) for i in range(count)]
    assert PT_INTERP not in {header[0] for header in headers}
    assert PT_DYNAMIC not in {header[0] for header in headers}
    assert len(content) < 300_000
    if abi == "arm64-v8a":
        aligned = {header[7] for header in headers if header[0] == PT_LOAD}
        assert all(alignment % LARGEST_PAGE == 0 for alignment in aligned), "phones with 16 KiB pages load it"


def test_the_program_tells_the_hash_of_its_source(probe: Path) -> None:
    done = subprocess.run([str(probe), "version"], capture_output=True, timeout=10, check=True)
    assert json.loads(done.stdout) == {"probe": 1, "source": source_hash()}


def test_a_second_build_is_the_first_ones_file_and_says_nothing(probe: Path) -> None:
    before = probe.stat().st_mtime_ns
    said: list[str] = []
    assert build_probe("x86_64", progress=said.append) == probe
    assert said == []
    assert probe.stat().st_mtime_ns == before


@pytest.mark.parametrize("abi", sorted(ZIG_TARGETS))
def test_the_source_has_no_warnings(abi: str, tmp_path: Path) -> None:
    strict = ["-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wshadow", "-Wstrict-prototypes", "-pedantic"]
    build_probe(abi)  # so that zig has the target's libraries
    command = [*compile_command(abi, "x", tmp_path / "out"), *strict]
    done = subprocess.run(command, capture_output=True, timeout=120, env=compile_environment())
    assert (done.returncode, done.stderr.decode()) == (0, "")


def test_an_unknown_abi_lists_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'mips': known are arm64-v8a, x86_64"):
        build_probe("mips")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def own_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "source"
    shutil.copytree(probe_build.source_dir(), copy)
    monkeypatch.setattr(probe_build, "source_dir", lambda: copy)
    return copy


def test_any_change_of_the_source_changes_its_hash(own_source: Path) -> None:
    before = source_hash()
    (own_source / "util.h").write_bytes((own_source / "util.h").read_bytes() + b"\n")
    changed = source_hash()
    (own_source / "util.h").rename(own_source / "utility.h")
    assert len({before, changed, source_hash()}) == 3
    (own_source / "notes.txt").write_text("not source")
    assert len(hashlib.sha256(source_hash().encode()).hexdigest()) == len(source_hash()) == 64


def test_a_compiler_that_fails_is_one_sentence_with_its_first_error(
    own_source: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(abi: str, source: str, output: Path) -> list[str]:
        output.write_bytes(b"half")
        return ["sh", "-c", "echo main.c:3:1: warning: hm >&2; echo main.c:4:1: error: no such thing >&2; exit 1"]

    monkeypatch.setattr(probe_build, "compile_command", failing)
    said: list[str] = []
    with pytest.raises(
        HostError, match=r"^compiling the probe for x86_64 failed \(main.c:4:1: error: no such thing\)$"
    ):
        build_probe("x86_64", progress=said.append)
    assert said == ["building the probe for x86_64 (first time: about 30 s)…"]
    assert [path.name for path in own_cache.rglob("*probe-x86_64*")] == [], "nothing half done stays"


def test_two_that_ask_at_once_build_once(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(abi: str, source: str, output: Path) -> list[str]:
        return ["sh", "-c", 'sleep 0.2; echo built > "$0"; echo x >> "$1"', str(output), str(tmp_path / "builds")]

    monkeypatch.setattr(probe_build, "compile_command", slow)
    got: list[Path] = []
    threads = [threading.Thread(target=lambda: got.append(build_probe("x86_64"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(got) == 4
    assert len(set(got)) == 1
    assert got[0].read_text() == "built\n"
    assert (tmp_path / "builds").read_text() == "x\n"


def test_missing_source_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_build, "source_dir", lambda: tmp_path)
    with pytest.raises(HostError, match="source is missing"):
        source_hash()


def test_the_flags_make_it_static() -> None:
    assert "-static" in FLAGS


@pytest.fixture
def emulated() -> list[str]:
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if emulator is None:
        pytest.skip("qemu-aarch64-static is not installed")
    return [emulator, str(build_probe("arm64-v8a"))]


def test_the_arm64_program_tells_facts_of_an_arm64_cpu(emulated: list[str]) -> None:
    done = subprocess.run([*emulated, "facts"], capture_output=True, timeout=60, check=True)
    facts = parse_facts(done.stdout)
    assert facts.machine == "aarch64"
    assert {"fp", "asimd"} <= set(facts.features)


@pytest.mark.parametrize("code", [(), ("--portable",)], ids=["accelerated", "portable"])
def test_the_arm64_program_hashes_as_hashlib_does(emulated: list[str], tmp_path: Path, code: tuple[str, ...]) -> None:
    paths = []
    for length in (0, 55, 56, 64, 65, 100_003):
        path = tmp_path / str(length)
        path.write_bytes(bytes(i % 251 for i in range(length)))
        paths.append(path)
    argv = [*emulated, "hash", *code, *map(str, paths)]
    done = subprocess.run(argv, capture_output=True, timeout=60, check=True)
    told = [parse_hash_line(line).sha256 for line in done.stdout.splitlines()]
    assert told == [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]


def test_the_arm64_program_supervises_a_command(emulated: list[str], tmp_path: Path) -> None:
    argv = [*emulated, "run", "--dir", str(tmp_path / "run"), "--", "sh", "-c", "echo hello; exit 3"]
    log = RunLog.read(subprocess.run(argv, capture_output=True, timeout=60, check=True).stdout)
    assert log.stdout == b"hello\n"
    assert log.end is not None
    assert (log.end.why, log.end.exit_code) == ("exit", 3)
