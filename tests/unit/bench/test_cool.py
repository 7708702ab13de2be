from __future__ import annotations

from typing import cast

import pytest

from harness.bench.cool import POLL_S, read_celsius, wait_until_cool
from harness.payload.probe import Probe
from harness.phone.probed import ProbeFacts, read_probe_facts
from harness.plan.model import Cool


class FakeProbe:
    """Tells one list of zones after the other, the last one for ever."""

    def __init__(self, *readings: object) -> None:
        self.readings = list(readings)

    def facts(self) -> ProbeFacts:
        return read_probe_facts({"zones": self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]})


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def cpu(milli_c: int | None) -> list[dict[str, object]]:
    return [{"zone": 3, "type": "cpu-0-0", "milli_c": milli_c}]


def wait(*readings: object, below_c: float = 38.0, timeout_s: float = 10.0) -> tuple[str | None, float, list[str]]:
    clock, said = Clock(), list[str]()
    probe = cast("Probe", FakeProbe(*readings))
    hot = wait_until_cool(
        probe, Cool(below_c=below_c, timeout_s=timeout_s), said.append, clock=lambda: clock.now, sleep=clock.sleep
    )
    return hot, clock.now, said


def test_a_cool_phone_starts_at_once() -> None:
    assert wait(cpu(37_999)) == (None, 0.0, [])


def test_a_warm_phone_is_waited_for() -> None:
    hot, waited, said = wait(cpu(45_000), cpu(40_000), cpu(36_000))
    assert (hot, waited) == (None, 2 * POLL_S)
    assert said == ["cooling down: 45.0 °C, waiting for 38 °C", "cooling down: 40.0 °C, waiting for 38 °C"]


def test_a_phone_that_stays_hot_is_marked_so_after_the_timeout() -> None:
    hot, waited, _ = wait(cpu(45_000))
    assert hot == "cpu-0-0 was at 45.0 °C after 10 s (limit 38 °C)"
    assert waited == 10.0


def test_a_phone_in_tenths_of_a_degree_is_not_taken_for_frozen() -> None:
    assert wait(cpu(612))[0] == "cpu-0-0 was at 61.2 °C after 10 s (limit 38 °C)"


def test_a_hot_zone_that_falls_silent_has_not_become_cool() -> None:
    assert wait(cpu(60_000), [])[0] == "cpu-0-0 was at 60.0 °C after 10 s (limit 38 °C)"
    assert wait(cpu(60_000), [], cpu(30_000))[0] is None


@pytest.mark.parametrize(
    "zones",
    [
        None,
        [],
        "zones",
        3,
        [None, 1, "x", []],
        [{}],
        [{"type": "cpu-0-0", "milli_c": 50_000}],
        [{"zone": 1, "type": None, "milli_c": 50_000}],
        [{"zone": 1, "type": "cpu-0-0"}],
        [{"zone": 1, "type": "cpu-0-0", "milli_c": "50000"}],
        [{"zone": 1, "type": "cpu-0-0", "milli_c": True}],
        [{"zone": 1, "type": ["cpu"], "milli_c": 50_000}],
        [{"zone": "1", "type": "cpu-0-0", "milli_c": 50_000}],
    ],
)
def test_odd_zones_are_no_temperature(zones: object) -> None:
    assert read_celsius(cast("Probe", FakeProbe(zones))) is None
    assert wait(zones) == (None, 0.0, [])


def test_an_odd_zone_does_not_hide_a_good_one() -> None:
    zones = [None, {"zone": 0, "type": None, "milli_c": 9}, *cpu(31_500)]
    assert read_celsius(cast("Probe", FakeProbe(zones))) == ("cpu-0-0", 31.5)


def test_a_plan_without_the_gate_asks_nothing() -> None:
    assert wait_until_cool(cast("Probe", None), None, print) is None
