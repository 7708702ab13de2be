"""Reads an ELF file as far as a dynamic linker and a phone care; nothing in it is believed.

The formats are pyelftools'; the walk over them is ours, because a table in a damaged file may claim to go on for ever.
What the fields mean for Android is written down in bionic's ``linker/linker_phdr.cpp`` and
``libc/bionic/bionic_elf_tls.cpp``.
"""

from __future__ import annotations

import mmap
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.core.errors import BundleError
from harness.payload.elf_image import BROKEN, ElfImage, Segment
from harness.payload.elf_notes import read_notes

BUILD_AGAIN = "copy or build it again"
_LFS_POINTER = b"version https://git-lfs"
#: First bytes of what is often named like a program or a library and is neither.
_OTHER_KINDS = {
    b"!<arch>": "a static library (an ar archive)",
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "a gzip archive",
    b"MZ": "a Windows program",
    b"\xcf\xfa\xed\xfe": "a macOS program",
    b"\xca\xfe\xba\xbe": "a macOS program",
    b"#!": "a script",
}
#: ABI of a machine, by pyelftools' name for it and the word size.
_ABIS: dict[tuple[str | int, int], str] = {
    ("EM_AARCH64", 64): "arm64-v8a",
    ("EM_ARM", 32): "armeabi-v7a",
    ("EM_X86_64", 64): "x86_64",
    ("EM_386", 32): "x86",
    ("EM_RISCV", 64): "riscv64",
}
_PIE = 0x08000000
_TEXTREL = 0x4
#: Tags of relocation tables in a packed form, and the first API level whose linker reads it. Two of Android's share
#: their numbers with Solaris', whose names pyelftools may give.
_PACKED = {
    "DT_RELR": 30,
    "DT_ANDROID_RELR": 28,
    "DT_ANDROID_REL": 23,
    "DT_SUNW_FILTER": 23,
    "DT_ANDROID_RELA": 23,
    "DT_SUNW_SYMTAB": 23,
}
_PAGES = (65536, 16384, 4096)


@dataclass(frozen=True)
class ElfFile:
    """What a program or a shared library says of itself.

    Attributes:
        path: where it lies.
        size: in bytes.
        loaded_bytes: how much of its beginning may be loaded; what follows is for debuggers and linkers.
        machine: the CPU it is for, as people call it, e.g. ``AARCH64``.
        abi: Android's name for that, ``None`` where no phone has such a CPU.
        kind: whether it is started or loaded.
        static: it needs no dynamic linker.
        interpreter: the dynamic linker that a program asks for.
        needed: libraries it needs (``DT_NEEDED``), in its order.
        soname: the name it was linked under.
        runpath: folders in which its libraries are looked for (``DT_RUNPATH``, else ``DT_RPATH``).
        load_align_bytes: the largest memory page with which all its segments can be mapped.
        relro_page_bytes: the largest page with which making its relocated data read-only hits nothing else;
            ``None`` where it has no such data.
        tls_align_bytes: alignment of its thread-local data, ``None`` without any.
        android_api: the API level that the NDK built it for, ``None`` where it was not the NDK or one before r11.
        api_needed: the API level below which Android's linker does not understand it, 1 for any.
        ndk: the NDK's release, e.g. ``r27c``, where it says.
        build_id: in hex.
        stripped: without a symbol table.
        debug: with debugging information.
        position_independent: it can be loaded at any address.
        text_relocations: its code has to be changed when it is loaded.
        features_needed: what the CPU must have, where the file says so; in the words of the kernel, e.g. ``avx2``.
    """

    path: Path
    size: int
    loaded_bytes: int
    machine: str
    abi: str | None
    kind: Literal["program", "library"]
    static: bool
    interpreter: str | None
    needed: tuple[str, ...]
    soname: str | None
    runpath: tuple[str, ...]
    load_align_bytes: int
    relro_page_bytes: int | None
    tls_align_bytes: int | None
    android_api: int | None
    api_needed: int
    ndk: str | None
    build_id: str | None
    stripped: bool
    debug: bool
    position_independent: bool
    text_relocations: bool
    features_needed: tuple[str, ...]

    @property
    def page_bytes(self) -> int:
        """The largest memory page with which it can be loaded."""
        return min(self.load_align_bytes, self.relro_page_bytes or self.load_align_bytes)


