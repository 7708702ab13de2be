"""A self-check from the word of ``--device`` to the zip."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import FarmError
from harness.selfcheck.device import subject_called
from harness.selfcheck.parcel import collect, model_of, parcel_path, write_parcel
from harness.selfcheck.report import document, exit_status, headline, table
from harness.selfcheck.result import NotCheckableError
from harness.selfcheck.run import run_checks
from harness.selfcheck.subject import Say, Subject


@dataclass(frozen=True)
class Report:
    """What came of it: lines for people, a document for programs, the zip and what was taken out of it."""

    lines: list[str]
    document: dict[str, Any]
    parcel: Path
    redacted: list[str]
    exit_status: int


def check_and_pack(device: str, out: Path | None, only: Sequence[str], say: Say, *, ask_cable: bool) -> Report:
    """Check a phone and write the zip.

    Raises:
        ConfigError: there is no such phone or check.
        FarmError: the phone cannot be reached, somebody else has it, or the zip cannot be written.
    """
    started = time.monotonic()
    with subject_called(device) as subject:
        subject.ask_cable = ask_cable
        subject.say = say
        results = run_checks(subject, only)
        collected = collect(subject)
        model = model_of(collected)
        told = document({"model": model, "serial": subject.serial}, results, time.monotonic() - started)
        path = parcel_path(out, model)
        redacted = write_parcel(path, subject, told, _facts(subject), collected)
    return Report([*table(results), headline(model, results)], told, path, redacted, exit_status(results))


def _facts(subject: Subject) -> dict[str, Any]:
    """What the probe tells of the phone, or why it does not: by now every error was told by a check."""
    try:
        return asdict(subject.facts)
    except (FarmError, NotCheckableError) as error:
        return {"error": str(error)}
