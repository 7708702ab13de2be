"""What a host keeps of an order until the controller has it: a run folder of its own, so that a lost controller or
network costs nothing that was measured. What was taken is removed."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from harness.core.errors import ConfigError
from harness.lab.order import Item, Order, RawFile
from harness.lab.places import checked_id, inside
from harness.store.runfolder import RunFolder, write_atomically

# Raw output of one attempt beyond this stays behind; a golden set's answers are below one MiB.
MOST_RAW_BYTES = 256 * 1024**2
MOST_RAW_FILES = 500
# So much is sent along with a record; larger files are asked for piece by piece.
SMALL_BYTES = 2 * 1024**2
_KEPT_S = 30 * 24 * 3600


@dataclass(frozen=True)
class Spool:
    """The spool of one order. ``lock`` tells other processes of this computer that its host lives."""

    path: Path
    lock: FileLock | None = None

    @property
    def run_id(self) -> str:
        """The run of the order."""
        return self.path.parent.name

    @staticmethod
    def remove_old(root: Path) -> None:
        """Remove what nobody has asked for in a month."""
        for path in root.glob("*/*"):
            if time.time() - path.stat().st_mtime > _KEPT_S:
                shutil.rmtree(path, ignore_errors=True)

    @staticmethod
    def create(root: Path, order: Order) -> Spool:
        """Begin one."""
        path = root / checked_id(order.run_id) / checked_id(order.id)
        path.mkdir(parents=True)
        head = {
            "phone_id": order.phone_id,
            "planned_phone": order.planned_phone,
            "cells": {work.ran_id: work.cell_id for work in order.work},
        }
        lock = _lock_of(path)
        lock.acquire(timeout=0)
        write_atomically(path / "order.json", json.dumps(head).encode())
        return Spool(path, lock)

    @staticmethod
    def adopt(root: Path, run_id: str) -> list[Spool]:
        """Take over the spools of a run that a dead host process of this computer has left."""
        adopted = []
        for file in sorted((root / checked_id(run_id)).glob("*/order.json")):
            lock = _lock_of(file.parent)
            try:
                lock.acquire(timeout=0)
            except Timeout:  # its host lives
                continue
            adopted.append(Spool(file.parent, lock))
        return adopted

    def item(self, after: int) -> Item | None:
        """Return the attempt with the number ``after``, and drop the raw output of those before, which were taken."""
        results = self.path / "results.jsonl"
        if not results.exists() or results.read_bytes().count(b"\n") <= after:
            return None
        head = json.loads((self.path / "order.json").read_bytes())
        records = list(RunFolder(self.path).records())
        for record in records[:after]:
            if record.raw is not None:
                shutil.rmtree(inside(self.path, record.raw.rstrip("/")), ignore_errors=True)
        if len(records) <= after:
            return None
        record = records[after]
        raw, left = self._raw_of(record.raw)
        small, room = {}, SMALL_BYTES
        for file in raw:
            if file.size <= room:
                small[file.path] = (inside(self.path, f"{record.raw}{file.path}")).read_bytes()
                room -= file.size
        return Item(
            order_id=self.path.name,
            number=after,
            phone_id=head["phone_id"],
            planned_phone=head["planned_phone"],
            cell_id=head["cells"][record.cell_id],
            record=record.to_json_line(),
            raw=tuple(raw),
            left=left,
            small=small,
        )

    def _raw_of(self, raw: str | None) -> tuple[list[RawFile], int]:
        """Return the files of an attempt that are not too much, the small ones first, and how many are."""
        if raw is None:
            return [], 0
        folder = inside(self.path, raw.rstrip("/"))
        files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
        found = [RawFile(path.relative_to(folder).as_posix(), path.stat().st_size) for path in files]
        kept: list[RawFile] = []
        room = MOST_RAW_BYTES
        for file in sorted(found, key=lambda file: (file.size, file.path)):
            if file.size <= room and len(kept) < MOST_RAW_FILES:
                kept.append(file)
                room -= file.size
        return kept, len(found) - len(kept)

    def read(self, number: int, path: str, offset: int, size: int) -> bytes:
        """Return a piece of a file of raw output.

        Raises:
            ConfigError: there is no such file.
        """
        record = list(RunFolder(self.path).records())[number]
        if record.raw is None:
            raise ConfigError(f"attempt {number} has no raw output")
        file = inside(self.path, f"{record.raw}{path}")
        if file.is_symlink() or not file.is_file():
            raise ConfigError(f"{path[:80]}: there is no such file")
        with file.open("rb") as source:
            source.seek(offset)
            return source.read(size)

    def remove(self) -> None:
        """Forget it: everything was taken."""
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):  # the run's last order removes the run's folder
            self.path.parent.rmdir()
        if self.lock is not None:
            self.lock.release()


def _lock_of(path: Path) -> FileLock:
    return FileLock(path / ".alive", thread_local=False)
