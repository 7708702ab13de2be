"""Decode speed by depth of history: each token reads what was said before it too. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.report.sweeps import label_of, speed_of, sweeps_of
from harness.report.text import number
from harness.store.schema import CellRecord


@dataclass(frozen=True)
class Depths:
    """The same cell at several depths of history: ``(tokens, tok/s)`` each, and one line for people."""

    label: str
    points: tuple[tuple[int, float], ...]
    says: str


def depths_of(records: Sequence[CellRecord]) -> list[Depths]:
    """Return the cells of one phone that were measured at more than one depth."""
    found = []
    for group in sweeps_of(records, "context_tokens"):
        points = tuple((record.config.context_tokens, speed_of(record)[0]) for record in group)
        speeds = " → ".join(number(tps) for _, tps in points)
        at = "/".join(_tokens(tokens) for tokens, _ in points)
        threads = f" · {group[0].config.threads} threads" if group[0].config.backend == "cpu" else ""
        label = label_of(group[0], without="context") + threads
        found.append(Depths(label, points, f"decode {speeds} tok/s at {at} tokens of history"))
    return found


def _tokens(count: int) -> str:
    return f"{count // 1024}k" if count and count % 1024 == 0 else str(count)
