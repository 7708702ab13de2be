"""The cool-down gate: a burst cell starts below the plan's temperature, or it is marked as started hot."""

from __future__ import annotations

import time
from collections.abc import Callable

from harness.payload.probe import Probe
from harness.phone.facts import read_zones
from harness.phone.thermal import celsius, leading_zone
from harness.plan.model import Cool

POLL_S = 2.0


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
) -> str | None:
    """Wait for the phone to cool down.

    Returns:
        ``None`` when it is cool enough or its temperature could never be read, else the sentence that marks the cell
        hot.
    """
    if cool is None:
        return None
    end = clock() + cool.timeout_s
    seen: tuple[str, float] | None = None
    while (reading := read_celsius(probe) or seen) is not None and reading[1] >= cool.below_c:
        seen = reading  # a zone that falls silent has not become cool
        if clock() >= end:
            return f"{reading[0]} was at {reading[1]:.1f} °C after {cool.timeout_s:g} s (limit {cool.below_c:g} °C)"
        say(f"cooling down: {reading[1]:.1f} °C, waiting for {cool.below_c:g} °C")
        sleep(POLL_S)
    return None
