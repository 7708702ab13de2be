"""``mnn-farm selfcheck``."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.core.errors import FarmError
from harness.selfcheck.device import subject_called
from harness.selfcheck.parcel import collect, model_of, parcel_path, write_parcel
from harness.selfcheck.report import document, headline, table
from harness.selfcheck.result import NotCheckableError
from harness.selfcheck.run import run_checks
from harness.selfcheck.subject import Subject

EPILOG = "Example: mnn-farm selfcheck --device R5CT30ABCDE --ask-cable"


def selfcheck(
    device: Annotated[str, typer.Option(help="A serial that adb lists, or a word such as virtual:high or host.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder or name of the zip (default: this folder).")] = None,
    ask_cable: Annotated[bool, typer.Option("--ask-cable", help="Ask you to pull the cable and plug it in.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Only this check; again for more.")] = None,
) -> None:
    """Try on one phone all that we assume about phones, and pack a zip to send us. At most ten minutes."""
    started = time.monotonic()
    with subject_called(device) as subject:
        subject.ask_cable = ask_cable
        subject.say = lambda text: typer.echo(text, err=True)
        results = run_checks(subject, only or ())
        collected = collect(subject)
        model = model_of(collected)
        told = document({"model": model, "serial": subject.serial}, results, time.monotonic() - started)
        path = parcel_path(out, model)
        redacted = write_parcel(path, subject, told, _facts(subject), collected)
    if as_json:
        typer.echo(json.dumps({**told, "zip": str(path), "redacted": redacted}, indent=1))
    else:
        for line in table(results):
            typer.echo(line)
        typer.echo(headline(model, results))
        typer.echo(f"Please send us {path}. Taken out of it: {'; '.join(redacted) or 'nothing'}.")
    raise typer.Exit(0 if told["ok"] else 1)


def _facts(subject: Subject) -> dict[str, Any]:
    """What the probe tells of the phone, or why it does not: by now every error was told by a check."""
    try:
        return subject.facts
    except (FarmError, NotCheckableError) as error:
        return {"error": str(error)}
