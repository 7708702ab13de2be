"""The cool-down gate: a burst cell starts below the plan's temperature, or it is marked as started hot."""

from __future__ import annotations

import time
from collections.abc import Callable

from harness.payload.probe import Probe
from harness.phone.thermal import celsius, leading_zone
from harness.plan.model import Cool

POLL_S = 2.0


def read_celsius(probe: Probe) -> tuple[str, float] | None:
    """Return name and temperature of the zone that speaks for the phone; ``None`` when none is readable."""
    zones = probe.facts().get("zones") or []
    types = [zone["type"] for zone in zones]
    raws = [zone.get("milli_c") for zone in zones]
    position = leading_zone(types, raws)
    value = None if position is None else celsius(types[position], raws[position])
    return None if position is None or value is None else (types[position], value)


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
        ``None`` when it is cool enough or its temperature cannot be read, else the sentence that marks the cell hot.
    """
    if cool is None:
        return None
    end = clock() + cool.timeout_s
    while (reading := read_celsius(probe)) is not None and reading[1] >= cool.below_c:
        if clock() >= end:
            return f"{reading[0]} was at {reading[1]:.1f} °C after {cool.timeout_s:g} s (limit {cool.below_c:g} °C)"
        say(f"cooling down: {reading[1]:.1f} °C, waiting for {cool.below_c:g} °C")
        sleep(POLL_S)
    return None
