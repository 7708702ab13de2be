"""The run that a run is held against: found, read, and cut down to what a worker needs.

``last`` is the newest earlier run in a folder beside that has a cell in common with this one. What cannot be read
there is named and passed over: an old folder must never stop a new run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.core.errors import ConfigError
from harness.core.reasons import Fault, Verdict
from harness.report.news import config_key, regression
from harness.report.news_slower import Timings, timings_of
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord

LAST: Final = "last"
NONE: Final = "none"
# So many folders beside are looked at, the newest first.
_FOLDERS: Final = 50
# A record's line begins with schema, kind, run and cell.
_HEAD_BYTES: Final = 400
_CELL_ID: Final = re.compile(rb'"cell_id": ?"([^"\\]{1,128})"')


@dataclass(frozen=True)
class Against:
    """The run compared with: its id, its folder as a person would name it, and the attempts that count."""

    run_id: str
    folder: str
    records: tuple[CellRecord, ...]


@dataclass(frozen=True)
class Standing:
    """What became of a cell in the run compared with; ``timings`` only where speed is judged."""

    verdict: Verdict
    timings: Timings | None


@dataclass(frozen=True)
class Baseline:
    """What workers judge their records by: plain values that pickle. By default nothing is red by comparison."""

    run_id: str = ""
    by_id: Mapping[str, Standing] = field(default_factory=dict)
    by_config: Mapping[tuple[str, ...], Standing] = field(default_factory=dict)

    def regression(self, record: CellRecord) -> tuple[str, str] | None:
        """Return reason and words of what makes a cell red that its record alone does not; ``None``: nothing."""
        before = self.by_id.get(record.cell_id)
        if before is None and self.by_config:
            before = self.by_config.get(config_key(record))
        if before is None:
            return None
        found = regression(record, before.verdict, before.timings)
        return None if found is None else (found[0], f"{found[1]} (in run {self.run_id})")


def baseline_of(against: Against | None, ids: Collection[str], shared: Collection[str]) -> Baseline:
    """Return what workers need of ``against`` for the cells ``ids``; ``shared`` as for ``news_of``."""
    if against is None:
        return Baseline()
    by_id: dict[str, Standing] = {}
    by_config: dict[tuple[str, ...], Standing] = {}
    for record in against.records:
        if record.verdict is not Verdict.OK:
            continue
        standing = Standing(record.verdict, None if record.phone.id in shared else timings_of(record))
        if record.cell_id in ids:
            by_id[record.cell_id] = standing
        else:
            by_config[config_key(record)] = standing
    return Baseline(against.run_id, by_id, by_config)


def check_word(word: str, beside: Path) -> None:
    """Refuse an ``--against`` that names no run, before a phone is touched; ``beside`` is where runs lie.

    Raises:
        ConfigError: it is neither ``last`` nor ``none`` nor the folder of a run.
    """
    if word not in (LAST, NONE):
        _folder(word, beside).read_info()


def find_against(word: str, run_dir: Path, ids: Collection[str]) -> tuple[Against | None, list[str]]:
    """Return the run that ``--against`` means for the run in ``run_dir``, and notes about what was passed over.

    Args:
        word: ``last``, ``none``, a run folder, or the name of one beside.
        run_dir: this run's folder, with its head.
        ids: this run's cells.

    Raises:
        ConfigError: the run that was named cannot be read, or is this run itself.
    """
    if word == NONE:
        return None, []
    if word != LAST:
        folder = _folder(word, run_dir.parent)
        if folder.path.resolve() == run_dir.resolve():
            raise ConfigError(f"--against {word} is this run's own folder", remedy="name an earlier run")
        return Against(folder.read_info().run_id, str(folder.path), tuple(folder.latest())), []
    notes: list[str] = []
    for folder, run_id in _earlier(run_dir, notes):
        try:
            if not _has_final(folder.results, ids):
                continue
            return Against(run_id, str(folder.path), tuple(folder.latest())), notes
        except OSError as error:
            notes.append(_passed_over(folder.path, error.strerror or str(error)))
    return None, notes


def _folder(word: str, beside: Path) -> RunFolder:
    there = beside / word
    if "/" not in word and not (Path(word) / "run.json").is_file() and (there / "run.json").is_file():
        return RunFolder(there)
    try:
        return RunFolder.open(Path(word))
    except ConfigError as error:
        raise ConfigError(
            f"--against {word}: that is no run folder (it has no run.json)",
            remedy="name one, or last (the newest earlier run beside) or none",
        ) from error


def _earlier(run_dir: Path, notes: list[str]) -> Iterator[tuple[RunFolder, str]]:
    """Yield the folders beside whose runs began before this one, the newest first."""
    own = _head(run_dir / "run.json")
    found: list[tuple[str, Path, str]] = []
    for head in _newest_heads(run_dir):
        try:
            data = _head(head)
        except (OSError, ValueError, RecursionError) as error:
            notes.append(_passed_over(head.parent, f"its run.json cannot be read ({type(error).__name__})"))
            continue
        if data["started"] < own["started"] and data["run_id"] != own["run_id"]:
            found.append((data["started"], head.parent, data["run_id"]))
    for _, path, run_id in sorted(found, reverse=True):
        yield RunFolder(path), run_id


def _newest_heads(run_dir: Path) -> list[Path]:
    heads: list[tuple[int, Path]] = []
    for folder in run_dir.resolve().parent.iterdir():
        head = folder / "run.json"
        try:
            if folder.name != run_dir.name and head.is_file():
                heads.append((head.stat().st_mtime_ns, head))
        except OSError:  # not ours to look into
            continue
    return [head for _, head in sorted(heads, reverse=True)[:_FOLDERS]]


def _head(path: Path) -> dict[str, Any]:
    data = json.loads(path.read_bytes())
    if not isinstance(data, dict) or not all(type(data.get(key)) is str for key in ("run_id", "started")):
        raise ValueError("it is no head of a run")
    return data


def _has_final(results: Path, ids: Collection[str]) -> bool:
    """Whether a results file has a finished record of one of the cells ``ids``; only such lines are read whole."""
    if not results.exists():
        return False
    with results.open("rb") as lines:
        for line in lines:
            match = _CELL_ID.search(line, 0, _HEAD_BYTES)
            if match is not None and match[1].decode("utf-8", "replace") in ids and _is_final(line):
                return True
    return False


def _is_final(line: bytes) -> bool:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and data.get("fault") in (None, Fault.PRODUCT.value)


def _passed_over(folder: Path, why: str) -> str:
    return f"not compared with {folder.name}: {why}"
