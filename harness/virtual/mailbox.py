"""What a phone's services and its behaviour tell each other, through two small files of its ``run`` folder.

``now/now.json`` goes in: read-only for the phone, replaced as a whole. ``asked/asked.json`` comes out: written by the
phone's commands, with a number that grows. Whatever stands in it was written by somebody in the phone: nothing of it
is trusted, and what makes no sense is as if it had not been asked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NOW, ASKED, SPEC = "now.json", "asked.json", "spec.json"
_MAX_BYTES = 64 * 1024


def now_folder(run: Path) -> Path:
    """Return the folder that the phone may only read."""
    return run / "now"


def asked_folder(run: Path) -> Path:
    """Return the folder that the phone's commands write."""
    return run / "asked"


class Mailbox:
    """The outer end."""

    def __init__(self, run: Path) -> None:
        self._now = now_folder(run) / NOW
        self._asked = asked_folder(run) / ASKED
        self._seen: tuple[int, int] | None = None
        self.last_number = 0
        """Of the last request that was taken over."""

    def publish(self, state: Mapping[str, Any]) -> None:
        """Tell the phone's services."""
        write_whole(self._now, json.dumps(state, separators=(",", ":")).encode())

    def new_request(self) -> dict[str, Any] | None:
        """Return what was asked since the last call, ``None`` if nothing."""
        try:
            fd = os.open(self._asked, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            status = os.fstat(fd)
            mark = (status.st_mtime_ns, status.st_ino)
            if mark == self._seen or status.st_size > _MAX_BYTES:
                return None
            self._seen = mark
            asked = json.loads(os.read(fd, _MAX_BYTES))
            number = asked["number"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        finally:
            os.close(fd)
        if not isinstance(number, int) or not isinstance(asked, dict):
            return None
        self.last_number = number
        return asked


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file so that no reader sees half of it."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(data)
    fresh.rename(path)
