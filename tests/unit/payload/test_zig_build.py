"""The builder of C programs, shown on both that there are: the probe and the synthetic runner."""

from __future__ import annotations

import hashlib
import shutil
import struct
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.errors import ConfigError, HostError
from harness.core.resources import data_root
from harness.payload import zig_build
from harness.payload.probe_build import probe_program
from harness.payload.zig_build import FLAGS, ZIG_TARGETS, CProgram, build, compile_command, compile_environment

ELF_MACHINES = {"arm64-v8a": 183, "armeabi-v7a": 40, "x86_64": 62}
PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
LARGEST_PAGE = 16384
RUNNERS = data_root() / "device_bins" / "runner"
SYNTHETIC = CProgram("synthetic", RUNNERS / "synthetic", "SYNTHETIC_SOURCE", (RUNNERS / "core",))
PROGRAMS = [probe_program(), SYNTHETIC]
EVERY = [pytest.param(program, abi, id=f"{program.name}-{abi}") for program in PROGRAMS for abi in sorted(ZIG_TARGETS)]


@pytest.mark.parametrize(("program", "abi"), EVERY)
def test_the_program_is_a_small_static_elf_of_its_machine(program: CProgram, abi: str) -> None:
    content = build(program, abi).read_bytes()
    wide = abi != "armeabi-v7a"
    assert content[:6] == (b"\x7fELF\x02\x01" if wide else b"\x7fELF\x01\x01"), "64 or 32 bit, little-endian"
    (machine,) = struct.unpack_from("<H", content, 18)
    assert machine == ELF_MACHINES[abi]
    (start,) = struct.unpack_from("<Q" if wide else "<I", content, 32 if wide else 28)
    size, count = struct.unpack_from("<HH", content, 54 if wide else 42)
    headers = [
        struct.unpack_from("<IIQQQQQQ" if wide else "<IIIIIIII", content, start + i * size) for i in range(count)
    ]
    assert PT_INTERP not in {header[0] for header in headers}
    assert PT_DYNAMIC not in {header[0] for header in headers}
    assert len(content) < 300_000
    if abi == "arm64-v8a":
        aligned = {header[7] for header in headers if header[0] == PT_LOAD}
        assert all(alignment % LARGEST_PAGE == 0 for alignment in aligned), "phones with 16 KiB pages load it"


@pytest.mark.parametrize(("program", "abi"), EVERY)
def test_the_source_has_no_warnings(program: CProgram, abi: str, tmp_path: Path) -> None:
    strict = ["-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wshadow", "-Wstrict-prototypes", "-pedantic"]
    # Warnings come of compiling; to link a program without optimizing takes another libc, which takes a minute to make.
    *command, _, _ = compile_command(program, abi, tmp_path / "out")
    alone = [*command, *strict, "-O0", "-c"]
    done = subprocess.run(alone, capture_output=True, timeout=120, env=compile_environment(), cwd=tmp_path)
    assert (done.returncode, done.stderr.decode()) == (0, "")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_files_of_c_are_short(program: CProgram) -> None:
    lengths = {path: path.read_text().count("\n") for folder in program.folders() for path in folder.glob("*.[ch]")}
    assert {name: length for name, length in lengths.items() if length > 450} == {}


def test_an_unknown_abi_lists_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'mips': known are arm64-v8a, armeabi-v7a, x86_64"):
        build(SYNTHETIC, "mips")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def own(tmp_path: Path) -> CProgram:
    copy = tmp_path / "source"
    shutil.copytree(SYNTHETIC.source_dir, copy)
    return CProgram("own", copy, "OWN_SOURCE", SYNTHETIC.shared)


def test_any_change_of_the_source_changes_its_hash(own: CProgram) -> None:
    header = own.source_dir / "pace.h"
    before = own.source_hash()
    header.write_bytes(header.read_bytes() + b"\n")
    changed = own.source_hash()
    header.rename(own.source_dir / "speed.h")
    renamed = own.source_hash()
    assert len({before, changed, renamed}) == 3
    (own.source_dir / "notes.txt").write_text("not source")
    assert own.source_hash() == renamed
    assert len(renamed) == len(hashlib.sha256().hexdigest())


def test_a_change_of_the_shared_source_changes_it_too(own: CProgram, tmp_path: Path) -> None:
    core = Path(shutil.copytree(SYNTHETIC.shared[0], tmp_path / "core"))
    copied = replace(own, shared=(core,))
    assert copied.source_hash() == own.source_hash()
    (core / "clock.c").write_bytes((core / "clock.c").read_bytes() + b"\n")
    assert copied.source_hash() != own.source_hash()


def test_other_options_of_the_compiler_make_another_program(own: CProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    before = own.build_key()
    monkeypatch.setattr(zig_build, "FLAGS", (*FLAGS, "-O3"))
    changed = own.build_key()
    monkeypatch.setattr(zig_build, "zig_version", lambda: "0.0")
    assert len({before, changed, own.build_key()}) == 3


def test_a_second_build_is_the_first_ones_file_and_says_nothing() -> None:
    first = build(SYNTHETIC, "x86_64")
    before = first.stat().st_mtime_ns
    said: list[str] = []
    assert build(SYNTHETIC, "x86_64", progress=said.append) == first
    assert said == []
    assert first.stat().st_mtime_ns == before


def test_a_compiler_that_fails_is_one_sentence_with_its_first_error(
    own: CProgram, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(program: CProgram, abi: str, output: Path) -> list[str]:
        output.write_bytes(b"half")
        return ["sh", "-c", "echo main.c:3:1: warning: hm >&2; echo main.c:4:1: error: no such thing >&2; exit 1"]

    monkeypatch.setattr(zig_build, "compile_command", failing)
    said: list[str] = []
    with pytest.raises(HostError, match=r"^compiling the own for x86_64 failed \(main.c:4:1: error: no such thing\)$"):
        build(own, "x86_64", progress=said.append)
    assert said == ["building the own for x86_64 (first time: about 30 s)…"]
    assert [path.name for path in own_cache.rglob("*") if path.is_file() and path.suffix != ".lock"] == [], (
        "nothing half done stays"
    )


def test_two_that_ask_at_once_build_once(
    own: CProgram, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(program: CProgram, abi: str, output: Path) -> list[str]:
        return ["sh", "-c", 'sleep 0.2; echo built > "$0"; echo x >> "$1"', str(output), str(tmp_path / "builds")]

    monkeypatch.setattr(zig_build, "compile_command", slow)
    got: list[Path] = []
    threads = [threading.Thread(target=lambda: got.append(build(own, "x86_64"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(got) == 4
    assert len(set(got)) == 1
    assert got[0].read_text() == "built\n"
    assert (tmp_path / "builds").read_text() == "x\n"


def test_missing_source_is_said(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="source of own is missing"):
        CProgram("own", tmp_path, "OWN_SOURCE").source_hash()


def test_the_flags_make_it_static() -> None:
    assert "-static" in FLAGS
