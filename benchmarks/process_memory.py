"""The most memory that a tree of processes held at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType

import psutil

EVERY_S = 1.0
# A look at many processes takes the kernel a while; so much of the time may go into looking.
_SHARE = 0.03


class Tree:
    """Looks at some processes and all below them, from time to time, while it is entered.

    Memory is PSS: what processes share counts once, divided among them.

    Attributes:
        most_bytes: the most that they held together.
        most_processes: the most that there were.
        looks: how often it was looked.
    """

    def __init__(self, roots: Sequence[psutil.Process]) -> None:
        self.most_bytes = self.most_processes = self.looks = 0
        self._roots = roots
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> Tree:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            begun = time.monotonic()
            held = [pss for one in self._processes() if (pss := pss_of(one)) is not None]
            self.most_bytes = max(self.most_bytes, sum(held))
            self.most_processes = max(self.most_processes, len(held))
            self.looks += 1
            if self._over.wait(max(EVERY_S, (time.monotonic() - begun) / _SHARE)):
                return

    def _processes(self) -> list[psutil.Process]:
        found = list(self._roots)
        for root in self._roots:
            try:
                found += root.children(recursive=True)
            except psutil.NoSuchProcess:
                continue
        return found


def pss_of(process: psutil.Process) -> int | None:
    """Return the PSS of a process in bytes, ``None`` if it is gone or may not be looked at."""
    try:
        return int(process.memory_full_info().pss)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None
