"""Names of functions for frames that a phone could not name: from the unstripped files of the same build."""

from __future__ import annotations

import re
from bisect import bisect_right
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, SymbolTableSection

from harness.triage.readers.crash import Frame

_NESTED = re.compile(r"_ZN[KVr]*(?P<parts>(?:\d+[A-Za-z_]\w*?)+)")


class Symbols:
    """The functions of the ELF files in a folder. A file belongs to a frame by build id, else by its name."""

    def __init__(self, folder: Path) -> None:
        self._by_id: dict[str, Path] = {}
        self._by_name: dict[str, Path] = {}
        self._tables: dict[Path, tuple[list[int], list[tuple[int, str]]]] = {}
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            build_id = _build_id(path)
            if build_id is not None:
                self._by_name.setdefault(path.name, path)
                self._by_id.setdefault(build_id, path)

    def name(self, frame: Frame) -> str | None:
        """Return the function of a frame with its offset, ``None`` when no file of that build is known.

        A frame with a build id is never named from a file with another one: the addresses would not fit.
        """
        if frame.pc is None:
            return None
        name = frame.path.rsplit("/", 1)[-1].rsplit("!", 1)[-1]
        path = self._by_id.get(frame.build_id) if frame.build_id else self._by_name.get(name)
        if path is None:
            return None
        starts, functions = self._table(path)
        place = bisect_right(starts, int(frame.pc, 16)) - 1
        if place < 0:
            return None
        size, function = functions[place]
        offset = int(frame.pc, 16) - starts[place]
        return f"{plain(function)}+{offset}" if offset < max(size, 1) else None

    def _table(self, path: Path) -> tuple[list[int], list[tuple[int, str]]]:
        if path not in self._tables:
            try:
                found = _functions(path)
            except (ELFError, OSError, ValueError, KeyError):  # a broken file names nothing
                found = []
            self._tables[path] = ([start for start, _, _ in found], [(size, name) for _, size, name in found])
        return self._tables[path]


def plain(name: str) -> str:
    """Return a mangled nested name as people write it, ``MNN::Session::resize``; others as they are."""
    match = _NESTED.match(name)
    if match is None:
        return name
    parts, rest = [], match["parts"] + name[match.end() :]
    while (length := re.match(r"\d+", rest)) is not None:
        end = length.end() + int(length[0])
        if end > len(rest):
            return name
        parts.append(rest[length.end() : end])
        rest = rest[end:]
    return "::".join(parts) or name


def _build_id(path: Path) -> str | None:
    """Return a file's build id, ``""`` when it has none, ``None`` when it is no ELF file."""
    try:
        with path.open("rb") as stream:
            if stream.read(4) != b"\x7fELF":
                return None
            for section in ELFFile(stream).iter_sections():
                if isinstance(section, NoteSection):
                    for note in section.iter_notes():
                        if note["n_type"] == "NT_GNU_BUILD_ID":
                            return str(note["n_desc"])
    except (ELFError, OSError, ValueError, KeyError):
        return None
    return ""


def _functions(path: Path) -> list[tuple[int, int, str]]:
    """Return start, size and name of every function, in order of their addresses."""
    found: dict[int, tuple[int, int, str]] = {}
    with path.open("rb") as stream:
        for section in ELFFile(stream).iter_sections():
            if isinstance(section, SymbolTableSection):
                for symbol in section.iter_symbols():
                    entry: Any = symbol.entry
                    if entry["st_info"]["type"] == "STT_FUNC" and entry["st_value"]:
                        start = int(entry["st_value"]) & ~1  # Thumb code has its lowest bit set
                        found.setdefault(start, (start, int(entry["st_size"]), str(symbol.name)))
    return sorted(found.values())
