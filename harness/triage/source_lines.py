"""The line of the source that a place in a program was made of, by the DWARF of its unstripped file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.elf.elffile import ELFFile

# The reader is of Python: of a large library it takes seconds, and a line is only a comfort.
BUDGET_S = 4.0
_MOST_PLACES = 24
# It reads all of them into memory.
_MOST_BYTES = 256 << 20


class SourceLines:
    """Looks lines up, as long as that takes little time in all."""

    def __init__(self, budget_s: float = BUDGET_S) -> None:
        self._left_s = budget_s
        self._left = _MOST_PLACES
        self._read: dict[Path, DWARFInfo | None] = {}

    def at(self, path: Path, place: int) -> str | None:
        """Return file and line, e.g. ``Session.cpp:41``; of inlined code it is its own.

        May raise anything that a reader of ELF files lets out of a broken file.
        """
        if self._left <= 0 or self._left_s <= 0:
            return None
        self._left -= 1
        begun = time.monotonic()
        try:
            if path not in self._read:
                self._read[path] = None  # also where it breaks
                self._read[path] = _dwarf_of(path)
            dwarf = self._read[path]
            return None if dwarf is None else _line_of(dwarf, place, begun + self._left_s)
        finally:
            self._left_s -= time.monotonic() - begun


def _dwarf_of(path: Path) -> DWARFInfo | None:
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        sizes = [section.data_size for section in elf.iter_sections() if section.name.startswith(".debug_")]
        return elf.get_dwarf_info() if sizes and sum(sizes) <= _MOST_BYTES else None


def _line_of(dwarf: DWARFInfo, place: int, until: float) -> str | None:
    for unit in dwarf.iter_CUs():
        if time.monotonic() > until:
            return None
        if any(begin <= place < end for begin, end in _ranges(dwarf, unit)):
            return _in_unit(dwarf, unit, place, until)
    return None


def _ranges(dwarf: DWARFInfo, unit: Any) -> Iterator[tuple[int, int]]:
    """Yield the places that a unit of compilation made code for."""
    told = unit.get_top_DIE().attributes
    base = told["DW_AT_low_pc"].value if "DW_AT_low_pc" in told else 0
    lists = dwarf.range_lists()
    if "DW_AT_ranges" in told and lists is not None:
        entries: list[Any] = lists.get_range_list_at_offset(told["DW_AT_ranges"].value, unit)
        for one in entries:
            if hasattr(one, "base_address"):
                base = one.base_address
            else:
                offset = 0 if one.is_absolute else base
                yield offset + one.begin_offset, offset + one.end_offset
    elif "DW_AT_high_pc" in told:
        high = told["DW_AT_high_pc"]
        yield base, high.value if high.form == "DW_FORM_addr" else base + high.value


def _in_unit(dwarf: DWARFInfo, unit: Any, place: int, until: float) -> str | None:
    program: Any = dwarf.line_program_for_CU(unit)
    before: Any = None
    for entry in program.get_entries() if program is not None else ():
        now = entry.state
        if now is None:
            continue
        if before is not None and not before.end_sequence and before.address <= place < now.address:
            # Since DWARF 5 files count from 0.
            number = before.file - (0 if program["version"] >= 5 else 1)
            name = program["file_entry"][number].name.decode("utf-8", "replace")
            return f"{name.rpartition('/')[2]}:{before.line}" if before.line else None
        before = now
        if time.monotonic() > until:
            return None
    return None
