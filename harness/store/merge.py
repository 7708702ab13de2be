"""Several run folders of one plan become one: from several controllers, or from one that ran on several days.

Of a cell that more than one of them has, all attempts are kept and numbered anew. Those that are final come last, so
that a lost phone on one day does not hide the figure of another; among those that are alike, the later one counts.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import ConfigError
from harness.core.ids import new_run_id
from harness.store.head import FleetMember, LeftOut, Resumption, RunInfo, Source
from harness.store.resume import plan_differences
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord

# Run folders come from other computers: what a record names as its raw output is no path until it looks like one.
_RAW = re.compile(r"raw/[0-9A-Za-z_-]{1,64}/[0-9]{1,9}/")


@dataclass(frozen=True)
class Merged:
    """What a merge did.

    Attributes:
        records: attempts in the new folder.
        cells: cells in it.
        same: attempts that were in more than one folder and were taken once.
        shared: cells of which more than one folder had an attempt of its own.
        without_raw: attempts whose raw output was not there.
    """

    path: Path
    run_id: str
    records: int
    cells: int
    same: int
    shared: int
    without_raw: int


@dataclass(frozen=True)
class _Attempt:
    record: CellRecord
    folder: RunFolder


def merge(paths: Sequence[Path], out: Path, command: Sequence[str]) -> Merged:
    """Make the run folder ``out`` of others, which stay as they are. It is there as a whole or not at all.

    Args:
        paths: run folders of the same plan, models and bundle.
        out: a place where nothing is.
        command: how this was asked for, for the new head.

    Raises:
        ConfigError: one is no run folder, they are of different plans, models or bundles, or ``out`` is taken.
    """
    folders = [RunFolder.open(path) for path in _distinct(paths)]
    if len(folders) < 2:
        raise ConfigError("one run folder alone cannot be merged", remedy="name two or more different ones")
    heads = sorted(((folder.read_info(), folder) for folder in folders), key=lambda pair: pair[0].started)
    for info, folder in heads[1:]:
        _check_same(heads[0][0], heads[0][1].path, info, folder.path)
    _check_free(out)
    attempts, same = _attempts([folder for _, folder in heads])
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        without_raw = _write(RunFolder(work), attempts)
        head = _head([info for info, _ in heads], command)
        RunFolder(work).write_info(head)
        for info, folder in heads:
            _copy_log(folder.path / "log.txt", work / f"log-{info.run_id}.txt")
        work.chmod(0o755)
        if out.is_dir():
            out.rmdir()
        work.rename(out)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    owners: dict[str, set[Path]] = {}
    for one in attempts:
        owners.setdefault(one.record.cell_id, set()).add(one.folder.path)
    shared = sum(len(folders) > 1 for folders in owners.values())
    return Merged(out, head.run_id, len(attempts), len(owners), same, shared, without_raw)


def _distinct(paths: Iterable[Path]) -> list[Path]:
    return list({path.resolve(): path for path in paths}.values())


def _check_free(out: Path) -> None:
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ConfigError(f"{out} is there already", remedy="name a new folder with -o; nothing was changed")


def _check_same(first: RunInfo, first_path: Path, other: RunInfo, other_path: Path) -> None:
    """Refuse runs whose figures would stand under the same names and mean something else."""
    apart = plan_differences(first.plan, other.plan)
    apart += [
        f"{what} was {then.hash[:12]} and is {now.hash[:12]}"
        for what, then, now in _sources(first, other)
        if then.hash != now.hash
    ]
    if apart:
        raise ConfigError(
            f"{other_path} is of another plan, model or bundle than {first_path}: {'; '.join(apart)}",
            remedy="merge runs of the same plan, or look at both: mnn-farm report RUN RUN",
        )


def _sources(first: RunInfo, other: RunInfo) -> Iterator[tuple[str, Source, Source]]:
    for name in first.models.keys() & other.models.keys():
        yield f"model {name}", first.models[name], other.models[name]
    if first.bundle is not None and other.bundle is not None:
        yield "bundle", first.bundle, other.bundle


def _attempts(folders: Sequence[RunFolder]) -> tuple[list[_Attempt], int]:
    """Return all attempts, each once, cell after cell as they were first written; and how many were there again."""
    of_cell: dict[str, dict[tuple[Any, ...], _Attempt]] = {}
    same = 0
    for folder in folders:
        for record in folder.records():
            # A folder that is itself a merge numbers attempts anew; the rest of a record stays.
            key = (record.run_id, record.started, record.elapsed_s, record.phone.boot_id, record.verdict)
            there = of_cell.setdefault(record.cell_id, {})
            if key in there:
                same += 1
            else:
                there[key] = _Attempt(record, folder)
    ordered = [
        sorted(there.values(), key=lambda one: (one.record.final, one.record.started, one.record.attempt))
        for there in of_cell.values()
    ]
    return [one for attempts in ordered for one in attempts], same


def _write(new: RunFolder, attempts: Sequence[_Attempt]) -> int:
    """Write records and raw output; return of how many attempts that was not there."""
    numbers: dict[str, int] = {}
    without_raw = 0
    with new.results.open("wb") as results:
        for one in attempts:
            record = one.record
            number = numbers[record.cell_id] = numbers.get(record.cell_id, 0) + 1
            raw = None
            if record.raw is not None:
                target = new.raw_path(record.cell_id, number)
                raw = new.relative(target)
                without_raw += not _copy_raw(one.folder.path, record.raw, target)
            results.write(record.model_copy(update={"attempt": number, "raw": raw}).to_json_line())
        results.flush()
        os.fsync(results.fileno())
    return without_raw


def _copy_raw(folder: Path, raw: str, target: Path) -> bool:
    """Copy an attempt's raw output, links left out: one could lead anywhere on this computer."""
    source = folder / raw
    if not _RAW.fullmatch(raw) or source.is_symlink() or not source.is_dir():
        return False

    def links(place: str, names: list[str]) -> list[str]:
        return [name for name in names if (Path(place) / name).is_symlink()]

    shutil.copytree(source, target, ignore=links)
    return True


