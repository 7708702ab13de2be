from __future__ import annotations

import pytest

from harness.core.errors import PhoneError
from harness.core.reasons import Reason
from harness.phone.battery import Battery
from harness.phone.charge import POLL_S, charge_gate, refuse_for_ever_low


def battery(
    level: int | None, status: str | None = "charging", plugged: str | None = "usb", *, overridden: bool = False
) -> Battery:
    nulls = {"level_pct": "no such line"} if level is None else {}
    return Battery(level, 30.0, plugged, status, "good", 3900, overridden, nulls)


def gate(*readings: Battery, floor_pct: int = 20, timeout_s: float = 100.0) -> tuple[str, float, list[str]]:
    """The note, the seconds waited and what was said; the last reading stays for ever."""
    left, said, now = list(readings), list[str](), [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    note = charge_gate(
        lambda: left.pop(0) if len(left) > 1 else left[0],
        floor_pct,
        timeout_s,
        said.append,
        phone="toy-1",
        clock=lambda: now[0],
        sleep=sleep,
    )
    return note, now[0], said


def refusal(*readings: Battery, timeout_s: float = 100.0) -> str:
    with pytest.raises(PhoneError) as caught:
        gate(*readings, timeout_s=timeout_s)
    assert caught.value.reason is Reason.LOW_BATTERY
    assert caught.value.infra
    return str(caught.value)


def test_a_phone_at_the_floor_goes_on_at_once() -> None:
    assert gate(battery(20, "discharging", "none")) == ("", 0.0, [])


def test_a_phone_that_charges_is_waited_for() -> None:
    note, waited, said = gate(battery(18), battery(19), battery(20))
    assert (note, waited) == ("", 2 * POLL_S)
    assert said == ["charging: 18 %, waiting for 20 %", "charging: 19 %, waiting for 20 %"]


def test_a_phone_that_charges_too_slowly_is_given_up_at_the_timeout() -> None:
    assert refusal(battery(12)) == (
        "toy-1: the battery is at 12 % after 100 s, below the floor of 20 % (on usb, charging): "
        "charge it, or lower battery_floor_pct in the plan's [prepare]"
    )


def test_without_patience_a_charging_phone_is_given_up_at_once() -> None:
    assert "at 12 % after 0 s" in refusal(battery(12), timeout_s=0)


@pytest.mark.parametrize(
    ("reading", "says"),
    [
        (battery(7, "discharging", "none"), "at 7 %, below the floor of 20 % (on no charger, discharging)"),
        (battery(7, "not_charging", "ac"), "(on ac, not charging)"),
        (battery(7, None, "none"), "(on no charger, status unknown)"),
        (battery(7, "unknown", None), "(charger unknown, unknown)"),
        (
            battery(7, overridden=True),
            "at 7 %, below the floor of 20 % (on usb, charging, readings frozen by dumpsys battery)",
        ),
    ],
)
def test_a_phone_whose_level_will_not_rise_is_not_waited_for(reading: Battery, says: str) -> None:
    said = refusal(reading)
    assert says in said
    assert "after" not in said


def test_a_phone_that_is_unplugged_while_it_charges_is_given_up() -> None:
    assert "on no charger" in refusal(battery(15), battery(15, "discharging", "none"))


@pytest.mark.parametrize("status", [None, "unknown"])
def test_a_plugged_phone_that_does_not_tell_whether_it_charges_is_waited_for(status: str | None) -> None:
    assert gate(battery(19, status, "ac"), battery(20, status, "ac"))[1] == POLL_S


def test_an_unknown_level_is_noted_and_goes_on() -> None:
    assert gate(battery(None)) == ("the battery's level is unknown (no such line)", 0.0, [])


def test_frozen_readings_above_the_floor_are_noted() -> None:
    assert gate(battery(90, overridden=True))[0] == (
        "the battery's readings are frozen (dumpsys battery reset thaws them)"
    )


def test_a_plan_without_a_floor_does_not_read_the_battery() -> None:
    def unread() -> Battery:
        raise AssertionError

    assert charge_gate(unread, 0, 10.0, print, phone="toy-1") == ""


def test_a_phone_that_is_low_and_does_not_charge_is_refused_before_anything_is_done() -> None:
    with pytest.raises(PhoneError, match=r"the battery is at 9 %, below the floor of 20 %") as caught:
        refuse_for_ever_low(battery(9, "discharging", "none"), 20, "toy-1")
    assert caught.value.reason is Reason.LOW_BATTERY


@pytest.mark.parametrize(
    "reading", [None, battery(None), battery(20, "discharging", "none"), battery(9)], ids=lambda one: repr(one)[:30]
)
def test_one_that_charges_or_does_not_tell_is_not(reading: Battery | None) -> None:
    refuse_for_ever_low(reading, 20, "toy-1")
