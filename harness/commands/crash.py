"""``mnn-farm crash``: one zip about a cell that went wrong, to attach to a bug report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.commands.output import Json, print_json, say, tell
from harness.core.errors import ConfigError
from harness.store.schema import CellRecord


def crash(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    cell: Annotated[
        str, typer.Argument(help="The begin of a cell's id, or a test's name (default: the only one that failed).")
    ] = "",
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="ZIP", help="The zip, or a folder (default: this folder).")
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Mask serials, accounts, addresses, numbers, places and user names.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="A zip for each cell that failed; -o is a folder.")] = False,
    as_json: Json = False,
) -> None:
    """Pack all that is known of a failed cell into one zip: logs, crash, facts, hashes, the command, the findings.

    Exit status 0: it was written, or nothing failed; 2: several cells failed and none was named, or no cell is so
    called.
    """
    from harness.commands.crash_zip import describe, named_beside, write_parcel
    from harness.store.runfolder import RunFolder

    folder = RunFolder.open(run)
    chosen = _chosen(folder.latest(), cell, every=every, where=str(run))
    if len(chosen) > 1 and not every:
        if as_json:
            print_json({"zips": [], "cells": [describe(record) for record in chosen]})
        for record in () if as_json else chosen:
            say("{cell_id:.12}  {test}\n    {says}".format(**describe(record)))
        tell(f"{len(chosen)} cells failed: name one by the begin of its id, or pack all with --all")
        raise typer.Exit(2)
    written: list[dict[str, Any]] = []
    for record in chosen:
        target = named_beside(out, record, many=every)
        parcel = write_parcel(run, folder.read_info(), record, target, redact=redact)
        written.append(
            {
                **describe(record),
                "zip": str(parcel.path),
                "files": [member.name for member in parcel.members],
                "missing": [one.told() for one in parcel.missing],
                "masked": None if parcel.masked is None else list(parcel.masked),
            }
        )
    if as_json:
        print_json({"zips": written, "cells": [describe(record) for record in chosen]})
        return
    if not written:
        say("No cell failed: there is nothing to report.")
    for one in written:
        say(f"{one['zip']}: {one['says']}")
        for lacking in one["missing"]:
            say(f"  not in it: {lacking['what']} ({lacking['why']})")
        if one["masked"] is None:
            say("  It names the phone and what is on it as they are: use --redact before it goes to strangers.")
        else:
            say(f"  masked: {'; '.join(one['masked']) or 'nothing'}")


def _chosen(records: Sequence[CellRecord], cell: str, *, every: bool, where: str) -> list[CellRecord]:
    """Return the cells that are meant.

    Raises:
        ConfigError: no cell is so called, or several are.
    """
    from harness.commands.crash_zip import is_failure, sentence
    from harness.report.cells import pytest_id

    if not cell:
        return [record for record in records if is_failure(record)]
    if every:
        raise ConfigError("--all is every cell that failed, and a cell was named too", remedy="leave one of both out")
    found = [record for record in records if _is_called(record.cell_id, pytest_id(record), cell)]
    if len(found) == 1:
        return found
    listed = ", ".join(f"{record.cell_id[:12]} ({sentence(record)[:60]})" for record in (found or records)[:8])
    said = f"{len(found)} cells begin with {cell!r}" if found else f"no cell is called {cell!r}"
    raise ConfigError(f"{where}: {said}", remedy=f"name one of these: {listed or 'there is none'}")


def _is_called(cell_id: str, test: str, word: str) -> bool:
    """Return whether a word is a cell's id, its begin, or its test as pytest shows it or by its brackets alone."""
    name = word.rpartition("::")[2]
    return cell_id.startswith(word) or name in (test, test.partition("[")[2].rstrip("]"))
