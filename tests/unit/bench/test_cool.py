from __future__ import annotations

from typing import cast

import pytest

from harness.bench.cool import PLATEAU_WINDOW_S, POLL_S, Cooled, read_celsius, wait_until_cool
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


UNREADABLE = Cooled(note="no temperature can be read on this phone")


def wait(*readings: object, timeout_s: float = 10.0, **cool: float) -> tuple[Cooled, float, list[str]]:
    clock, said = Clock(), list[str]()
    cooled = wait_until_cool(
        cast("Probe", FakeProbe(*readings)),
        Cool(timeout_s=timeout_s, **cool),
        said.append,
        clock=lambda: clock.now,
        sleep=clock.sleep,
    )
    return cooled, clock.now, said


def falling(start_c: float, c_per_min: float) -> list[object]:
    """Readings at every poll, down to 30 °C."""
    polls = int((start_c - 30) / c_per_min * 60 / POLL_S)
    return [cpu(round(1000 * (start_c - c_per_min * poll * POLL_S / 60))) for poll in range(polls)]


def test_a_cool_phone_starts_at_once() -> None:
    assert wait(cpu(37_999)) == (Cooled(), 0.0, [])


def test_a_warm_phone_is_waited_for() -> None:
    cooled, waited, said = wait(cpu(45_000), cpu(40_000), cpu(36_000))
    assert (cooled, waited) == (Cooled(), 2 * POLL_S)
    assert said == ["cooling down: 45.0 °C, waiting for 38 °C", "cooling down: 40.0 °C, waiting for 38 °C"]


def test_a_phone_that_stays_hot_is_marked_so_after_the_timeout() -> None:
    cooled, waited, _ = wait(cpu(45_000))
    assert cooled == Cooled(hot="cpu-0-0 was at 45.0 °C after 10 s (limit 38 °C)")
    assert waited == 10.0


def test_a_phone_that_no_longer_cools_starts_on_its_plateau_and_that_is_noted() -> None:
    cooled, waited, _ = wait(cpu(41_000), timeout_s=600, plateau_c_per_min=0.5)
    assert cooled.hot is None
    assert cooled.note == (
        "cpu-0-0 stays at 41.0 °C, within 0.5 °C a minute: above 38 °C, but as cool as the phone gets here"
    )
    assert waited == PLATEAU_WINDOW_S


def test_without_a_plateau_in_the_plan_there_is_none() -> None:
    assert wait(cpu(41_000), timeout_s=600)[0].hot is not None


def test_a_plateau_far_above_the_limit_is_hot() -> None:
    assert wait(cpu(43_001), timeout_s=600, plateau_c_per_min=0.5)[0].hot is not None
    assert wait(cpu(43_000), timeout_s=600, plateau_c_per_min=0.5)[0].hot is None
    assert wait(cpu(41_001), timeout_s=600, plateau_c_per_min=0.5, plateau_max_c=41.0)[0].hot is not None
    assert wait(cpu(45_000), timeout_s=600, plateau_c_per_min=0.5, plateau_max_c=45.0)[0].hot is None


def test_a_phone_that_still_cools_is_waited_for_until_it_is_cool() -> None:
    cooled, waited, _ = wait(*falling(42.0, 0.6), timeout_s=600, plateau_c_per_min=0.5)
    assert cooled == Cooled()
    assert waited == pytest.approx(400, abs=2 * POLL_S)


def test_a_phone_that_cools_more_slowly_than_the_plan_waits_for_is_on_a_plateau() -> None:
    cooled, waited, _ = wait(*falling(42.0, 0.4), timeout_s=600, plateau_c_per_min=0.5)
    assert (cooled.hot, waited) == (None, PLATEAU_WINDOW_S)
    assert cooled.note.startswith("cpu-0-0 stays at 41.2 °C")


def test_a_skin_that_still_warms_after_a_load_is_no_plateau() -> None:
    rising = [cpu(40_000 + 20 * poll) for poll in range(150)]
    assert wait(*rising, timeout_s=250, plateau_c_per_min=0.5)[0].hot is not None


def test_the_top_of_a_curve_is_no_plateau() -> None:
    top = [cpu(42_000 - abs(poll - 30) * 60) for poll in range(61)]
    assert wait(*top, timeout_s=120, plateau_c_per_min=0.5)[0].hot is not None


def test_another_zone_that_begins_to_speak_begins_a_new_window() -> None:
    skin = [{"zone": 4, "type": "skin-therm", "milli_c": 41_000}]
    cooled, waited, _ = wait(*[cpu(41_000)] * 30, skin, timeout_s=600, plateau_c_per_min=0.5)
    assert cooled.note.startswith("skin-therm stays at 41.0 °C")
    assert waited == 30 * POLL_S + PLATEAU_WINDOW_S


def test_a_zone_that_fell_silent_is_on_no_plateau() -> None:
    assert wait(*[cpu(41_000)] * 50, [], timeout_s=300, plateau_c_per_min=0.5)[0].hot is not None


def test_a_phone_in_tenths_of_a_degree_is_not_taken_for_frozen() -> None:
    assert wait(cpu(612))[0].hot == "cpu-0-0 was at 61.2 °C after 10 s (limit 38 °C)"


def test_a_hot_zone_that_falls_silent_has_not_become_cool() -> None:
    assert wait(cpu(60_000), [])[0].hot == "cpu-0-0 was at 60.0 °C after 10 s (limit 38 °C)"
    assert wait(cpu(60_000), [], cpu(30_000))[0] == Cooled()


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
    assert wait(zones) == (UNREADABLE, 0.0, [])


def test_an_odd_zone_does_not_hide_a_good_one() -> None:
    zones = [None, {"zone": 0, "type": None, "milli_c": 9}, *cpu(31_500)]
    assert read_celsius(cast("Probe", FakeProbe(zones))) == ("cpu-0-0", 31.5)


def test_a_plan_without_the_gate_asks_nothing() -> None:
    assert wait_until_cool(cast("Probe", None), None, print) == Cooled()
