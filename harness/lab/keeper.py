"""Taking finished attempts into the run folder: raw output first, then the record, each attempt once."""

from __future__ import annotations

import secrets
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import ValidationError

from harness.core.errors import ConfigError
from harness.lab.ledger import Ledger
from harness.lab.matching import Wanted
from harness.lab.order import Item, RawFile
from harness.lab.places import inside
from harness.lab.spool import MOST_RAW_BYTES, MOST_RAW_FILES
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord, Finding

# Asks the host for the piece of a file that begins at an offset.
Read = Callable[[str, int], bytes]


class Keeper:
    """The one that writes a run's folder. Threads of several hosts call it at once."""

    def __init__(self, folder: RunFolder, run_id: str, planned: Mapping[str, Wanted], ledger: Ledger) -> None:
        self._folder = folder
        self._run_id = run_id
        self._planned = planned
        self._ledger = ledger
        self.lock = threading.Lock()

    def take(self, item: Item, read: Read) -> tuple[CellRecord | None, str]:
        """Keep an attempt; return its record, or why it was dropped.

        Raises:
            ConfigError: its raw output is not what the host announced.
            FarmError: this computer's disk does not take it.
        """
        record, why = self._checked(item)
        if record is None or why:
            return None, why
        raw = self._fetch(item, read) if record.raw is not None else None
        try:
            with self.lock:
                why = self._ledger.why_not(item.order_id, item.cell_id, record)  # another host may have been faster
                if why:
                    return None, why
                kept = self._numbered(record, item, raw)
                self._folder.append(kept)
                self._ledger.keep(kept)
                return kept, ""
        finally:
            if raw is not None:
                shutil.rmtree(raw, ignore_errors=True)

    def _checked(self, item: Item) -> tuple[CellRecord | None, str]:
        try:
            record = CellRecord.model_validate_json(item.record)
        except ValidationError as error:
            return None, f"it is no record ({error.error_count()} errors)"
        cell = self._planned.get(item.cell_id)
        if record.run_id != self._run_id or cell is None or cell.runs_on.get(record.phone.id) != record.cell_id:
            return None, "it is of no cell of this run"
        if record.phone.id != item.phone_id or item.planned_phone not in (None, cell.phone_id):
            return None, "it is of another phone than it says"
        if (item.planned_phone is None) != (record.phone.id == cell.phone_id):
            return None, "it does not say whose cell it is"
        with self.lock:
            return record, self._ledger.why_not(item.order_id, item.cell_id, record)

    def _numbered(self, record: CellRecord, item: Item, raw: Path | None) -> CellRecord:
        number = self._ledger.number(item.cell_id)
        place = None
        if raw is not None:
            place = self._folder.raw_dir(item.cell_id, number)
            raw.replace(place)
        cut = Finding(
            code="raw_cut",
            severity="warning",
            title=f"{item.left} files of raw output stayed on the host: they are too many or too large",
        )
        changes = {
            "cell_id": item.cell_id,
            "planned_phone": item.planned_phone,
            "attempt": number,
            "raw": self._folder.relative(place) if place is not None else None,
            "findings": (*record.findings, *([cut] if item.left else ())),
        }
        return record.model_copy(update=changes)

    def _fetch(self, item: Item, read: Read) -> Path:
        """Return a folder with the raw output, below the run folder."""
        if len(item.raw) > MOST_RAW_FILES or sum(file.size for file in item.raw) > MOST_RAW_BYTES:
            raise ConfigError("the host announces more raw output than is taken")
        target = self._folder.path / "raw" / f".incoming-{secrets.token_hex(6)}"
        target.mkdir(parents=True)
        try:
            for file in item.raw:
                place = inside(target, file.path)
                place.parent.mkdir(parents=True, exist_ok=True)
                _write(file, place, item.small.get(file.path), read)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
        return target


def _write(file: RawFile, place: Path, data: bytes | None, read: Read) -> None:
    with place.open("wb") as sink:
        sink.write(data or b"")
        while data is None and sink.tell() < file.size:
            piece = read(file.path, sink.tell())
            if not piece:
                break
            sink.write(piece[: file.size - sink.tell()])
        if sink.tell() != file.size:
            raise ConfigError(f"{file.path[:80]} of the raw output is not as long as the host said")
