"""What a self-check says: a table for people, a document for programs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.selfcheck.result import Outcome, Result

_WORDS = {Outcome.PASS: "holds", Outcome.FAIL: "broken", Outcome.UNKNOWN: "unknown"}


def headline(phone: str, results: Sequence[Result]) -> str:
    """Return one sentence: how many assumptions hold, and which do not."""
    parts = []
    for outcome in Outcome:
        names = [result.check.name for result in results if result.outcome is outcome]
        if outcome is Outcome.PASS:
            parts.append(f"{len(names)} hold")
        elif names:
            parts.append(f"{len(names)} {_WORDS[outcome]} ({', '.join(names)})")
    return f"{phone}, {len(results)} assumptions: {', '.join(parts)}"


def table(results: Sequence[Result]) -> list[str]:
    """Return one line per assumption; below one that is broken, what it means and what to do."""
    width = max((len(result.check.name) for result in results), default=0)
    lines = []
    for result in results:
        word = result.outcome.value.upper() if result.outcome is Outcome.FAIL else result.outcome.value
        lines.append(f"{word:<8} {result.check.name:<{width}}  {result.finding.evidence}")
        if result.outcome is Outcome.FAIL:
            said = (("assumed", result.check.assumes), ("matters", result.check.matters), ("do", result.check.advice))
            lines += [f"{'':<8} {'':<{width}}    {label + ':':<9}{text}" for label, text in said]
    return lines


def exit_status(results: Sequence[Result]) -> int:
    """Return 1 when an assumption is broken, 3 when one could not be tried and the phone is not to blame, else 0."""
    if any(result.outcome is Outcome.FAIL for result in results):
        return 1
    return 3 if any(result.finding.ours for result in results) else 0


def document(phone: dict[str, Any], results: Sequence[Result], elapsed_s: float) -> dict[str, Any]:
    """Return all of it as plain values."""
    return {
        "schema": 1,
        "ok": exit_status(results) == 0,
        "phone": phone,
        "elapsed_s": round(elapsed_s, 1),
        "results": [result.as_dict() for result in results],
    }
