"""``mnn-farm selfcheck``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def selfcheck(
    device: Annotated[str, typer.Option(help="A serial, or any word of pytest's --devices that means one phone.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder or name of the zip (default: this folder).")] = None,
    ask_cable: Annotated[bool, typer.Option("--ask-cable", help="Ask you to pull the cable and plug it in.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Only this check; again for more.")] = None,
) -> None:
    """Try on one phone all that we assume about phones, and pack a zip to send us. At most ten minutes."""
    from harness.selfcheck.whole import check_and_pack  # here: it would triple the start of every other verb

    def say(text: str) -> None:
        typer.echo(text, err=True)

    report = check_and_pack(device, out, only or (), say, ask_cable=ask_cable)
    if as_json:
        typer.echo(json.dumps({**report.document, "zip": str(report.parcel), "redacted": report.redacted}, indent=1))
    else:
        for line in report.lines:
            typer.echo(line)
        taken = "; ".join(report.redacted) or "nothing"
        typer.echo(f"Please send us {report.parcel}. Taken out of it: {taken}.")
    raise typer.Exit(report.exit_status)
