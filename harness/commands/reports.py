"""Verbs about what a run left: ``report`` and ``reasons``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.commands.output import say
from harness.core.errors import ConfigError
from harness.core.reasons import markdown_table


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="A run folder, or several for their history.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Where to write (default: report.html in it; history.html beside the newest)."),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", help="With several runs: where to write every point of the history too.")
    ] = None,
) -> None:
    """Make report.html and its data again from a run folder alone; of several, the history of their figures."""
    if len({run.resolve() for run in runs}) > 1:
        from harness.report.history_page import write_history

        say(str(write_history(runs, out, csv)))
        return
    if csv is not None:
        raise ConfigError("--csv is for several runs", remedy=f"results.csv in {runs[0]} holds the figures of this one")
    if out is None:
        from harness.report.artifacts import write_all

        say(str(write_all(runs[0])))
        return
    from harness.report.html import write_report

    say(str(write_report(runs[0], out)))


def reasons() -> None:
    """Print the table of reasons: verdict, fault, pytest outcome, exit status."""
    say(markdown_table().rstrip("\n"))