def _copy_log(source: Path, target: Path) -> None:
    if source.is_file() and not source.is_symlink():
        shutil.copyfile(source, target)


def _head(heads: Sequence[RunInfo], command: Sequence[str]) -> RunInfo:
    """Return the head of the whole: the oldest run's, and each further run as a later start."""
    first, *others = heads
    members: dict[str, FleetMember] = {}
    for info in heads:
        members.update({member.phone.id: member for member in info.fleet})
    starts = [start for info in heads for start in info.resumptions]
    starts += [
        Resumption(
            started=info.started,
            command=info.command,
            harness_version=info.harness_version,
            phones=tuple(member.phone.name for member in info.fleet),
            left_out=info.left_out,
        )
        for info in others
    ]
    starts.sort(key=lambda start: start.started)
    starts[-1] = starts[-1].model_copy(update={"left_out": _missing(heads, members.values())})
    planned = max(info.cells / len(info.fleet) if info.fleet else 0.0 for info in heads)
    return first.model_copy(
        update={
            "run_id": new_run_id(),
            "command": tuple(command),
            "fleet": tuple(members.values()),
            "cells": round(planned * len(members)),
            "models": {name: source for info in reversed(heads) for name, source in info.models.items()},
            "resumptions": tuple(starts),
        }
    )


def _missing(heads: Sequence[RunInfo], members: Iterable[FleetMember]) -> tuple[LeftOut, ...]:
    """Return who was left out of one run and took part in none."""
    there = {name for member in members for name in (member.phone.name, member.phone.serial)}
    left = {json.dumps(one.model_dump()): one for info in heads for one in info.still_left_out}
    return tuple(one for one in left.values() if one.name not in there)
