"""Files of our own run folder as lines for rules: records of ``results.jsonl``, a runner's error events. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from harness.triage.entry import Entry, Evidence, printable

# Stand in the lines that this reader wants to see.
RECORD_NEEDLES = ('"verdict"',)
EVENT_NEEDLES = ('"event": "error"', '"event":"error"')


def event_entries(raw: bytes, source: str, number: int) -> Iterator[Entry]:
    """Yield what an error event of our runner tells: its message's lines, and the stage."""
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError):
        return
    if not isinstance(told, dict) or told.get("event") != "error":
        return
    message = str(told.get("message") or "")
    evidence = (Evidence(source, number, printable(f"error: {told.get('stage')}: {message}")[:400]),)
    for line in message.splitlines()[:40]:
        yield Entry(printable(line)[:2000], "text", evidence)
    yield Entry(f"runner: stage={told.get('stage')} message=[{printable(message)[:300]}]", "record", evidence)


def record_entries(raw: bytes, source: str, number: int) -> Iterator[Entry]:
    """Yield what one line of ``results.jsonl`` tells: the verdict, each line of its detail, and what was asked for."""
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError):
        return
    if not isinstance(told, dict) or told.get("record") != "cell":
        return
    verdict, reason, fault = (str(told.get(name) or "") for name in ("verdict", "reason", "fault"))
    if verdict in ("", "ok", "skipped"):
        return
    detail = str(told.get("detail") or "")
    evidence = (Evidence(source, number, printable(f"{verdict}: {reason}: {detail}")[:400]),)
    for line in detail.splitlines()[:40]:
        yield Entry(printable(line)[:2000], "text", evidence)
    config: Any = told.get("config")
    if isinstance(config, dict):
        asked = " ".join(f"{name}={config.get(name)}" for name in ("backend", "threads", "precision"))
        yield Entry(f"record: asked {asked}", "record", evidence)
    yield Entry(
        f"record: verdict={verdict} reason={reason} fault={fault} detail=[{printable(detail)[:300]}]",
        "record",
        evidence,
    )
