"""``mnn-farm judge``: which figures in outputs of MNN's own tools may be believed, and why the others may not."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.bench.asked import Asked
from harness.bench.believe import CV_LIMIT, Belief, Judged, believe
from harness.commands.output import Json, print_json, say
from harness.core.errors import ConfigError


def judge(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Outputs of MNN's tools; - reads stdin.")],
    backend: Annotated[
        str | None, typer.Option("--backend", help="The backend that was asked for, where the output does not tell.")
    ] = None,
    cv_limit: Annotated[
        float, typer.Option("--cv-limit", min=0.0, help="How far repeats may spread, as a share of their mean.")
    ] = CV_LIMIT,
    as_json: Json = False,
) -> None:
    """Judge figures of llm_bench, llm_demo, MNNV2Basic and others: each with its verdict, its reason and why.

    The phone's log may be in the file, too. Exit status 0: all of it may be believed; 1: something may not.
    """
    asked = Asked(backends=(backend.lower(),) if backend else ())
    beliefs = [(name, believe(_read(name), asked, cv_limit)) for name in files]
    if as_json:
        print_json(_as_json(beliefs))
    else:
        for name, belief in beliefs:
            _print(name, belief)
    raise typer.Exit(0 if all(belief.ok for _, belief in beliefs) else 1)


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise ConfigError(f"{name} cannot be read ({error.strerror})", remedy="name a file, or - for stdin") from None


def _print(name: str, belief: Belief) -> None:
    say(f"{name}: {_verdict(belief.whole)}: {_shown(belief.whole.detail)}")
    for judged in belief.figures:
        value = "" if judged.value is None else f" {judged.value:g} {judged.unit}".rstrip()
        say(f"  {_verdict(judged)}  {_shown(judged.name)}{value}")
        say(f"      why:      {_shown(judged.detail)}")
        if judged.evidence and judged.reason is not None:
            say(f"      evidence: {_shown(judged.evidence)}")
    if belief.whole.reason is not None and belief.whole.evidence and not belief.figures:
        say(f"      evidence: {_shown(belief.whole.evidence)}")


def _shown(text: str) -> str:
    """Return the first line of what a phone printed, without characters that a terminal would obey."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text.split("\n", 1)[0])


def _verdict(judged: Judged) -> str:
    return judged.verdict.value if judged.reason is None else f"{judged.verdict.value} ({judged.reason.code})"


def _as_json(beliefs: list[tuple[str, Belief]]) -> dict[str, Any]:
    """Return one document: of one file, or of several with each of them in ``files``."""
    documents = [_document(belief) for _, belief in beliefs]
    if len(documents) == 1:
        return documents[0]
    worst = next((document for document in documents if not document["ok"]), documents[0])
    return {
        "ok": all(document["ok"] for document in documents),
        "verdict": worst["verdict"],
        "reason": worst["reason"],
        "figures": [figure for document in documents for figure in document["figures"]],
        "files": [{"file": name, **document} for (name, _), document in zip(beliefs, documents, strict=True)],
    }


def _document(belief: Belief) -> dict[str, Any]:
    whole = _judged(belief.whole)
    return {
        "ok": belief.ok,
        "verdict": whole["verdict"],
        "reason": whole["reason"],
        "detail": whole["detail"],
        "evidence": whole["evidence"],
        "figures": [_judged(judged) for judged in belief.figures],
    }


def _judged(judged: Judged) -> dict[str, Any]:
    return {
        "name": judged.name,
        # JSON has no infinity and no NaN: the evidence has the line in which they stand.
        "value": judged.value if judged.value is not None and math.isfinite(judged.value) else None,
        "unit": judged.unit,
        "verdict": judged.verdict.value,
        "reason": None if judged.reason is None else judged.reason.code,
        "detail": judged.detail,
        "evidence": judged.evidence,
    }
