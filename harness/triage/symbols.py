"""Names of functions for frames that a phone could not name: from the unstripped files of the same build."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.common.exceptions import DWARFError, ELFError
from elftools.construct import ConstructError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, SymbolTableSection

from harness.triage.demangle import plain
from harness.triage.readers.crash import Frame
from harness.triage.source_lines import SourceLines

# What the reader of ELF files lets out of a file that is none: it trusts every number in it.
_BROKEN = (
    ELFError, DWARFError, ConstructError, OSError, ValueError, LookupError, TypeError, AttributeError, AssertionError,
    ArithmeticError, MemoryError, RecursionError, struct.error,
)  # fmt: skip
# A function in assembler often does not tell its size: it goes to the next one, but not further than this.
_LONGEST_UNTOLD = 1 << 16
_DIGITS_OF_32_BITS = 8


@dataclass(frozen=True)
class _File:
    """An ELF file: its build id, ``""`` for none, and its word size."""

    path: Path
    build_id: str
    bits: int


class Symbols:
    """The functions of the ELF files in a folder. Files belong to a frame by build id, else by its name.

    ``lines``: whether to look for the lines of their source too, which takes seconds and memory.

    Attributes:
        others: libraries of which only other builds are there: their names, and the build ids of frames.
    """

    def __init__(self, folder: Path, *, lines: bool = True) -> None:
        self._files = [file for path in sorted(folder.rglob("*")) if (file := _read_head(path)) is not None]
        self._tables: dict[Path, list[tuple[int, int, str]]] = {}
        self._lines = SourceLines() if lines else None
        self.others: dict[str, str] = {}

    def name(self, frame: Frame) -> str | None:
        """Return the function of a frame with its offset and its line, e.g. ``main+4 at main.cpp:12``.

        It is ``None`` when no file of that build is known, and without a line where none has DWARF.

        A frame with a build id is never named from a file with another one: the addresses would not fit.
        """
        if frame.pc is None:
            return None
        library = frame.path.rsplit("/", 1)[-1].rsplit("!", 1)[-1]
        files = self._of(library, frame.build_id, frame.pc)
        if not files and frame.build_id and any(file.path.name == library for file in self._files):
            self.others[library] = frame.build_id
        place = int(frame.pc, 16)
        found = [one for file in files if (one := self._function_at(file.path, place)) is not None]
        if not found:
            return None
        # Of the same build the unstripped file knows more: a stripped one may take a neighbour for it.
        start, function = max(found)
        named = f"{plain(function)}+{place - start}"
        line = self._line_at(files, place)
        return named if line is None else f"{named} at {line}"

    def _of(self, library: str, build_id: str | None, pc: str) -> list[_File]:
        """Return the files of a frame's build, stripped ones among them."""
        if build_id:
            return [file for file in self._files if file.build_id == build_id]
        bits = {32} if len(pc) == _DIGITS_OF_32_BITS else {32, 64}
        files = [file for file in self._files if file.path.name == library and file.bits in bits]
        # Which of several builds it is cannot be known.
        return files if len({(file.build_id, file.bits) for file in files}) == 1 else []

    def _line_at(self, files: list[_File], place: int) -> str | None:
        for file in files:
            with suppress(*_BROKEN):
                line = self._lines.at(file.path, place) if self._lines is not None else None
                if line is not None:
                    return line
        return None

    def _function_at(self, path: Path, place: int) -> tuple[int, str] | None:
        if path not in self._tables:
            self._tables[path] = _functions(path)
        functions = self._tables[path]
        index = bisect_right(functions, place, key=lambda one: one[0]) - 1
        if index < 0:
            return None
        start, size, function = functions[index]
        return (start, function) if place < start + max(size, 1) else None


def _read_head(path: Path) -> _File | None:
    """Return what a file is, ``None`` when it is no ELF file."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            if stream.read(4) != b"\x7fELF":
                return None
            elf = ELFFile(stream)
            return _File(path, _build_id(elf), elf.elfclass)
    except _BROKEN:
        return None


def _build_id(elf: ELFFile) -> str:
    for section in elf.iter_sections():
        if isinstance(section, NoteSection):
            for note in section.iter_notes():
                if note["n_type"] == "NT_GNU_BUILD_ID":
                    return str(note["n_desc"])
    return ""


def _functions(path: Path) -> list[tuple[int, int, str]]:
    """Return start, size and name of every function, in order of their addresses; a broken file names none."""
    found: dict[int, tuple[int, str]] = {}
    try:
        with path.open("rb") as stream:
            for start, size, name in _symbols(ELFFile(stream)):
                if start not in found or size > found[start][0]:
                    found[start] = (size, name)
    except _BROKEN:
        return []
    starts = sorted(found)
    sizes = [
        found[start][0] or min(_LONGEST_UNTOLD, following - start)
        for start, following in zip(starts, [*starts[1:], starts[-1] + _LONGEST_UNTOLD] if starts else [], strict=True)
    ]
    return [(start, size, found[start][1]) for start, size in zip(starts, sizes, strict=True)]


def _symbols(elf: ELFFile) -> Iterator[tuple[int, int, str]]:
    # Thumb code has its lowest bit set; on other processors it belongs to the address.
    mask = ~1 if elf["e_machine"] == "EM_ARM" else ~0
    for section in elf.iter_sections():
        if isinstance(section, SymbolTableSection):
            for symbol in section.iter_symbols():
                entry: Any = symbol.entry
                if entry["st_info"]["type"] == "STT_FUNC" and entry["st_shndx"] != "SHN_UNDEF" and entry["st_value"]:
                    yield int(entry["st_value"]) & mask, int(entry["st_size"]), str(symbol.name)
