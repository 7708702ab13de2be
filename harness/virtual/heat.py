"""Heat of one phone as a pure function of time and load.

Two bodies, the chip and the skin, each of first order (one thermal resistance ``R``, one time constant ``tau``), each
counted as its rise above the phone's idle temperature:

    P      = watts_per_core * busy_cores * cap**2
    d rise / d t = (R * P - rise) / tau            so after a time t of constant P
    rise(t) = R * P + (rise(0) - R * P) * exp(-t / tau)

``busy_cores`` is the CPU time that the phone's processes really got, in cores of this PC, so halving their cycles
halves it; ``cap**2`` is the lower voltage of a lower clock. Both together make power fall with the cube of the clock.

The governor looks at the chip every ``step_s``: at ``trip_c`` or above it goes one step down the list ``caps``, at
``trip_c - hysteresis_c`` or below one step up. The first step is taken as soon as the trip is reached, that is after
``-tau * ln(1 - (trip_c - idle_c) / (R * P))`` of constant load.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from harness.virtual.traits import Heat

COLD_C = 0.02
"""A rise below this is none."""


def seconds_to_trip(heat: Heat, busy_cores: float) -> float:
    """Return after how many seconds of this load an idle phone throttles; infinite if it never does."""
    target = heat.chip_c_per_watt * heat.watts_per_core * busy_cores
    needed = heat.trip_c - heat.idle_c
    return -heat.chip_tau_s * math.log(1 - needed / target) if target > needed else math.inf


def trip_under_load(heat: Heat, load: Iterable[tuple[float, float]], chip_rise_c: float = 0.0) -> float:
    """Return after how many seconds a phone throttles under a load that changes; infinite if it never does.

    ``load`` is a sequence of spans: how long in s (short, see :meth:`HeatModel.advance`) and how many cores were busy;
    ``chip_rise_c`` is how much warmer than idle the chip is at first.
    """
    model, now_s = HeatModel(heat), 0.0
    model.chip_rise_c = chip_rise_c
    for seconds, busy_cores in load:
        model.advance(seconds, busy_cores)
        now_s += seconds
        if model.step:
            return now_s
    return math.inf


class HeatModel:
    """Temperatures and throttling step of one phone. Starts idle."""

    def __init__(self, heat: Heat) -> None:
        self.heat = heat
        self.chip_rise_c = 0.0
        self.skin_rise_c = 0.0
        self.step = 0
        self._since_step_s = heat.step_s

    @property
    def chip_c(self) -> float:
        """The chip's temperature."""
        return self.heat.idle_c + self.chip_rise_c

    @property
    def cap(self) -> float:
        """Share of the highest clock that is allowed now."""
        return self.heat.caps[self.step]

    @property
    def is_cold(self) -> bool:
        """Whether nothing will change while nothing runs."""
        return self.step == 0 and self.chip_rise_c < COLD_C and self.skin_rise_c < COLD_C

    def advance(self, seconds: float, busy_cores: float) -> None:
        """Let time pass under a constant load.

        ``seconds`` should be short beside ``chip_tau_s`` and at most ``step_s``: the governor looks once a call.
        """
        heat = self.heat
        watts = heat.watts_per_core * busy_cores * self.cap**2
        self.chip_rise_c = _approach(self.chip_rise_c, heat.chip_c_per_watt * watts, seconds / heat.chip_tau_s)
        self.skin_rise_c = _approach(self.skin_rise_c, heat.skin_c_per_watt * watts, seconds / heat.skin_tau_s)
        if busy_cores == 0 and self.chip_rise_c < COLD_C and self.skin_rise_c < COLD_C:
            self.chip_rise_c = self.skin_rise_c = 0.0
        self._since_step_s += seconds
        if self._since_step_s < heat.step_s:
            return
        if self.chip_c >= heat.trip_c and self.step < len(heat.caps) - 1:
            self.step += 1
            self._since_step_s = 0.0
        elif self.chip_c <= heat.trip_c - heat.hysteresis_c and self.step > 0:
            self.step -= 1
            self._since_step_s = 0.0

    def warm_to(self, chip_c: float) -> None:
        """Set the chip's temperature, as a fault does."""
        self.chip_rise_c = max(0.0, chip_c - self.heat.idle_c)


def _approach(value: float, target: float, exponent: float) -> float:
    return target + (value - target) * math.exp(-exponent)


def thermal_status(limits_c: Sequence[float], celsius: float) -> int:
    """Return Android's status (0 none … 6 shutdown) of a sensor with these limits; ``nan`` is no limit."""
    return max((state for state, limit in enumerate(limits_c) if celsius >= limit), default=0)
