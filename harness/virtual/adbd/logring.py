"""The phone's log: one ring of text lines per buffer, in logcat's ``threadtime`` format, shared between processes.

It needs the standard library only, because both the phone's own ``logcat`` and the processes outside use it. How lines
get in is in :mod:`harness.virtual.adbd.logwrite`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from .logwrite import CAPACITY_BYTES, append, check_buffer, lock

DEFAULT_BUFFERS = ("main", "system", "crash")
"""What ``logcat`` shows when it is not told."""
_STAMP_CHARS = len("MM-DD HH:MM:SS.mmm")


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
        append(str(self.folder), tag, level, (pid, tid), text, buffer=buffer, when_s=when_s, half_bytes=self._half)

    def lines(self, buffers: Iterable[str] = DEFAULT_BUFFERS) -> list[tuple[str, bytes]]:
        """Return what is kept, oldest first, as ``(buffer, line)``; lines end with a newline.

        Raises:
            ValueError: there is no such buffer.
        """
        found: list[tuple[str, bytes]] = []
        with self._locked():
            for buffer in buffers:
                check_buffer(buffer)
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
                check_buffer(buffer)
                for name in (f"{buffer}.old", buffer):
                    (self.folder / name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        fd = lock(str(self.folder))
        try:
            yield
        finally:
            os.close(fd)
