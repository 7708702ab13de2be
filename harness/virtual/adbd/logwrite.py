"""How a line gets into the phone's log. It imports next to nothing, because ``log`` is started for every line.

A ring is two files: when the younger half is full it becomes the older one, and the older one is forgotten.
"""

from __future__ import annotations

import fcntl
import os
import time

BUFFERS = ("main", "system", "radio", "events", "crash", "kernel")
LEVELS = "VDIWEFS"
CAPACITY_BYTES = 256 * 1024
"""As on phones: 256 KiB a buffer."""


def format_line(when_s: float, pid: int, tid: int, level: str, tag: str, text: str) -> str:
    """Return one line as ``logcat -v threadtime`` prints it (liblog's ``%5d %5d %c %-8s: ``)."""
    whole, millis = divmod(int(when_s * 1000), 1000)
    stamp = time.strftime("%m-%d %H:%M:%S", time.localtime(whole))
    return f"{stamp}.{millis:03d} {pid:>5} {tid:>5} {level} {tag:<8}: {text}\n"


def check_buffer(buffer: str) -> None:
    """Raise a ValueError for a buffer that phones do not have."""
    if buffer not in BUFFERS:
        raise ValueError(f"{buffer!r} is not a log buffer; choose one of {', '.join(BUFFERS)}")


def lock(folder: str) -> int:
    """Wait for the ring in ``folder`` and return the descriptor that has it to itself until it is closed."""
    fd = os.open(f"{folder}/.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def append(
    folder: str,
    tag: str,
    level: str,
    ids: tuple[int, int],
    text: str,
    *,
    buffer: str = "main",
    when_s: float | None = None,
    half_bytes: int = CAPACITY_BYTES // 2,
) -> None:
    """Add a message to the ring in ``folder``; ``ids`` are the numbers of the process and thread that say it.

    Raises:
        ValueError: there is no such level or buffer.
        OSError: the folder is not there.
    """
    if level not in LEVELS or len(level) != 1:
        raise ValueError(f"{level!r} is not a level of logcat; choose one of {', '.join(LEVELS)}")
    check_buffer(buffer)
    moment = time.time() if when_s is None else when_s
    lines = [format_line(moment, *ids, level, tag, line) for line in text.split("\n")]
    young = f"{folder}/{buffer}"
    held = lock(folder)
    try:
        out = os.open(young, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        if os.fstat(out).st_size >= half_bytes:
            os.close(out)
            os.rename(young, f"{young}.old")  # noqa: PTH104  pathlib doubles the time to start
            out = os.open(young, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            os.write(out, "".join(lines).encode("utf-8", "surrogateescape"))
        finally:
            os.close(out)
    finally:
        os.close(held)
