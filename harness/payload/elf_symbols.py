"""The symbols by which programs and libraries find each other's functions."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from harness.payload.elf_image import ElfImage

_WEAK = 2
#: A damaged file must not keep us busy.
_MOST_BYTES = 1 << 26
_LONGEST_NAME = 1 << 14


@dataclass(frozen=True)
class Symbol:
    """A name in the table of the dynamic linker, as it stands there.

    Attributes:
        name: mangled, as compilers do for C++.
        address: where it is, 0 where it is another file's.
        wanted: whether another file has to have it.
    """

    name: bytes
    address: int
    wanted: bool


def symbols(image: ElfImage) -> Iterator[Symbol]:
    """Yield the dynamic symbols; none where the file has no section headers, which alone tell how many there are.

    Raises:
        BROKEN: the tables make no sense.
    """
    if image.dynamic_symbols is None:
        return
    dynamic = image.dynamic()
    size = min(dynamic.numbers("DT_STRSZ")[0], _MOST_BYTES)
    names = image.bytes_at(image.offset_of(dynamic.numbers("DT_STRTAB")[0]), size)
    form = struct.Struct(("<" if image.little_endian else ">") + ("IBBHQQ" if image.bits == 64 else "IIIBBH"))
    start, count = image.dynamic_symbols
    table = image.bytes_at(start, min(count, _MOST_BYTES))
    for row in form.iter_unpack(table[: len(table) // form.size * form.size]):
        if image.bits == 64:
            place, info, _, section, address, _ = row
        else:
            place, address, _, info, _, section = row
        end = names.find(b"\0", place, place + _LONGEST_NAME)
        if 0 < place < end:
            yield Symbol(names[place:end], address, section == 0 and info >> 4 != _WEAK)
