"""ELF files are read as a phone's linker reads them; a damaged one ends in one sentence."""

from __future__ import annotations

import os
import platform
import random
import struct
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.core.errors import BundleError
from harness.payload.elf import ElfFile, read_elf

CHECKS = ("file_unreadable", "not_an_elf", "elf_truncated", "elf_malformed")


@pytest.fixture
def read(elf_kit: ModuleType, tmp_path: Path) -> Any:
    """Write an ELF file of these fields and read it."""

    def write_and_read(name: str = "libtoy.so", **fields: object) -> ElfFile:
        path = tmp_path / name
        path.write_bytes(elf_kit.Elf(**fields).bytes())
        return read_elf(path)

    return write_and_read


def refused(path: Path) -> tuple[str, str, str]:
    with pytest.raises(BundleError) as caught:
        read_elf(path)
    return caught.value.check, caught.value.message.replace(str(path), "FILE"), caught.value.remedy


def test_a_library_says_all_it_knows(read: Any) -> None:
    elf = read(
        needed=("libMNN.so", "libc.so"), soname="libtoy.so", runpath="/here:/there", build_id=b"\x0b\xad", symbols=True
    )
    assert elf == ElfFile(
        path=elf.path,
        size=elf.path.stat().st_size,
        loaded_bytes=elf.loaded_bytes,
        machine="AARCH64",
        abi="arm64-v8a",
        kind="library",
        static=False,
        interpreter=None,
        needed=("libMNN.so", "libc.so"),
        soname="libtoy.so",
        runpath=("/here", "/there"),
        load_align_bytes=16384,
        relro_page_bytes=None,
        tls_align_bytes=None,
        android_api=24,
        api_needed=1,
        ndk="r27c",
        build_id="0bad",
        stripped=False,
        debug=False,
        position_independent=True,
        text_relocations=False,
        features_needed=(),
    )
    assert 0 < elf.loaded_bytes < elf.size


def test_a_program_names_its_linker(read: Any) -> None:
    elf = read("llm_bench", kind="program", debug=True)
    assert (elf.kind, elf.interpreter, elf.static, elf.debug, elf.stripped) == (
        "program",
        "/system/bin/linker64",
        False,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("abi", "expected"),
    [
        ("arm64-v8a", "arm64-v8a"),
        ("armeabi-v7a", "armeabi-v7a"),
        ("x86_64", "x86_64"),
        ("x86", "x86"),
        ("riscv64", "riscv64"),
        ("mips", None),
    ],
)
def test_the_abi_is_that_of_machine_and_word_size(read: Any, abi: str, expected: str | None) -> None:
    assert read(abi=abi).abi == expected


def test_no_phone_has_the_other_byte_order(read: Any) -> None:
    elf = read(big_endian=True)
    assert (elf.abi, elf.machine, elf.needed) == (None, "AARCH64", ("libc.so",))


@pytest.mark.parametrize("position_independent", [True, False])
def test_a_program_without_linker_and_libraries_is_static(read: Any, position_independent: bool) -> None:
    elf = read("farm_runner", kind="program", static=True, position_independent=position_independent, tls_align=8)
    assert (elf.kind, elf.static, elf.position_independent) == ("program", True, position_independent)
    assert (elf.tls_align_bytes, elf.api_needed) == (8, 1)


@pytest.mark.parametrize(
    ("fields", "api"),
    [
        ({"tags": [(4, 0)]}, 1),
        ({"tags": [(0x6FFFFEF5, 0)]}, 23),
        ({"tags": [(4, 0), (0x6FFFFEF5, 0)]}, 1),
        ({"tags": [(4, 0), (0x60000011, 0)]}, 23),
        ({"tags": [(4, 0), (0x6FFFE000, 0)]}, 28),
        ({"tls_align": 64}, 29),
        ({"tags": [(4, 0), (36, 0)]}, 30),
    ],
)
def test_parts_of_the_format_came_with_api_levels(read: Any, fields: dict[str, Any], api: int) -> None:
    assert read(**fields).api_needed == api


