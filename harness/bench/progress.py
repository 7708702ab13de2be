"""How far a run is, for the live display."""

from __future__ import annotations

from collections.abc import Callable

from harness.payload.probe_events import Event
from harness.plan.matrix import PlannedCell, questions_of
from harness.plan.model import Plan

Say = Callable[[str], None]


class Progress:
    """Turns events into the live display: how many generations or inferences are done."""

    def __init__(self, say: Say, cell: PlannedCell, plan: Plan) -> None:
        self._say = say
        self._what = f"{cell.model} {cell.label}"
        self._total = plan.warmups + plan.repeats + len(questions_of(cell, plan))
        self._word = "inference" if cell.tensor else "generation"
        self._mark = f'"{self._word}"'.encode()
        if cell.tensor:
            self._total += plan.tensor.samples
        self._done = 0

    def __call__(self, event: Event) -> None:
        """Take an event."""
        data = getattr(event, "data", None)
        if isinstance(data, bytes) and self._mark in data:
            self._done += data.count(self._mark)
            self._say(f"running {self._what}: {self._word} {min(self._done, self._total)} of {self._total}")
