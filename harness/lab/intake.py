"""A host's store of payloads, by content. What arrives is hashed on its way and appears whole or not at all."""

from __future__ import annotations

import hashlib
import secrets
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from harness.core.errors import ConfigError, FarmError
from harness.core.reasons import Reason
from harness.lab.parcel import CHUNK_BYTES, Parcel
from harness.lab.places import checked_hash, inside

# Whoever sends and falls silent for so long is given up.
SILENCE_S = 60.0
MARGIN_BYTES = 512 * 1024**2
_MOST_FILES = 100_000
_SCRATCH = ".incoming-"
_STALE_S = 24 * 3600


class Answer(Enum):
    """What a host says to a parcel that it is offered."""

    HERE = "here"
    SEND = "send"
    WAIT = "another controller is sending it"


@dataclass
class _Arriving:
    parcel: Parcel
    sender: str
    scratch: Path
    heard: float
    sizes: dict[str, int] = field(default_factory=dict)
    digests: dict[str, Any] = field(default_factory=dict)


class Intake:
    """Takes parcels in. Several controllers may send at once; each parcel is taken from one of them."""

    def __init__(self, root: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._lock = threading.Lock()
        self._arriving: dict[str, _Arriving] = {}
        for left in root.glob(f"{_SCRATCH}*"):
            if time.time() - left.stat().st_mtime > _STALE_S:
                shutil.rmtree(left, ignore_errors=True)

    def place_of(self, parcel_hash: str) -> Path:
        """Return where a parcel lies that is here."""
        return self._root / checked_hash(parcel_hash)

    def offer(self, parcel: Parcel, sender: str) -> Answer:
        """Say whether a parcel is wanted.

        Raises:
            ConfigError: its list of files makes no sense.
            FarmError: there is no room (reason ``host_disk_full``).
        """
        name = parcel.hash
        place = self.place_of(name)
        with self._lock:
            if place.is_dir():
                return Answer.HERE
            arriving = self._arriving.get(name)
            if arriving is not None and arriving.sender != sender and self._clock() - arriving.heard < SILENCE_S:
                return Answer.WAIT
            if arriving is not None:
                shutil.rmtree(arriving.scratch, ignore_errors=True)
            self._arriving[name] = _Arriving(parcel, sender, self._make_room(parcel), self._clock())
            return Answer.SEND

    def _make_room(self, parcel: Parcel) -> Path:
        paths = [file.path for file in parcel.files]
        if not paths or len(paths) > _MOST_FILES or len(set(paths)) < len(paths):
            raise ConfigError("the parcel's list of files is empty, too long or names a file twice")
        free = shutil.disk_usage(self._root).free
        if parcel.size + MARGIN_BYTES > free:
            raise FarmError(
                f"a payload of {parcel.size} bytes does not fit below {self._root}, where {free} bytes are free",
                remedy="make room on this host, or move its cache with MNN_FARM_CACHE",
                reason=Reason.HOST_DISK_FULL,
            )
        scratch = self._root / f"{_SCRATCH}{secrets.token_hex(6)}"
        for folder in {inside(scratch, path).parent for path in paths}:
            folder.mkdir(parents=True, exist_ok=True)
        return scratch

    def put(self, parcel_hash: str, sender: str, path: str, offset: int, data: bytes) -> None:
        """Take the next piece of a file.

        Raises:
            ConfigError: it is not the next piece of a file that was announced, or another controller sends it now.
        """
        with self._lock:
            arriving = self._of(parcel_hash, sender)
            arriving.heard = self._clock()
        file = next((file for file in arriving.parcel.files if file.path == path), None)
        size = arriving.sizes.get(path, 0)
        if file is None or offset != size or len(data) > CHUNK_BYTES or size + len(data) > file.size:
            raise ConfigError(f"{path[:80]}: this is not the piece of it that comes next")
        digest = arriving.digests.setdefault(path, hashlib.sha256())
        with inside(arriving.scratch, path).open("ab") as target:
            target.write(data)
        digest.update(data)
        arriving.sizes[path] = size + len(data)

    def finish(self, parcel_hash: str, sender: str) -> None:
        """Compare what came with what was announced, and put it into its place.

        Raises:
            ConfigError: a file is not whole, or not what was announced (reason ``payload_corrupt``).
        """
        with self._lock:
            arriving = self._of(parcel_hash, sender)
            del self._arriving[parcel_hash]
        try:
            for file in arriving.parcel.files:
                digest = arriving.digests.get(file.path)
                if digest is None or digest.hexdigest() != file.sha256 or arriving.sizes[file.path] != file.size:
                    raise ConfigError(
                        f"{file.path} did not arrive as it was sent", remedy="run again", reason=Reason.PAYLOAD_CORRUPT
                    )
                inside(arriving.scratch, file.path).chmod(0o755 if file.executable else 0o644)
            place = self.place_of(parcel_hash)
            if not place.exists():  # another process of this computer may have been faster
                arriving.scratch.replace(place)
        finally:
            shutil.rmtree(arriving.scratch, ignore_errors=True)

    def _of(self, parcel_hash: str, sender: str) -> _Arriving:
        arriving = self._arriving.get(parcel_hash)
        if arriving is None or arriving.sender != sender:
            raise ConfigError("this parcel is not taken from this sender", remedy="offer it again")
        return arriving
