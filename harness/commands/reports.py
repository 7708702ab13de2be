"""Verbs about what a run left: ``report`` and ``reasons``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.commands.output import say
from harness.core.reasons import markdown_table


def report(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[Path | None, typer.Option("--out", help="Where to write (default: report.html in it).")] = None,
) -> None:
    """Make report.html again from a run folder alone, on any machine."""
    from harness.report.html import write_report

    say(str(write_report(run, out)))


def reasons() -> None:
    """Print the table of reasons: verdict, fault, pytest outcome, exit status."""
    say(markdown_table().rstrip("\n"))
