"""``df``: as toybox prints it, with the phone's own size for ``/data``.

What is used there is what the phone's files take. Only this command knows the size: a program that asks the kernel, and
a write that would exceed it, meet the PC's own disk.
"""

from __future__ import annotations

import os

from .store import Store, complain, say

SYSTEM_KB, BLOCK = 3_212_288, 512
_PLACES = (("/data/", "/dev/block/dm-42", "/data"), ("/sdcard", "/dev/fuse", "/storage/emulated"),
           ("/storage/", "/dev/fuse", "/storage/emulated"))  # fmt: skip


def run(_name: str, arguments: list[str]) -> int:
    """Answer ``df [-k|-h] [PATH…]``."""
    human = any(word.startswith("-") and "h" in word for word in arguments)
    paths = [word for word in arguments if not word.startswith("-")] or ["/", "/data/"]
    data_kb = int(Store().spec["data_kb"])
    unit = "Size" if human else "1K-blocks"
    say(f"{'Filesystem':<16} {unit:>10} {'Used':>10} {'Available':>10} Use% Mounted on")
    code = 0
    for path in paths:
        if not os.path.lexists(path):
            complain(f"df: {path}: No such file or directory")
            code = 1
            continue
        device, place, total, used = _system(path, data_kb)
        left = max(0, total - used)
        sizes = [_human(size) if human else str(size) for size in (total, used, left)]
        say(f"{device:<16} {sizes[0]:>10} {sizes[1]:>10} {sizes[2]:>10} {100 * used // total:>3}% {place}")
    return code


def _system(path: str, data_kb: int) -> tuple[str, str, int, int]:
    for start, device, place in _PLACES:
        if f"{path}/".startswith(start) or path == start:
            return device, place, data_kb, used_kb("/data")
    return "/dev/block/dm-7", "/", SYSTEM_KB, SYSTEM_KB


def used_kb(folder: str) -> int:
    """Return what the files below ``folder`` take, holes not counted."""
    total = 0
    for place, _folders, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(f"{place}/{name}").st_blocks * BLOCK
            except OSError:
                continue
    return total // 1024


def _human(kb: int) -> str:
    size, units = float(kb), iter("KMGT")
    unit = next(units)
    while size >= 1024 and unit != "T":
        size, unit = size / 1024, next(units)
    return f"{size:.1f}{unit}" if size < 10 else f"{size:.0f}{unit}"