@pytest.mark.parametrize(
    ("fields", "page"),
    [
        ({"align": 4096}, 4096),
        ({"align": 16384}, 16384),
        ({"align": 65536}, 65536),
        ({"align": 16384, "shift": 0x5000}, 4096),  # it says 16384, and file and memory agree only below 4096
        ({"align": 65536, "shift": 0x4000}, 16384),
        ({"align": 16384, "relro_end": 0x3000}, 4096),  # what lies behind must stay writable
        ({"align": 65536, "relro_end": 0x4000}, 16384),
        ({"align": 4096, "relro_end": 0x4000}, 4096),
    ],
)
def test_the_page_that_it_can_be_loaded_with_is_what_its_segments_allow(
    read: Any, fields: dict[str, Any], page: int
) -> None:
    assert read(**fields).page_bytes == page


@pytest.mark.parametrize("tags", [[(22, 0)], [(30, 4)]])
def test_text_relocations_are_seen(read: Any, tags: list[tuple[int, int]]) -> None:
    assert read(tags=tags).text_relocations


@pytest.mark.parametrize(
    ("needed", "some", "count"),
    [(0b1, set(), 0), (0b11, {"sse4_2"}, 7), (0b101, {"sse4_2", "avx2"}, 16), (1 << 31, {"avx512f"}, 21)],
)
def test_a_needed_level_of_instructions_is_told_as_the_kernel_names_what_it_has(
    read: Any, needed: int, some: set[str], count: int
) -> None:
    features = read(abi="x86_64", x86_needed=needed).features_needed
    assert (len(features), some - set(features)) == (count, set())


def test_a_name_that_would_move_the_cursor_is_escaped(read: Any) -> None:
    assert read(needed=("lib\x1b[2Jx.so", "libä.so")).needed == ("lib\\x1b[2Jx.so", "libä.so")


@pytest.mark.parametrize(
    ("content", "says", "fix"),
    [
        (b"", "FILE is empty", "copy or build it again"),
        (b"libMNN.so.3", "FILE is a text file, not a program or shared library", "put the real file there"),
        (b"\r\n#include <x>\n", "FILE is a text file, not a program or shared library", "put the real file there"),
        (b"version https://git-lfs.github.com/spec/v1\n", "FILE is a Git LFS pointer, not the file", "git lfs pull"),
        (b"!<arch>\nx", "FILE is a static library (an ar archive), not a program", "put the real file there"),
        (b"PK\x03\x04\x14", "FILE is a zip archive, not a program", "put the real file there"),
        (b"#!/bin/sh\n", "FILE is a script, not a program", "put the real file there"),
        (b"MZ\x90\x00", "FILE is a Windows program, not a program", "put the real file there"),
        (bytes(range(64)), "FILE is no ELF file, not a program", "put the real file there"),
    ],
)
def test_something_else_under_the_name_of_a_library_is_told_by_what_it_is(
    tmp_path: Path, content: bytes, says: str, fix: str
) -> None:
    path = tmp_path / "libMNN.so"
    path.write_bytes(content)
    check, message, remedy = refused(path)
    assert check == "not_an_elf"
    assert message.startswith(says)
    assert fix in remedy


def test_what_is_no_ordinary_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "libpipe.so")
    assert refused(tmp_path / "libpipe.so")[0] == "file_unreadable"
    assert refused(tmp_path)[0] == "file_unreadable"
    assert refused(tmp_path / "not there")[1] == "FILE cannot be read (No such file or directory)"


def test_an_object_file_is_told_to_be_one(elf_kit: ModuleType, tmp_path: Path) -> None:
    path = elf_kit.write(tmp_path, {"a.so": elf_kit.library("a.so", extra={"type": 1})}) / "a.so"
    assert refused(path) == (
        "elf_malformed",
        "FILE is damaged: it is not linked (an object file?)",
        "copy or build it again",
    )


