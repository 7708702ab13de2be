"""The run folder on disk. What was measured is never lost: one line per attempt, one write, fsynced, under a lock.

Layout: ``run.json``, ``results.jsonl``, ``raw/<cell>/<attempt>/``, and what is made from them (``report.html``, …).
"""

from __future__ import annotations

import errno
import itertools
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path

from filelock import FileLock
from pydantic import ValidationError

from harness.core.errors import ConfigError, FarmError
from harness.core.reasons import Reason, Verdict
from harness.store.head import RunInfo
from harness.store.schema import SCHEMA, CellRecord

_log = logging.getLogger(__name__)

LOCK_TIMEOUT_S = 60.0

# By these a line says that it is a record, and of which schema.
_NAMED = frozenset({"schema_", "record"})


class RunFolder:
    """One run's folder. Several processes may append to it at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(path / ".lock", timeout=LOCK_TIMEOUT_S)

    @property
    def results(self) -> Path:
        """``results.jsonl``."""
        return self.path / "results.jsonl"

    @staticmethod
    def check_free(path: Path) -> None:
        """Refuse a place for a run folder that holds something; nothing is written.

        Raises:
            ConfigError: it is a file, or a folder that is not empty.
        """
        if path.exists() and not path.is_dir():
            raise ConfigError(f"--run-dir {path} is a file", remedy="name a folder")
        # A start that was killed before its head was whole leaves that head's temporary name and nothing else.
        if path.is_dir() and any(not entry.name.startswith(".run.json.") for entry in path.iterdir()):
            held = "another run" if (path / "run.json").exists() else "other files"
            finish = "finish it with --resume, or " if held == "another run" else ""
            raise ConfigError(
                f"--run-dir {path} holds {held}", remedy=f"{finish}name a new or empty folder; nothing was changed"
            )

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """Make a new, empty run folder.

        Raises:
            ConfigError: something that is not an empty folder is there already, or it cannot be made.
        """
        cls.check_free(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--run-dir {path} cannot be made ({error.strerror})", remedy="name another") from error
        return cls(path)

    @classmethod
    def open(cls, path: Path | RunFolder) -> RunFolder:
        """Open a run folder that exists; one that is open already is returned as it is.

        Raises:
            ConfigError: ``path`` is not one.
        """
        if isinstance(path, RunFolder):
            return path
        if not (path / "run.json").is_file():
            raise ConfigError(f"{path} is not a run folder (it has no run.json)", remedy="name one below reports/")
        return cls(path)

    def write_info(self, info: RunInfo) -> None:
        """Write ``run.json``, whole or not at all.

        Raises:
            FarmError: this computer's disk is full or does not take it (reason ``host_disk_full``).
        """
        file = self.path / "run.json"
        try:
            write_atomically(file, info.model_dump_json(by_alias=True, indent=1).encode() + b"\n")
        except OSError as error:
            raise _unwritten(file, error) from error

    def read_info(self) -> RunInfo:
        """Read ``run.json``.

        Raises:
            ConfigError: it is damaged or newer than this version reads.
        """
        file = self.path / "run.json"
        try:
            return RunInfo.model_validate_json(file.read_bytes())
        except (OSError, ValidationError) as error:
            raise ConfigError(f"{file} cannot be read as a run's head: {_first_line(error)}") from error

    def update_info(self, change: Callable[[RunInfo], RunInfo]) -> RunInfo:
        """Replace ``run.json`` by what ``change`` makes of it, under the folder's lock, and return that.

        Raises:
            ConfigError: it cannot be read.
            FarmError: this computer's disk is full or does not take the new one (reason ``host_disk_full``).
        """
        try:
            with self._lock:
                info = change(self.read_info())
                self.write_info(info)
        except OSError as error:  # the lock's Timeout is one too
            raise _unwritten(self.path / "run.json", error) from error
        return info

    def append(self, record: CellRecord) -> None:
        """Add one record: one write, on disk before this returns. A torn last line is closed first.

        Raises:
            FarmError: this computer's disk is full or does not take it (reason ``host_disk_full``).
        """
        line = record.to_json_line()
        try:
            with self._lock, self.results.open("ab") as file:
                before = file.tell()
                if before > 0 and not _ends_with_newline(self.results):
                    line = b"\n" + line
                if os.write(file.fileno(), line) != len(line):
                    os.ftruncate(file.fileno(), before)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
        except OSError as error:  # the lock's Timeout is one too
            raise _unwritten(self.results, error) from error

    def records(self) -> Iterator[CellRecord]:
        """Yield every readable record in the order written.

        Lines that are no record (torn by a kill, of a newer schema) are passed over with a warning in the log.
        """
        if not self.results.exists():
            return
        with self.results.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                record = _parse(line, f"{self.results.name}:{number}")
                if record is not None:
                    yield record

    def attempts_of(self, cell_id: str) -> int:
        """Return how many records of a cell there are, without reading the others."""
        if not self.results.exists():
            return 0
        return self.results.read_bytes().count(f'"cell_id":"{cell_id}"'.encode())

    def records_of(self, cell_id: str) -> list[CellRecord]:
        """Return the readable records of a cell in the order written, without reading the others."""
        if not self.results.exists():
            return []
        named = f'"cell_id":"{cell_id}"'.encode()
        with self.results.open("rb") as lines:
            of_cell = [(number, line) for number, line in enumerate(lines, start=1) if named in line]
        read = (_parse(line, f"{self.results.name}:{number}") for number, line in of_cell)
        return [record for record in read if record is not None and record.cell_id == cell_id]

    def latest(self) -> list[CellRecord]:
        """Return the attempt that counts of each cell, in the order in which cells were first written.

        That is the last one; but a ``skipped`` attempt, which never began, says nothing against one that did.
        """
        return latest_of(self.records())

    def raw_path(self, cell_id: str, attempt: int) -> Path:
        """Return where the raw output of one attempt lies or would lie."""
        return self.path / "raw" / cell_id[:12] / str(attempt)

    def raw_dir(self, cell_id: str, attempt: int) -> Path:
        """Make and return a fresh folder for the raw output of one attempt.

        One of that name is of an attempt that was killed before its record was written: it is kept beside, as
        ``N-killed-1``, so that no record names files of two attempts.
        """
        folder = self.raw_path(cell_id, attempt)
        if folder.exists():
            beside = (folder.with_name(f"{attempt}-killed-{number}") for number in itertools.count(1))
            folder.rename(next(name for name in beside if not name.exists()))
        folder.mkdir(parents=True)
        return folder

    def relative(self, path: Path) -> str:
        """Return ``path`` as records name it: below the run folder, with a trailing slash."""
        return f"{path.relative_to(self.path).as_posix()}/"


class ReadOnce(RunFolder):
    """A run folder that changes no more, read once and kept in memory: for whoever makes several things of it."""

    @cached_property
    def _info(self) -> RunInfo:
        return super().read_info()

    @cached_property
    def _records(self) -> tuple[CellRecord, ...]:
        return tuple(super().records())

    @cached_property
    def _latest(self) -> list[CellRecord]:
        return latest_of(self._records)

    def read_info(self) -> RunInfo:
        """Return the head as it was when it was first asked for."""
        return self._info

    def records(self) -> Iterator[CellRecord]:
        """Yield the records that there were when they were first asked for."""
        return iter(self._records)

    def latest(self) -> list[CellRecord]:
        """Return the attempts that count among :meth:`records`."""
        return list(self._latest)


def latest_of(records: Iterable[CellRecord]) -> list[CellRecord]:
    """Return the attempt that counts of each cell among records in the order written; see :meth:`RunFolder.latest`."""
    by_cell: dict[str, CellRecord] = {}
    for record in records:
        before = by_cell.get(record.cell_id)
        if before is None or record.verdict is not Verdict.SKIPPED or before.verdict is Verdict.SKIPPED:
            by_cell[record.cell_id] = record
    return list(by_cell.values())


def _unwritten(file: Path, error: OSError) -> FarmError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return FarmError(
        f"{file} cannot be written ({error.strerror or error})",
        remedy="make room on this computer and run again" if full else "check that folder and run again",
        reason=Reason.HOST_DISK_FULL,
    )


def _parse(line: bytes, where: str) -> CellRecord | None:
    return _parse_at_once(line) or _parse_in_steps(line, where)


def _parse_at_once(line: bytes) -> CellRecord | None:
    """Read a line the fast way; ``None`` for all that is not plainly a record, which is then looked at closely."""
    try:
        record = CellRecord.model_validate_json(line)
    except ValidationError:
        return None
    return record if record.model_fields_set >= _NAMED else None


def _parse_in_steps(line: bytes, where: str) -> CellRecord | None:
    try:
        head = json.loads(line)
        if not isinstance(head, dict) or head.get("record") != "cell":
            raise ValueError("it is no cell record")
        if head.get("schema") != SCHEMA:
            raise ValueError(f"its schema is {head.get('schema')}, this version reads {SCHEMA}")
        return CellRecord.model_validate(head)
    except (ValueError, RecursionError) as error:
        _log.warning("%s was passed over: %s", where, _first_line(error))
        return None


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split("\n")[:3])


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` through a temporary name, so that no reader ever sees half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
