"""The text that an exported function returns is read from its code, as compilers write it."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from types import ModuleType

import pytest

from harness.payload.elf_constant import constant_of
from harness.payload.elf_image import ElfImage

NAME = b"_ZN3MNN10getVersionEv"
TEXT_AT = 32  # behind the function's beginning
NOP, RET = 0xD503201F, 0xD65F03C0
CODES = {
    "arm64, near": ("arm64-v8a", struct.pack("<III", NOP, 0x10000000 | (TEXT_AT - 4) // 4 << 5, RET)),
    "arm64, by page": ("arm64-v8a", struct.pack("<IIII", 0xD503245F, 0x90000000, 0x91000000 | TEXT_AT << 10, RET)),
    "x86-64": ("x86_64", b"\x48\x8d\x05\x19\0\0\0\xc3"),
    "x86-64 with a frame": ("x86_64", b"\xf3\x0f\x1e\xfa\x55\x48\x89\xe5\x48\x8d\x05\x11\0\0\0\x5d\xc3"),
    "arm": ("armeabi-v7a", struct.pack("<IIIII", 0xE59F0008, 0xE08F0000, 0xE12FFF1E, 0, 0x14)),
    "thumb": ("armeabi-v7a", struct.pack("<HHHHIII", 0x4803, 0x4478, 0x4770, 0xBF00, 0, 0, 0x1A)),
}


def read(elf_kit: ModuleType, path: Path, abi: str, code: bytes, odd: int = 0, function: bytes = NAME) -> str | None:
    text = code.ljust(TEXT_AT, b"\0") + b"12.34.56\0"
    path.write_bytes(elf_kit.Elf(abi=abi, function=function, code=text, odd=odd).bytes())
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return constant_of(ElfImage(data), NAME)


@pytest.mark.parametrize("case", CODES)
def test_the_text_is_found_by_the_functions_code(elf_kit: ModuleType, tmp_path: Path, case: str) -> None:
    abi, code = CODES[case]
    assert read(elf_kit, tmp_path / "lib.so", abi, code, odd=int(case == "thumb")) == "12.34.56"


@pytest.mark.parametrize(
    ("abi", "code"),
    [
        ("arm64-v8a", struct.pack("<I", RET)),
        ("arm64-v8a", struct.pack("<II", 0x10000000 | 0x7FFFF << 5, RET)),  # it leads before the function
        ("arm64-v8a", struct.pack("<IIII", 0x90FFFFE0, 0x91000000, RET, 0)),  # and this out of the file
        ("x86_64", b"\xc3"),
        ("x86_64", b"\x48\x8d\x05\xff\xff\xff\x7f\xc3"),
        ("armeabi-v7a", struct.pack("<I", 0xE12FFF1E)),
        ("x86", b"\xc3"),
    ],
)
def test_code_of_another_kind_says_nothing(elf_kit: ModuleType, tmp_path: Path, abi: str, code: bytes) -> None:
    assert read(elf_kit, tmp_path / "lib.so", abi, code) is None


def test_a_function_that_is_not_there_says_nothing(elf_kit: ModuleType, tmp_path: Path) -> None:
    abi, code = CODES["x86-64"]
    assert read(elf_kit, tmp_path / "lib.so", abi, code, function=b"_ZN3MNN10getVersion") is None
