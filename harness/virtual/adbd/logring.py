"""The phone's log: one ring of text lines per buffer, in logcat's ``threadtime`` format, shared between processes.

It needs the standard library only, because both the phone's own ``logcat`` and the processes outside use it.
A ring is two files: when the younger half is full it becomes the older one, and the older one is forgotten.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

BUFFERS = ("main", "system", "radio", "events", "crash", "kernel")
DEFAULT_BUFFERS = ("main", "system", "crash")
"""What ``logcat`` shows when it is not told."""
LEVELS = "VDIWEFS"
CAPACITY_BYTES = 256 * 1024
"""As on phones: 256 KiB a buffer."""
_STAMP_CHARS = len("MM-DD HH:MM:SS.mmm")


def format_line(when_s: float, pid: int, tid: int, level: str, tag: str, text: str) -> str:
    """Return one line as ``logcat -v threadtime`` prints it (liblog's ``%5d %5d %c %-8s: ``)."""
    whole, millis = divmod(int(when_s * 1000), 1000)
    stamp = time.strftime("%m-%d %H:%M:%S", time.localtime(whole))
    return f"{stamp}.{millis:03d} {pid:>5} {tid:>5} {level} {tag:<8}: {text}\n"


class LogRing:
    """All buffers of one phone, in a folder. Any process that sees the folder may append."""

    def __init__(self, folder: Path, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self.folder = folder
        self._half = max(1, capacity_bytes // 2)

    def append(
        self, tag: str, level: str, pid: int, tid: int, text: str, *, buffer: str = "main", when_s: float | None = None
    ) -> None:
        """Add a message; each line of ``text`` gets a header of its own, as logcat prints it.

        Args:
            tag: who says it.
            level: one of V, D, I, W, E, F.
            pid: the process that says it, as the phone numbers it.
            tid: its thread.
            text: what it says.
            buffer: one of :data:`BUFFERS`; crashes go to ``crash``.
            when_s: seconds since 1970, default now.

        Raises:
            ValueError: there is no such level or buffer.
            OSError: the folder is not there.
        """
        if level not in LEVELS or len(level) != 1:
            raise ValueError(f"{level!r} is not a level of logcat; choose one of {', '.join(LEVELS)}")
        _check_buffer(buffer)
        moment = time.time() if when_s is None else when_s
        lines = [format_line(moment, pid, tid, level, tag, line) for line in text.split("\n")]
        data = "".join(lines).encode("utf-8", "surrogateescape")
        with self._locked():
            young = self.folder / buffer
            with contextlib.suppress(FileNotFoundError):
                if young.stat().st_size >= self._half:
                    young.rename(self.folder / f"{buffer}.old")
            with young.open("ab") as file:
                file.write(data)

    def lines(self, buffers: Iterable[str] = DEFAULT_BUFFERS) -> list[tuple[str, bytes]]:
        """Return what is kept, oldest first, as ``(buffer, line)``; lines end with a newline.

        Raises:
            ValueError: there is no such buffer.
        """
        found: list[tuple[str, bytes]] = []
        with self._locked():
            for buffer in buffers:
                _check_buffer(buffer)
                for name in (f"{buffer}.old", buffer):
                    with contextlib.suppress(FileNotFoundError):
                        found += [
                            (buffer, line) for line in (self.folder / name).read_bytes().splitlines(keepends=True)
                        ]
        return sorted(found, key=lambda pair: pair[1][:_STAMP_CHARS])

    def size_bytes(self, buffer: str) -> int:
        """Return how much of ``buffer`` is used."""
        return sum(
            path.stat().st_size for path in self.folder.glob(f"{buffer}*") if path.name.partition(".")[0] == buffer
        )

    def clear(self, buffers: Iterable[str] = DEFAULT_BUFFERS) -> None:
        """Forget what is kept.

        Raises:
            ValueError: there is no such buffer.
        """
        with self._locked():
            for buffer in buffers:
                _check_buffer(buffer)
                for name in (f"{buffer}.old", buffer):
                    (self.folder / name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        fd = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def _check_buffer(buffer: str) -> None:
    if buffer not in BUFFERS:
        raise ValueError(f"{buffer!r} is not a log buffer; choose one of {', '.join(BUFFERS)}")
