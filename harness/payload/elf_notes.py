"""Notes in an ELF file: which NDK made it, for which Android, its build id, and what CPU it must have."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from harness.payload.elf_image import ElfImage, Segment

_MOST_BYTES = 65536
_HEADER = 12
_BUILD_ID, _PROPERTIES, _ANDROID = 3, 5, 1
#: GNU_PROPERTY_X86_ISA_1_NEEDED of the x86-64 psABI: a bit for each level, from the baseline on; what a level adds to
#: those below it, as the kernel names it in ``/proc/cpuinfo``.
_X86_NEEDED = 0xC0008002
_X86_LEVELS = (
    (),
    ("cx16", "lahf_lm", "pni", "popcnt", "sse4_1", "sse4_2", "ssse3"),
    ("abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"),
    ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"),
)


@dataclass(frozen=True)
class Notes:
    """What the notes say; see :class:`~harness.payload.elf.ElfFile` for the fields."""

    android_api: int | None = None
    ndk: str | None = None
    build_id: str | None = None
    features_needed: tuple[str, ...] = ()


def read_notes(image: ElfImage) -> Notes:
    """Read all notes that are loaded with a program or a library."""
    found: dict[tuple[bytes, int], bytes] = {}
    order = "<" if image.little_endian else ">"
    for segment in image.segments:
        if segment.type == "PT_NOTE":
            for name, kind, content in _notes(image, segment, order):
                found.setdefault((name, kind), content)
    android = found.get((b"Android", _ANDROID), b"")
    build_id = found.get((b"GNU", _BUILD_ID))
    return Notes(
        android_api=struct.unpack_from(f"{order}I", android)[0] if len(android) >= 4 else None,
        ndk=android[4:68].partition(b"\0")[0].decode("ascii", "backslashreplace") or None,
        build_id=build_id.hex() if build_id else None,
        features_needed=tuple(_features(found.get((b"GNU", _PROPERTIES), b""), order, image.bits // 8)),
    )


def _notes(image: ElfImage, segment: Segment, order: str) -> Iterator[tuple[bytes, int, bytes]]:
    data = image.bytes_of(segment, _MOST_BYTES)
    align = 8 if segment.align == 8 else 4
    at = 0
    while at + _HEADER <= len(data):
        name_bytes, content_bytes, kind = struct.unpack_from(f"{order}III", data, at)
        start = at + _HEADER
        content = start + _up(name_bytes, 4)
        if content + content_bytes > len(data):
            return
        yield data[start : start + name_bytes].rstrip(b"\0"), kind, data[content : content + content_bytes]
        at = content + _up(content_bytes, align)


def _features(content: bytes, order: str, align: int) -> Iterator[str]:
    at = 0
    while at + 8 <= len(content):
        kind, count = struct.unpack_from(f"{order}II", content, at)
        if kind == _X86_NEEDED and count == 4 and at + 12 <= len(content):
            bits = struct.unpack_from(f"{order}I", content, at + 8)[0]
            for level in _X86_LEVELS[: bits.bit_length()]:
                yield from level
        at += 8 + _up(count, align)


def _up(count: int, align: int) -> int:
    return -(-count // align) * align
