"""Whether the files of a bundle are of one build: what one wants of MNN, another has to have.

Android's linker looks every function up before a program's first instruction; one that is nowhere ends it with
``cannot locate symbol``. What a phone's own libraries have is not known here; what is MNN's can only be in the bundle.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.payload.elf import ElfFile
from harness.payload.elf_image import BROKEN, ElfImage
from harness.payload.elf_symbols import symbols

#: What stands in C++'s namespace MNN, by how its mangled name begins.
_OF_MNN = (b"_ZN3MNN", b"_ZNK3MNN")
_PREFIX = re.compile(rb"_ZNK?")
_LENGTH = re.compile(rb"\d{1,5}")


@dataclass(frozen=True)
class Unresolved:
    """A file of a bundle, and the functions of MNN that it wants and no file has, as people write them."""

    file: str
    functions: tuple[str, ...]


def unresolved(files: Mapping[str, ElfFile]) -> Iterator[Unresolved]:
    """Yield each of ``files`` (by name) that wants what none of them has; nothing where not all tell what they have."""
    wanted: dict[str, list[bytes]] = {}
    has: set[bytes] = set()
    for name, elf in files.items():
        try:
            with elf.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                image = ElfImage(data)
                of_mnn = [symbol for symbol in symbols(image) if symbol.name.startswith(_OF_MNN)]
        except (OSError, EOFError, *BROKEN):
            return
        if image.dynamic_symbols is None and not elf.static:
            return
        wanted[name] = [symbol.name for symbol in of_mnn if symbol.wanted]
        has |= {symbol.name for symbol in of_mnn if symbol.address}
    for name, functions in wanted.items():
        nowhere = [function for function in functions if function not in has]
        if nowhere:
            yield Unresolved(name, tuple(dict.fromkeys(readable(function) for function in nowhere)))


def readable(mangled: bytes) -> str:
    """Return the name in a mangled one, without its arguments: ``_ZN3MNN6Tensor4hostEv`` is ``MNN::Tensor::host``."""
    start = _PREFIX.match(mangled)
    at = start.end() if start else 0
    parts = []
    while length := _LENGTH.match(mangled, at):
        end = length.end() + int(length[0])
        parts.append(mangled[length.end() : end].decode("utf-8", "backslashreplace"))
        at = end
    if mangled[at : at + 1] in (b"C", b"D") and parts:
        parts.append(parts[-1] if mangled[at : at + 1] == b"C" else f"~{parts[-1]}")
    return "::".join(parts) or mangled.decode("utf-8", "backslashreplace")