@pytest.mark.parametrize("abi", ["arm64-v8a", "armeabi-v7a"])
def test_cut_off_anywhere_it_is_told_to_be_cut_off(elf_kit: ModuleType, tmp_path: Path, abi: str) -> None:
    whole = elf_kit.Elf(abi=abi, tls_align=64, relro_end=4096, build_id=b"1234", data=b"d" * 700).bytes()
    path = tmp_path / "libcut.so"
    for end in range(64, len(whole), 16):
        path.write_bytes(whole[:end])
        check, message, _ = refused(path)
        assert (end, check) == (end, "elf_truncated")
        assert message.startswith(f"FILE is cut off: it has {end} bytes and ")
    path.write_bytes(whole[:20])
    assert (
        refused(path)[1] == f"FILE is cut off: it has 20 bytes and its header goes to byte {64 if '64' in abi else 52}"
    )


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("phnum", 0xFFFF, "it claims to have 65535 segments"),
        ("phnum", 0, "nothing of it would be loaded"),
        ("phentsize", 55, "its program headers have 55 bytes instead of 56"),
        ("shnum", 0xFFFF, "it claims to have 65535 sections of 64 bytes"),
    ],
)
def test_a_damaged_count_ends_at_once(elf_kit: ModuleType, tmp_path: Path, field: str, value: int, says: str) -> None:
    path = tmp_path / "libx.so"
    path.write_bytes(elf_kit.library("libx.so", extra={field: value}))
    assert refused(path) == ("elf_malformed", f"FILE is damaged: {says}", "copy or build it again")


def test_a_table_without_an_end_in_a_large_file_ends(elf_kit: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "libx.so"
    whole = bytearray(elf_kit.library("libx.so"))
    size = 1 << 30
    row = next(64 + n * 56 for n in range(8) if whole[64 + n * 56] == elf_kit.DYNAMIC)
    struct.pack_into("<Q", whole, row + 32, size - 4096)
    note = next(64 + n * 56 for n in range(8) if whole[64 + n * 56] == elf_kit.NOTE)
    struct.pack_into("<Q", whole, note + 32, size - 4096)
    whole[struct.unpack_from("<Q", whole, row + 8)[0] :] = struct.pack("<QQ", 4, 4) * 3000
    with path.open("wb") as file:
        file.write(whole)
        file.truncate(size)
    assert refused(path)[1] == "FILE is damaged: its dynamic section has no end"


def test_whatever_bytes_are_flipped_it_ends_in_an_answer_or_a_refusal(elf_kit: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "libflip.so"
    chance = random.Random(7)  # noqa: S311
    answers = set()
    for abi in ("arm64-v8a", "armeabi-v7a"):
        whole = elf_kit.Elf(abi=abi, tls_align=64, relro_end=4096, build_id=b"1234", x86_needed=2, debug=True).bytes()
        for _ in range(200):
            flipped = bytearray(whole)
            for _ in range(chance.choice((1, 1, 4))):
                flipped[chance.randrange(4, len(whole))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
            path.write_bytes(flipped)
            try:
                answers.add(type(read_elf(path)).__name__)
            except BundleError as error:
                answers.add(error.check)
    assert answers == {"ElfFile", "elf_truncated", "elf_malformed"}


@pytest.mark.skipif(sys.platform != "linux", reason="Python itself is an ELF file on Linux only")
def test_a_real_program_is_read_and_its_pieces_are_refused(tmp_path: Path) -> None:
    real = Path(sys.executable).resolve()
    abis = {"x86_64": "x86_64", "aarch64": "arm64-v8a"}
    elf = read_elf(real)
    assert (elf.kind, elf.abi) == ("program", abis.get(platform.machine()))
    assert any(name.startswith("libc.") for name in elf.needed)
    piece = tmp_path / "python"
    head = real.read_bytes()[:8192]
    for end in range(64, len(head), 512):
        piece.write_bytes(head[:end])
        assert refused(piece)[0] == "elf_truncated"
