"""Folders of one kind that mnn-farm keeps in the user's cache: who may write one, and how it appears whole or not."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from harness.core.errors import ConfigError, HostError
from harness.core.resources import cache_dir

_LOCK_S = 3600
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Place:
    """Where folders of a kind are kept, each under its name.

    Attributes:
        kind: what one is called, for people, e.g. ``model``.
        below: the folder's name in the user's cache.
        marker: the file without which a folder is none of them.
        reserved: endings that no name has: files beside the folders have them.
    """

    kind: str
    below: str
    marker: str
    reserved: tuple[str, ...] = ()

    def folder(self) -> Path:
        """Return (and make) the folder in which all of them lie."""
        return cache_dir(self.below)

    def place_of(self, name: str) -> Path:
        """Return the folder that a kept one of this name has."""
        return self.folder() / name

    def kept(self) -> list[str]:
        """Return the names of those that are kept, sorted."""
        return sorted(path.parent.name for path in self.folder().glob(f"[!.]*/{self.marker}"))

    def check_name(self, name: str) -> None:
        """Refuse what is no name.

        Raises:
            ConfigError: it is not.
        """
        if not _NAME.fullmatch(name) or name.endswith(self.reserved):
            raise ConfigError(
                f"{name!r} is no name for a {self.kind}",
                remedy="give one of letters, digits, dots and dashes with --name",
            )

    @contextmanager
    def scratch_of(self, name: str, what: str, say: Callable[[str], None]) -> Iterator[Path]:
        """Give the caller alone a scratch folder beside the place of ``name``; it is removed afterwards.

        Args:
            name: of what is written.
            what: what the caller does, for whoever waits, e.g. ``fetching``.
            say: is told when another process has to be waited for.

        Raises:
            HostError: another process has it for too long, or the disk refuses.
        """
        folder = self.folder()
        lock = FileLock(folder / f".{name}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say(f"another process is {what} {name}; waiting for it")
            try:
                lock.acquire(timeout=_LOCK_S)
            except Timeout:
                raise HostError(f"another process has been {what} {name} for {_LOCK_S} s") from None
        scratch = folder / f".{name}.tmp-{secrets.token_hex(4)}"
        try:
            for left in folder.glob(f".{name}.tmp-*"):  # of a process that was killed: we hold its lock
                shutil.rmtree(left, ignore_errors=True)
            scratch.mkdir()
            yield scratch
        except OSError as error:
            raise HostError(f"{name} cannot be written to {folder} ({error.strerror})") from error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
            lock.release()

    def settle(self, made: Path, name: str, scratch: Path) -> Path:
        """Move a whole folder from ``scratch`` to its place and return that; one that is there goes."""
        place = self.place_of(name)
        if place.exists():
            place.replace(scratch / ".old")  # no name begins with a dot
        made.replace(place)
        return place
