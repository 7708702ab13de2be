from __future__ import annotations

from harness.virtual.power import DEFAULT_TIMEOUT_S, SUSPEND_AFTER_S, PowerState


def test_the_screen_goes_off_by_itself_and_a_plugged_phone_does_not_suspend() -> None:
    power = PowerState(0.0)
    assert not power.advance(DEFAULT_TIMEOUT_S - 1, plugged=True)
    assert power.advance(DEFAULT_TIMEOUT_S, plugged=True)
    power.advance(DEFAULT_TIMEOUT_S * 2, plugged=True)
    assert (power.wakefulness, power.suspends) == ("Asleep", False)


def test_an_unplugged_phone_suspends_some_time_after_its_screen() -> None:
    power = PowerState(0.0)
    power.apply({"wakefulness": "Asleep"}, 10.0)
    power.advance(10.0 + SUSPEND_AFTER_S - 0.1, plugged=False)
    assert not power.suspends
    power.advance(10.0 + SUSPEND_AFTER_S, plugged=False)
    assert power.suspends
    power.apply({"wakefulness": "Awake"}, 20.0)
    assert (power.wakefulness, power.suspends) == ("Awake", False)


def test_a_phone_told_to_stay_on_while_plugged_does() -> None:
    power = PowerState(0.0)
    power.apply({"stay_on": 7, "screen_off_timeout_ms": 5000}, 0.0)
    power.advance(100.0, plugged=True)
    assert power.wakefulness == "Awake"
    power.advance(100.0, plugged=False)
    assert power.wakefulness == "Asleep"


def test_nonsense_from_the_phone_changes_nothing() -> None:
    power = PowerState(0.0)
    power.apply({"stay_on": [], "screen_off_timeout_ms": "x", "wakefulness": 3}, 0.0)
    power.apply({"screen_off_timeout_ms": 10**400}, 0.0)
    assert power.wakefulness == "Awake"
    power.advance(DEFAULT_TIMEOUT_S - 1, plugged=False)
    assert power.wakefulness == "Awake"
