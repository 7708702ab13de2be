"""What ``probe hash`` and ``probe evict`` print, as values: hashes of files, and what of them is in memory. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.payload.probe_fields import Fields, load_line

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class HashLine:
    """One file that ``probe hash`` told of: size and SHA-256, or why there are none.

    Attributes:
        path: as asked for, or relative to the folder of ``--tree``.
        error: errno name, e.g. ``ENOENT``.
        symlink: it is a symbolic link below ``--tree``, which is not followed.
    """

    path: str
    size: int | None = None
    sha256: str | None = None
    error: str | None = None
    symlink: bool = False


def parse_hash_line(line: bytes) -> HashLine:
    """Read one line of ``probe hash``.

    Raises:
        ValueError: it is none; the sentence says why.
    """
    fields = load_line(line, "a line of probe hash")
    path = fields.text("path")
    if "error" in fields:
        return HashLine(path, error=fields.text("error"))
    if "symlink" in fields:
        return HashLine(path, symlink=True)
    size, sha256 = fields.integer("size"), fields.text("sha256")
    if size < 0 or not _SHA256.fullmatch(sha256):
        raise ValueError(f"a line of probe hash tells no size and SHA-256: {line[:200]!r}")
    return HashLine(path, size=size, sha256=sha256)


@dataclass(frozen=True)
class Residency:
    """The files below a folder and their part in the page cache. Links are not followed and not counted.

    Attributes:
        size_bytes: of all files together.
        resident_bytes: how many of them are in memory; ``None`` when the kernel does not tell it of some file, because
            it belongs to another user (mincore(2), from Linux 5.2 on).
        errors: path → errno name of what could not be looked at. While there is one, nothing is proven.
    """

    size_bytes: int
    resident_bytes: int | None
    errors: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_cold(self) -> bool:
        """Whether there is something to load and all of it has to come from storage."""
        return self.size_bytes > 0 and self.resident_bytes == 0 and not self.errors


def parse_residency(lines: bytes) -> Residency:
    """Read all that ``probe evict`` printed.

    Raises:
        ValueError: a line is none of its lines, or the last one is torn; the sentence says why.
    """
    *whole, torn = lines.split(b"\n")
    if torn:
        raise ValueError(f"the answer of probe evict ends in the middle of a line: {torn[:80]!r}")
    size_bytes, resident_bytes, unknown, errors = 0, 0, False, dict[str, str]()
    for fields in (load_line(line, "a line of probe evict") for line in whole):
        path = fields.text("path")
        if "error" in fields:
            errors[path] = fields.text("error")
        elif "symlink" not in fields:
            size, resident = _sizes(fields)
            size_bytes += size
            resident_bytes += resident or 0
            unknown |= resident is None
    return Residency(size_bytes, None if unknown else resident_bytes, errors)


def _sizes(fields: Fields) -> tuple[int, int | None]:
    size, resident = fields.integer("size"), fields.maybe_integer("resident_bytes")
    if size < 0 or not 0 <= (resident or 0) <= size:
        raise ValueError(f"a line of probe evict tells {resident} of {size} bytes")
    return size, resident
