"""``mnn-farm tiers``: what several runs together recommend for each tier, as an app ships it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.commands.output import Json, say


def tiers(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders, e.g. one of full and one of soak.")],
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="FILE", help="Write tiers.json there.")] = None,
    rules: Annotated[
        Path | None, typer.Option("--rules", metavar="FILE", help="Own rules and SLOs, like profiles/tiers.toml.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say which model and configuration is proven to keep each tier's SLO, over one or several runs.

    Exit status 0: every tier that has phones has a recommendation; 1: one has none.
    """
    from harness.report.tiers import lines_of, tiers_json, tiers_of_runs
    from harness.store.runfolder import write_atomically

    report = tiers_of_runs(runs, rules)
    document = tiers_json(report)
    if out is not None:
        write_atomically(out, document.encode())
    if as_json:
        say(document.rstrip())
    else:
        for line in lines_of(report) or ["no phone took part"]:
            say(line)
    lacking = any(each.phones and each.decision.recommended is None for each in report.tiers)
    raise typer.Exit(1 if lacking else 0)