def read_elf(path: Path) -> ElfFile:
    """Read a linked program or shared library.

    Raises:
        BundleError: its check is ``file_unreadable``, ``not_an_elf``, ``elf_truncated`` or ``elf_malformed``.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BundleError("file_unreadable", f"{path} is no ordinary file", remedy="remove it")
        with path.open("rb") as file:
            _check_kind(path, file.read(512))
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _read(path, ElfImage(data))
    except EOFError as error:
        raise BundleError("elf_truncated", f"{path} is cut off: {error}", remedy=BUILD_AGAIN) from error
    except OSError as error:
        said = error.strerror or str(error)
        raise BundleError("file_unreadable", f"{path} cannot be read ({said})", remedy="check the file") from error
    except BROKEN as error:
        said = str(error) or type(error).__name__
        raise BundleError("elf_malformed", f"{path} is damaged: {said}", remedy=BUILD_AGAIN) from error


def _check_kind(path: Path, head: bytes) -> None:
    """Refuse what is no ELF file, by what it is."""
    if head.startswith(b"\x7fELF"):
        return
    if head.startswith(_LFS_POINTER):
        raise BundleError("not_an_elf", f"{path} is a Git LFS pointer, not the file", remedy="run: git lfs pull")
    if not head:
        raise BundleError("not_an_elf", f"{path} is empty", remedy=BUILD_AGAIN)
    kind = next((kind for magic, kind in _OTHER_KINDS.items() if head.startswith(magic)), None)
    if kind is None:
        text = all(byte >= 0x20 or byte in b"\t\r\n\f" for byte in head)
        kind = "a text file" if text else "no ELF file"
    raise BundleError(
        "not_an_elf", f"{path} is {kind}, not a program or shared library", remedy="put the real file there"
    )


def _read(path: Path, image: ElfImage) -> ElfFile:
    dynamic = image.dynamic()
    interpreter = image.interpreter()
    flags_1 = next(iter(dynamic.numbers("DT_FLAGS_1")), 0)
    soname = next(iter(dynamic.strings("DT_SONAME")), None)
    kind = _kind(image, path.name, interpreter, soname, pie=bool(flags_1 & _PIE), needed=dynamic.has("DT_NEEDED"))
    static = kind == "program" and interpreter is None and not dynamic.has("DT_NEEDED")
    notes = read_notes(image)
    tls = [segment for segment in image.segments if segment.type == "PT_TLS"]
    flags = next(iter(dynamic.numbers("DT_FLAGS")), 0)
    return ElfFile(
        path=path,
        size=image.size,
        loaded_bytes=max(segment.offset + segment.file_bytes for segment in image.loads),
        machine=str(image.machine).removeprefix("EM_"),
        abi=_ABIS.get((image.machine, image.bits)) if image.little_endian else None,
        kind=kind,
        static=static,
        interpreter=interpreter,
        needed=dynamic.strings("DT_NEEDED"),
        soname=soname,
        runpath=_folders(dynamic.strings("DT_RUNPATH") or dynamic.strings("DT_RPATH")),
        load_align_bytes=min(_page_of(segment) for segment in image.loads),
        relro_page_bytes=_relro_page(image),
        tls_align_bytes=max((segment.align for segment in tls), default=None),
        android_api=notes.android_api,
        api_needed=1 if static else max(_api_needed(dynamic.tags, tls=bool(tls))),
        ndk=notes.ndk,
        build_id=notes.build_id,
        stripped=not image.has_symbols,
        debug=image.has_debug_info,
        position_independent=image.type == "ET_DYN",
        text_relocations=dynamic.has("DT_TEXTREL") or bool(flags & _TEXTREL),
        features_needed=notes.features_needed,
    )


def _kind(
    image: ElfImage, name: str, interpreter: str | None, soname: str | None, *, pie: bool, needed: bool
) -> Literal["program", "library"]:
    if image.type == "ET_EXEC" or pie:
        return "program"
    if soname is not None or ".so" in name:
        return "library"
    if interpreter is not None:
        return "program"
    return "program" if image.entry and not needed else "library"  # a static program that is position-independent


def _folders(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(folder for path in paths for folder in path.split(":") if folder)


def _page_of(segment: Segment) -> int:
    """Return the largest page with which a segment can be mapped: file and memory must agree below it."""
    apart = segment.address - segment.offset
    return min(segment.align or 1, apart & -apart) if apart else segment.align or 1


def _relro_page(image: ElfImage) -> int | None:
    """Return the largest page with which what lies behind the read-only relocated data stays writable."""
    relro = next((segment for segment in image.segments if segment.type == "PT_GNU_RELRO"), None)
    if relro is None:
        return None
    end = relro.address + relro.memory_bytes
    writable = [s for s in image.loads if s.writable and s.memory_bytes]
    for page in _PAGES:
        border = -(-end // page) * page
        if not any(max(s.address, end) < min(s.address + s.memory_bytes, border) for s in writable):
            return page
    return _PAGES[-1]


def _api_needed(tags: frozenset[str | int], *, tls: bool) -> Iterator[int]:
    """Yield the API levels that parts of the format came with (bionic's ``android-changes-for-ndk-developers.md``)."""
    yield 1
    yield from (api for tag, api in _PACKED.items() if tag in tags)
    if "DT_GNU_HASH" in tags and "DT_HASH" not in tags:
        yield 23
    if tls:
        yield 29
