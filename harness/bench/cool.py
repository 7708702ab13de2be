"""The cool-down gate: a burst cell starts below the plan's temperature or on a plateau near it, or is marked hot."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from harness.payload.probe import Probe
from harness.phone.facts import read_zones
from harness.phone.thermal import celsius, leading_zone
from harness.plan.model import Cool

POLL_S = 2.0
# Long enough that a sensor in whole degrees moves in it, short enough to fit into a sensible timeout.
PLATEAU_WINDOW_S = 120.0


@dataclass(frozen=True)
class Cooled:
    """How the wait ended: ``hot`` is the sentence that marks the cell hot, ``note`` what else there is to know."""

    hot: str | None = None
    note: str = ""


def read_celsius(probe: Probe) -> tuple[str, float] | None:
    """Return name and temperature of the zone that speaks for the phone; ``None`` when none is readable."""
    zones = read_zones(probe.facts())
    position = leading_zone([zone.type for zone in zones], [zone.milli_c for zone in zones])
    if position is None:
        return None
    value = celsius(zones[position].type, zones[position].milli_c)
    return None if value is None else (zones[position].type, value)


def wait_until_cool(
    probe: Probe,
    cool: Cool | None,
    say: Callable[[str], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Cooled:
    """Wait for the phone to cool down.

    It is cool below the plan's limit, as cool as it gets on a plateau up to the plan's highest, and not known to be
    hot when its temperature could never be read.
    """
    if cool is None:
        return Cooled()
    end = clock() + cool.timeout_s
    seen: tuple[str, float] | None = None
    window = _Window()
    while True:
        reading = read_celsius(probe)
        now = clock()
        if reading is not None:
            seen = reading
            window.add(now, reading)
        if seen is None:
            return Cooled(note="no temperature can be read on this phone")
        zone, value = seen  # a zone that falls silent has not become cool
        if value < cool.below_c:
            return Cooled()
        if value <= cool.plateau_limit_c and window.is_flat(cool.plateau_c_per_min):
            return Cooled(
                note=f"{zone} stays at {value:.1f} °C, within {cool.plateau_c_per_min:g} °C a minute: "
                f"above {cool.below_c:g} °C, but as cool as the phone gets here"
            )
        if now >= end:
            return Cooled(hot=f"{zone} was at {value:.1f} °C after {cool.timeout_s:g} s (limit {cool.below_c:g} °C)")
        say(f"cooling down: {value:.1f} °C, waiting for {cool.below_c:g} °C")
        sleep(POLL_S)


class _Window:
    """The readings of the last :data:`PLATEAU_WINDOW_S` of one zone."""

    def __init__(self) -> None:
        self._zone = ""
        self._readings: deque[tuple[float, float]] = deque()

    def add(self, at_s: float, reading: tuple[str, float]) -> None:
        """Take a reading; another zone that now speaks for the phone begins anew."""
        zone, value = reading
        if zone != self._zone:
            self._zone = zone
            self._readings.clear()
        self._readings.append((at_s, value))
        # The one at the window's edge is kept, so that what is left spans the whole window.
        while len(self._readings) > 1 and at_s - self._readings[1][0] >= PLATEAU_WINDOW_S:
            self._readings.popleft()

    def is_flat(self, c_per_min: float | None) -> bool:
        """Whether the temperature moved, up or down, by less than that: a skin that still warms is no plateau."""
        if c_per_min is None or self._readings[-1][0] - self._readings[0][0] < PLATEAU_WINDOW_S:
            return False
        values = [value for _, value in self._readings]
        return max(values) - min(values) <= c_per_min * PLATEAU_WINDOW_S / 60
