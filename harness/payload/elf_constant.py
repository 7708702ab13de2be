"""Reads the text that a tiny exported function returns, e.g. ``const char* getVersion()``, without running it.

A compiler makes of it one or two instructions that compute the text's address from their own. Those of arm64, arm (both
encodings) and x86-64 are known here; for anything else the answer is ``None``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from harness.payload.elf_image import BROKEN, ElfImage
from harness.payload.elf_symbols import symbols

_CODE_BYTES = 32
_LONGEST = 64


def constant_of(image: ElfImage, function: bytes) -> str | None:
    """Return the text that an exported function (by its name in the file) does nothing but return."""
    try:
        start = _address_of(image, function)
        if start is None:
            return None
        reader = _READERS.get((image.machine, image.bits)) if image.little_endian else None
        target = reader(image, start) if reader is not None else None
        if target is None:
            return None
        offset = image.offset_of(target)
        return image.string(offset, offset + _LONGEST) or None
    except BROKEN:
        return None


def _address_of(image: ElfImage, name: bytes) -> int | None:
    return next((symbol.address for symbol in symbols(image) if symbol.name == name and symbol.address), None)


def _words(image: ElfImage, start: int) -> Iterator[tuple[int, int]]:
    """Yield the instructions of 32 bits with their addresses."""
    code = image.bytes_at(image.offset_of(start), _CODE_BYTES)
    for n, (word,) in enumerate(struct.iter_unpack("<I", code[: len(code) // 4 * 4])):
        yield start + 4 * n, word


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _arm64(image: ElfImage, start: int) -> int | None:
    page = None
    for at, word in _words(image, start):
        near = _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
        if word & 0x9F00001F == 0x10000000:  # adr x0
            return at + near
        if word & 0x9F00001F == 0x90000000:  # adrp x0
            page = (at & ~0xFFF) + (near << 12)
        elif word & 0xFFC003FF == 0x91000000 and page is not None:  # add x0, x0, #n
            return page + (word >> 10 & 0xFFF)
        elif word == 0xD65F03C0:  # ret
            return None
    return None


def _arm(image: ElfImage, start: int) -> int | None:
    if start & 1:
        return _thumb(image, start & ~1)
    distance = None
    for at, word in _words(image, start):
        if word & 0xFFFFF000 == 0xE59F0000:  # ldr r0, [pc, #n]
            distance = _word(image, at + 8 + (word & 0xFFF))
        elif word in (0xE08F0000, 0xE080000F) and distance is not None:  # add r0, pc, r0 and the other way round
            return at + 8 + distance & 0xFFFFFFFF
    return None


def _thumb(image: ElfImage, start: int) -> int | None:
    code = image.bytes_at(image.offset_of(start), _CODE_BYTES)
    distance = None
    for n, (half,) in enumerate(struct.iter_unpack("<H", code[: len(code) // 2 * 2])):
        at = start + 2 * n
        if half & 0xFF00 == 0x4800:  # ldr r0, [pc, #n]
            distance = _word(image, (at + 4 & ~3) + (half & 0xFF) * 4)
        elif half == 0x4478 and distance is not None:  # add r0, pc
            return at + 4 + distance & 0xFFFFFFFF
    return None


def _word(image: ElfImage, address: int) -> int:
    value: int = struct.unpack("<I", image.bytes_at(image.offset_of(address), 4))[0]
    return value


def _x86_64(image: ElfImage, start: int) -> int | None:
    code = image.bytes_at(image.offset_of(start), _CODE_BYTES)
    begin = code.removeprefix(b"\xf3\x0f\x1e\xfa").removeprefix(b"\x55\x48\x89\xe5")  # endbr64; push and move of rbp
    if not begin.startswith(b"\x48\x8d\x05"):  # lea rax, [rip + n]
        return None
    after = start + len(code) - len(begin) + 7
    return after + int(struct.unpack_from("<i", begin, 3)[0])


_READERS: dict[tuple[str | int, int], Callable[[ElfImage, int], int | None]] = {
    ("EM_AARCH64", 64): _arm64,
    ("EM_ARM", 32): _arm,
    ("EM_X86_64", 64): _x86_64,
}
