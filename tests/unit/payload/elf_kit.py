"""Writes small programs and shared libraries, each field as asked for, and bundles of them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: ABI → machine, bits, Android's linker.
MACHINES = {
    "arm64-v8a": (183, 64, "/system/bin/linker64"),
    "armeabi-v7a": (40, 32, "/system/bin/linker"),
    "x86_64": (62, 64, "/system/bin/linker64"),
    "x86": (3, 32, "/system/bin/linker"),
    "riscv64": (243, 64, "/system/bin/linker64"),
    "mips": (8, 32, "/system/bin/linker"),
    "hexagon": (164, 32, ""),
}
#: Where the code of an exported function lies.
CODE_AT = 0x2000
GLIBC_LINKER = "/lib64/ld-linux-x86-64.so.2"
LOAD, DYNAMIC, INTERP, NOTE, TLS, RELRO = 1, 2, 3, 4, 7, 0x6474E552
ENGINE = (
    b"\0Can't Find type=%d backend, use %d instead\n\0004.5.6\0llm_config.json\0"
    b"Failed to memory-map the kvcache!\n\0Call error for:MNNAsyLocalQuantInfo_EP12\n\0"
)
OPENCL = b"\0libOpenCL.so\0clGetPlatformIDs\0"


@dataclass
class Elf:
    """One file. Numbers are bytes; ``None`` leaves a part out."""

    abi: str = "arm64-v8a"
    kind: str = "library"
    needed: Sequence[str] = ("libc.so",)
    soname: str | None = None
    interpreter: str | None = "default"
    runpath: str | None = None
    align: int = 16384
    shift: int = 0
    relro_end: int | None = None
    tls_align: int | None = None
    android_api: int | None = 24
    ndk: str = "r27c"
    build_id: bytes | None = None
    x86_needed: int | None = None
    tags: Sequence[tuple[int, int]] = ((4, 0),)
    static: bool = False
    position_independent: bool = True
    big_endian: bool = False
    symbols: bool = False
    debug: bool = False
    data: bytes = b""
    padding: int = 0
    function: bytes | None = None
    code: bytes = b""
    odd: int = 0
    wants: Sequence[str] = ()
    has: Sequence[str] = ()
    weak: Sequence[str] = ()
    extra: Mapping[str, int] = field(default_factory=dict)

    def bytes(self) -> bytes:
        """Return the file."""
        return _Writer(self).write()


class _Writer:
    def __init__(self, elf: Elf) -> None:
        self.elf = elf
        self.machine, self.bits, linker = MACHINES[elf.abi]
        self.order = ">" if elf.big_endian else "<"
        self.word = "Q" if self.bits == 64 else "I"
        program = elf.kind == "program" and not elf.static
        self.interpreter = (linker if elf.interpreter == "default" else elf.interpreter) if program else None
        self.out = bytearray()
        self.table = self.table_bytes = 0
        self.segments: list[tuple[int, int, int, int, int, int, int]] = []  # type, flags, offset, address, sizes, align

    def pack(self, form: str, *values: int) -> bytes:
        return struct.pack(self.order + form.replace("W", self.word), *values)

    def write(self) -> bytes:
        elf = self.elf
        head, step = (64, 56) if self.bits == 64 else (52, 32)
        self.out = bytearray(head + 8 * step)
        if self.interpreter:
            self.part(INTERP, self.interpreter.encode() + b"\0", 1)
        notes = self.notes()
        if notes:
            self.part(NOTE, notes, 4)
        if not elf.static:
            self.dynamic()
        if elf.function:
            self.out += bytes(CODE_AT - len(self.out)) + elf.code
        self.out += elf.data
        end = len(self.out)
        if elf.tls_align is not None:
            self.segments.append((TLS, 4, end, end, 0, 16, elf.tls_align))
        if elf.relro_end is not None:
            self.segments.append((LOAD, 6, 0, 1 << 20, 0, elf.relro_end + 4096, elf.align))
            self.segments.append((RELRO, 4, 0, 1 << 20, 0, elf.relro_end, 1))
        self.segments.insert(0, (LOAD, 5, 0, elf.shift, end, end, elf.align))
        self.out += bytes(elf.padding)
        sections, count = self.sections()
        self.headers(head, step, sections, count)
        return bytes(self.out)

    def part(self, kind: int, data: bytes, align: int) -> int:
        self.out += bytes(-len(self.out) % 8)
        at = len(self.out)
        self.out += data
        self.segments.append((kind, 4, at, at + self.elf.shift, len(data), len(data), align))
        return at

    def notes(self) -> bytes:
        elf = self.elf
        found = b""
        if elf.android_api is not None:
            content = self.pack("I", elf.android_api) + elf.ndk.encode().ljust(64, b"\0") + b"1234567".ljust(64, b"\0")
            found += self.note(b"Android\0", 1, content)
        if elf.build_id is not None:
            found += self.note(b"GNU\0", 3, elf.build_id)
        if elf.x86_needed is not None:
            found += self.note(b"GNU\0", 5, self.pack("IIII", 0xC0008002, 4, elf.x86_needed, 0))
        return found

    def note(self, name: bytes, kind: int, content: bytes) -> bytes:
        return self.pack("III", len(name), len(content), kind) + name + content + bytes(-len(content) % 4)

    def dynamic(self) -> None:
        elf = self.elf
        strings = bytearray(b"\0")
        entries: list[tuple[int, int]] = []
        named = [(1, name) for name in elf.needed]
        named += [(14, elf.soname)] if elf.soname else []
        named += [(29, elf.runpath)] if elf.runpath else []
        for tag, name in named:
            entries.append((tag, len(strings)))
            strings += name.encode() + b"\0"
        symbols = self.symbols(strings)
        table = len(self.out)
        self.out += strings
        pie = [(0x6FFFFFFB, 0x08000000)] if elf.kind == "program" and elf.position_independent else []
        entries += [(5, table + elf.shift), (10, len(strings)), (6, symbols), *elf.tags, *pie, (0, 0)]
        self.part(DYNAMIC, b"".join(self.pack("WW", *entry) for entry in entries), 8)

    def symbols(self, strings: bytearray) -> int:
        """Write the table of symbols: an empty one, what is exported, what is wanted; names go to ``strings``."""
        elf = self.elf
        rows = [(elf.function, 0x12, 1, CODE_AT | elf.odd)] if elf.function else []
        rows += [(name.encode(), 0x12, 1, CODE_AT) for name in elf.has]
        rows += [(name.encode(), 0x12, 0, 0) for name in elf.wants]
        rows += [(name.encode(), 0x22, 0, 0) for name in elf.weak]
        self.out += bytes(-len(self.out) % 8)
        self.table = len(self.out)
        for name, info, section, address in [(b"", 0, 0, 0), *rows]:
            place = len(strings) if name else 0
            strings += name + b"\0" if name else b""
            if self.bits == 64:
                self.out += self.pack("IBBHQQ", place, info, 0, section, address, 8)
            else:
                self.out += self.pack("IIIBBH", place, address, 8, info, 0, section)
        self.table_bytes = len(self.out) - self.table
        return self.table

    def sections(self) -> tuple[int, int]:
        """Write section headers: none, the names, and where asked for a symbol table and debugging information."""
        names = b"\0.shstrtab\0.symtab\0.debug_info\0.dynsym\0"
        at = len(self.out)
        self.out += names
        rows = [(0, 0, 0, 0), (1, 3, at, len(names))]
        rows += [(11, 2, at, 0)] if self.elf.symbols else []
        rows += [(19, 1, at, 4)] if self.elf.debug else []
        rows += [(31, 11, self.table, self.table_bytes)] if self.table_bytes else []
        start = len(self.out)
        for name, kind, offset, size in rows:
            self.out += self.pack("IIWWWWIIWW", name, kind, 0, 0, offset, size, 0, 0, 1, 0)
        return start, len(rows)

    def headers(self, head: int, step: int, sections: int, count: int) -> None:
        elf = self.elf
        ident = b"\x7fELF" + bytes([self.bits // 32, 2 if elf.big_endian else 1, 1]) + bytes(9)
        exe = elf.kind == "program" and not elf.position_independent
        entry = 64 if elf.kind == "program" else 0
        values = {"phnum": len(self.segments), "phentsize": step, "shnum": count, "type": 2 if exe else 3, **elf.extra}
        self.out[:head] = ident + self.pack(
            "HHIWWWIHHHHHH",
            values["type"],
            self.machine,
            1,
            entry,
            head,
            sections,
            0,
            head,
            values["phentsize"],
            values["phnum"],
            64 if self.bits == 64 else 40,
            values["shnum"],
            1,
        )
        for n, (kind, flags, offset, address, in_file, in_memory, align) in enumerate(self.segments):
            if self.bits == 64:
                row = self.pack("IIQQQQQQ", kind, flags, offset, address, address, in_file, in_memory, align)
            else:
                row = self.pack("IIIIIIII", kind, offset, address, address, in_file, in_memory, flags, align)
            self.out[head + n * step : head + (n + 1) * step] = row


def library(name: str, **given: object) -> bytes:
    """Return a shared library for arm64 phones."""
    return Elf(soname=name, **given).bytes()  # type: ignore[arg-type]


def program(**given: object) -> bytes:
    """Return a program for arm64 phones that needs ``libMNN.so``."""
    return Elf(kind="program", **{"needed": ("libMNN.so", "libc.so"), **given}).bytes()  # type: ignore[arg-type]


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files below a folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def build(**given: object) -> dict[str, bytes]:
    """Return a whole bundle without any problem: both of MNN's programs and its engine; ``given`` goes to all three."""
    return {
        "libMNN.so": library("libMNN.so", **{"data": ENGINE, **given}),
        "llm_bench": program(**given),
        "llm_demo": program(**given),
    }
