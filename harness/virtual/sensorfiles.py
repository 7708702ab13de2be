"""Rewrites the phone's files under ``/sys`` and ``/proc`` in place, because readers keep them open and read again.

A file never shrinks: a shorter text is filled up with line breaks, so that no reader sees a torn or empty value.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


class SensorFiles:
    """Files below one root, each written only when its text changes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._held: dict[str, str] = {}

    def put(self, path: str, text: str) -> None:
        """Let the phone's file ``path`` hold ``text``. A file that is not there or may not be read is left alone.

        Raises:
            OSError: it cannot be written.
        """
        if self._held.get(path) == text:
            return
        self._held[path] = text
        place = self._root / path.lstrip("/")
        try:
            mode = stat.S_IMODE(place.stat().st_mode)
        except FileNotFoundError:
            return
        if not mode & stat.S_IRUSR:
            return
        write_in_place(place, mode, text.encode())


def write_in_place(place: Path, mode: int, data: bytes) -> None:
    """Overwrite a file in one call. Files that are read-only for the phone are ours nevertheless."""
    try:
        fd = os.open(place, os.O_WRONLY | os.O_CLOEXEC)
    except PermissionError:
        place.chmod(mode | stat.S_IWUSR)
        fd = os.open(place, os.O_WRONLY | os.O_CLOEXEC)
        place.chmod(mode)
    try:
        os.pwrite(fd, data.ljust(os.fstat(fd).st_size, b"\n"), 0)
    finally:
        os.close(fd)
