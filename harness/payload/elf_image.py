"""The tables of a mapped ELF file, read by pyelftools' formats and never beyond the file or a sane length."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from mmap import mmap
from typing import IO, Any, cast

from elftools.common.exceptions import ELFError
from elftools.common.utils import struct_parse
from elftools.construct import ConstructError
from elftools.elf.structs import ELFStructs

#: What pyelftools and we raise over a damaged file.
BROKEN = (ELFError, ConstructError, struct.error, ValueError, LookupError, TypeError, ArithmeticError, AttributeError)

#: Far more than any linker writes; a damaged count must not keep us busy.
_MOST_SEGMENTS = 256
_MOST_SECTIONS = 8192
_MOST_TAGS = 2048
_LONGEST_NAME = 4096
_DEBUG_SECTIONS = (b".debug_info\0", b".zdebug_info\0")


def printable(text: str) -> str:
    """Return a text with what cannot be shown, or would move a terminal's cursor, escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@dataclass(frozen=True)
class Segment:
    """One program header: what of the file goes where in memory, in bytes."""

    type: str | int
    offset: int
    file_bytes: int
    address: int
    memory_bytes: int
    align: int
    writable: bool


class Dynamic:
    """The dynamic section: numbers by tag and the strings that they point to."""

    def __init__(self, entries: Sequence[tuple[str | int, int]], image: ElfImage) -> None:
        self._entries = entries
        self._image = image
        self.tags = frozenset(tag for tag, _ in entries)

    def has(self, tag: str) -> bool:
        """Whether there is an entry with this tag."""
        return tag in self.tags

    def numbers(self, tag: str) -> tuple[int, ...]:
        """Return the values of all entries with this tag."""
        return tuple(value for name, value in self._entries if name == tag)

    def strings(self, tag: str) -> tuple[str, ...]:
        """Return the strings of all entries with this tag."""
        places = self.numbers(tag)
        if not places:
            return ()
        table = self.numbers("DT_STRTAB")
        if not table:
            raise ValueError("its dynamic section names no table of strings")
        start = self._image.offset_of(table[0])
        end = start + next(iter(self.numbers("DT_STRSZ")), self._image.size)
        return tuple(self._image.string(start + place, end) for place in places)


