"""What is particular about running a sustained cell: how often it is sampled, and how its progress is told."""

from __future__ import annotations

from collections.abc import Callable

from harness.payload.probe_events import Event
from harness.plan.matrix import PlannedCell
from harness.plan.model import Plan

# Ten samples a second; fewer in a run of more than ten minutes, so that its events do not fill a phone, but enough to
# date a fall of clocks within half a second.
_USUAL_MS, _SLOWEST_MS = 100, 500
_MOST_SAMPLES = 6000
_TOLD_EVERY_S = 5.0


def interval_ms(duration_s: float | None) -> int:
    """Return the time between two samples of the probe; ``None`` is the duration of a burst cell."""
    wanted_ms = int((duration_s or 0.0) * 1000 / _MOST_SAMPLES)
    return min(max(_USUAL_MS, wanted_ms), _SLOWEST_MS)


class SustainedProgress:
    """Turns events into the live display: how much of its time a sustained cell has run, and its generations."""

    def __init__(self, say: Callable[[str], None], cell: PlannedCell, plan: Plan) -> None:
        self._say = say
        self._what = f"{cell.model} {cell.label}"
        self._duration_s = plan.duration_s or 0.0
        self._warmups = plan.warmups
        self._done = 0
        self._begun_ns: int | None = None
        self._told_ns = 0

    def __call__(self, event: Event) -> None:
        """Take an event. Time counts from the end of the warm-ups, by the phone's clock."""
        data = getattr(event, "data", None)
        if isinstance(data, bytes):
            # Without a warm-up it is the load's end.
            self._done += data.count(b'"generation"')
            ready = self._done >= self._warmups if self._warmups else b'"load"' in data
            if ready and self._begun_ns is None:
                self._begun_ns = self._told_ns = event.mono_ns
        if self._begun_ns is not None and event.mono_ns - self._told_ns >= _TOLD_EVERY_S * 1e9:
            self._told_ns = event.mono_ns
            ran_s = min((event.mono_ns - self._begun_ns) / 1e9, self._duration_s)
            timed = max(0, self._done - self._warmups)
            self._say(f"running {self._what}: {ran_s:.0f} s of {self._duration_s:g} s, {timed} generations")
