"""``mnn-farm merge``: run folders of several controllers become one."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from harness.commands.output import Json, print_json, say
from harness.store.merge import merge


def merge_runs(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders of the same plan.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="The new run folder.")],
    as_json: Json = False,
) -> None:
    """Make one run folder of several, with its report; the others stay as they are.

    A cell that several have keeps all its attempts: of those that are final the latest counts.
    """
    from harness.report.artifacts import write_all

    done = merge(runs, out, ["mnn-farm", *sys.argv[1:]])
    report = write_all(done.path)
    if as_json:
        print_json({**asdict(done), "path": str(done.path), "report": str(report)})
        return
    say(f"{done.path}: {done.cells} cells, {done.records} attempts")
    if done.same:
        say(f"{done.same} attempts were in more than one folder and are there once")
    if done.shared:
        say(f"{done.shared} cells were measured in more than one run: the latest final attempt counts")
    if done.without_raw:
        say(f"of {done.without_raw} attempts the raw output was not there")
    say(f"report: {report}")
