"""The rows of ``llm_bench`` in a text, each with the line that it stands on. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.runners.lines import Line
from harness.runners.llm_bench import BenchRow, parse_bench
from harness.triage.entry import Entry


@dataclass(frozen=True)
class Benched:
    """A row and its line; ``in_table`` where it is a table's, not one that somebody wrote down without it."""

    row: BenchRow
    entry: Entry

    @property
    def in_table(self) -> bool:
        """Whether it stands in a table."""
        return "|" in self.entry.text

    def tps(self, phase: str) -> float | None:
        """Return the speed of a phase, in tok/s; ``None`` where the row tells none."""
        return next((speed.tps for speed in self.row.speeds if speed.phase == phase), None)


def bench_rows(entries: Sequence[Entry]) -> tuple[Benched, ...]:
    """Return every row whose line is known, in their order."""
    rows = parse_bench([Line(entry.text) for entry in entries]).rows
    places = {entry.text.strip()[:300]: entry for entry in entries} if rows else {}
    return tuple(Benched(row, places[row.line]) for row in rows if row.line in places)