class ElfImage:
    """One mapped file.

    Attributes:
        size: of the file in bytes.
        bits: 32 or 64.
        type: ``ET_EXEC`` for a program with a fixed address, ``ET_DYN`` for what can be loaded anywhere.
        segments: all, ``loads`` those that are loaded.
        has_symbols: it has a table of symbols for debuggers.
        has_debug_info: it has debugging information.
        dynamic_symbols: offset and size in bytes of the table of symbols for the dynamic linker, where sections tell.

    Raises:
        EOFError: the file ends before what its headers name.
        BROKEN: the headers make no sense.
    """

    def __init__(self, data: mmap) -> None:
        self._data = data
        self._file = cast(IO[bytes], data)  # pyelftools is typed for ordinary files, but only reads and seeks
        self.size = len(data)
        bits, order = data[4:5], data[5:6]
        if bits not in (b"\x01", b"\x02") or order not in (b"\x01", b"\x02"):
            raise ValueError("its first bytes name no word size or byte order")
        self.bits = 32 if bits == b"\x01" else 64
        self.little_endian = order == b"\x01"
        self._structs: Any = ELFStructs(little_endian=self.little_endian, elfclass=self.bits)
        self._structs.create_basic_structs()
        self._within(0, 64 if self.bits == 64 else 52, "its header goes")
        header = struct_parse(self._structs.Elf_Ehdr, self._file, 0)
        self._structs.create_advanced_structs(header.e_type, header.e_machine, header.e_ident.EI_OSABI)
        self.type: str | int = header.e_type
        self.machine: str | int = header.e_machine
        self.entry: int = header.e_entry
        if self.type not in ("ET_EXEC", "ET_DYN"):
            raise ValueError("it is not linked (an object file?)" if self.type == "ET_REL" else "it cannot be loaded")
        self.segments = tuple(self._segments(header))
        self.loads = tuple(segment for segment in self.segments if segment.type == "PT_LOAD")
        if not self.loads:
            raise ValueError("nothing of it would be loaded")
        self.has_symbols = self.has_debug_info = False
        self.dynamic_symbols: tuple[int, int] | None = None
        self._sections(header)

    def bytes_of(self, segment: Segment, most: int) -> bytes:
        """Return the first ``most`` bytes of a segment."""
        return self._data[segment.offset : segment.offset + min(segment.file_bytes, most)]

    def bytes_at(self, start: int, count: int) -> bytes:
        """Return bytes of the file, fewer where it ends."""
        return self._data[start : start + count]

    def string(self, start: int, end: int) -> str:
        """Return the string at ``start``, which ends with a zero before ``end``; what cannot be shown is escaped."""
        stop = self._data.find(b"\0", start, min(end, start + _LONGEST_NAME, self.size))
        if start < 0 or stop < 0:
            raise ValueError("a name in it has no end")
        return printable(self._data[start:stop].decode("utf-8", "backslashreplace"))

    def offset_of(self, address: int) -> int:
        """Return where in the file the byte lies that is loaded at an address."""
        for segment in self.loads:
            if segment.address <= address < segment.address + segment.file_bytes:
                return segment.offset + address - segment.address
        raise ValueError(f"address {address:#x} lies in no segment")

    def interpreter(self) -> str | None:
        """Return the dynamic linker that it asks for."""
        for segment in self.segments:
            if segment.type == "PT_INTERP":
                return self.string(segment.offset, segment.offset + segment.file_bytes)
        return None

    def dynamic(self) -> Dynamic:
        """Return its dynamic section, which may be empty."""
        entries: list[tuple[str | int, int]] = []
        for segment in self.segments:
            if segment.type == "PT_DYNAMIC":
                entries += self._tags(segment)
        return Dynamic(entries, self)

    def _tags(self, segment: Segment) -> Iterator[tuple[str | int, int]]:
        step = self._structs.Elf_Dyn.sizeof()
        for n in range(segment.file_bytes // step):
            if n == _MOST_TAGS:
                raise ValueError("its dynamic section has no end")
            entry = struct_parse(self._structs.Elf_Dyn, self._file, segment.offset + n * step)
            if entry.d_tag == "DT_NULL":
                return
            yield entry.d_tag, entry.d_val

    def _segments(self, header: Any) -> Iterator[Segment]:
        step = self._structs.Elf_Phdr.sizeof()
        if header.e_phnum and header.e_phentsize != step:
            raise ValueError(f"its program headers have {header.e_phentsize} bytes instead of {step}")
        if header.e_phnum > _MOST_SEGMENTS:
            raise ValueError(f"it claims to have {header.e_phnum} segments")
        self._within(header.e_phoff, header.e_phnum * step, "its program headers go")
        for n in range(header.e_phnum):
            found = struct_parse(self._structs.Elf_Phdr, self._file, header.e_phoff + n * step)
            align = found.p_align
            if found.p_type == "PT_LOAD" and align & (align - 1):
                raise ValueError(f"a segment is aligned to {align}, which is no power of two")
            if found.p_type in ("PT_LOAD", "PT_DYNAMIC", "PT_INTERP", "PT_NOTE"):
                self._within(found.p_offset, found.p_filesz, "what is loaded of it goes")
            yield Segment(
                type=found.p_type,
                offset=found.p_offset,
                file_bytes=found.p_filesz,
                address=found.p_vaddr,
                memory_bytes=found.p_memsz,
                align=align,
                writable=bool(found.p_flags & 2),
            )

    def _sections(self, header: Any) -> None:
        """Read what only the section headers tell; phones read none of it, and a file may do without."""
        step = self._structs.Elf_Shdr.sizeof()
        if not header.e_shoff or not header.e_shnum:
            return
        if header.e_shentsize != step or header.e_shnum > _MOST_SECTIONS:
            raise ValueError(f"it claims to have {header.e_shnum} sections of {header.e_shentsize} bytes")
        self._within(header.e_shoff, header.e_shnum * step, "its section headers go")
        sections = [
            struct_parse(self._structs.Elf_Shdr, self._file, header.e_shoff + n * step) for n in range(header.e_shnum)
        ]
        self.has_symbols = any(section.sh_type == "SHT_SYMTAB" for section in sections)
        dynamic = next((section for section in sections if section.sh_type == "SHT_DYNSYM"), None)
        if dynamic is not None:
            self._within(dynamic.sh_offset, dynamic.sh_size, "its table of symbols goes")
            self.dynamic_symbols = (dynamic.sh_offset, dynamic.sh_size)
        if header.e_shstrndx < len(sections):
            names = sections[header.e_shstrndx]
            self._within(names.sh_offset, names.sh_size, "the names of its sections go")
            table = self.bytes_at(names.sh_offset, min(names.sh_size, 1 << 20))
            self.has_debug_info = any(table.startswith(_DEBUG_SECTIONS, section.sh_name) for section in sections)

    def _within(self, start: int, count: int, what: str) -> None:
        if start + count > self.size:
            raise EOFError(f"it has {self.size} bytes and {what} to byte {start + count}")
