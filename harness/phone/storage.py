"""``df``: size and free bytes of a file system. Pure.

Toybox (Android 6 and later) and busybox print POSIX columns, in blocks of 1024 unless the heading says otherwise, and
may break a line after a long device name. Toolbox, before, prints sizes with a letter (``12.0G``), and older ones yet a
sentence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNITS = {"": 1, "B": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_SIZE = r"(\d+(?:\.\d+)?)([KMGT]?)i?B?"
_POSIX = re.compile(rf"(?:^|\s){_SIZE}\s+(-?\S+)\s+{_SIZE}\s+\d+%\s+(/.*?)\s*$", re.MULTILINE)
_BLOCKS = re.compile(r"\b(\d+)(K?)-blocks\b")
_TOOLBOX = re.compile(rf"^(/\S*)\s+{_SIZE}\s+\S+\s+{_SIZE}\s+\d+\s*$", re.MULTILINE)
_SENTENCE = re.compile(rf"^(/.*?): {_SIZE} total, \S+ used, {_SIZE} available", re.MULTILINE)


@dataclass(frozen=True)
class Storage:
    """Size and room for ordinary users, in bytes; ``None`` is unknown, for the reason ``why``."""

    total_bytes: int | None
    free_bytes: int | None
    why: str = ""


def parse_df(data: bytes, path: str) -> Storage:
    """Read what ``df PATH`` printed, complaints included; never raises, whatever the phone sent."""
    text = data.decode("utf-8", "replace").replace("\r", "")
    rows = _rows(text)
    # A df that does not know the argument lists everything: the longest mount point above the path holds it.
    held = [row for row in rows if f"{path}/".startswith(f"{row[0].rstrip('/')}/")]
    chosen = max(held, key=lambda row: len(row[0])) if held else rows[0] if len(rows) == 1 else None
    if chosen is None:
        said = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("Filesystem")]
        return Storage(None, None, f"df says {said[0][:120]!r}" if said else "df says nothing")
    _mount, total, free = chosen
    if total <= 0 or free > total:
        return Storage(None, None, f"df says that {free} of {total} bytes are free, which cannot be")
    return Storage(total, free)


def _rows(text: str) -> list[tuple[str, int, int]]:
    """Return mount point, size and free bytes of every line."""
    blocks = _BLOCKS.search(text)
    block = int(blocks[1]) * _UNITS[blocks[2]] if blocks else 1024
    rows = [
        (match[6], _bytes(match[1], match[2], block), _bytes(match[4], match[5], block))
        for match in _POSIX.finditer(text)
    ]
    for pattern in (_TOOLBOX, _SENTENCE):
        rows += [(m[1], _bytes(m[2], m[3], 1), _bytes(m[4], m[5], 1)) for m in pattern.finditer(text)]
    return rows


def _bytes(number: str, unit: str, block: int) -> int:
    return round(float(number) * (_UNITS[unit] if unit else block))
