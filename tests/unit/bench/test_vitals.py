"""What is asked of Android around runs, and how often."""

from __future__ import annotations

from typing import Any, cast

from harness.bench.vitals import FRESH_S, Vitals
from harness.core.errors import PhoneLostError
from harness.core.transport import ShellResult


class Phone:
    """Its battery falls by one percent with each look at it; the thermal status rises."""

    name = "toy-1"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.now = 0.0
        self.lost = False

    def shell(self, argv: list[str], **_: object) -> ShellResult:
        if self.lost:
            raise PhoneLostError(self.name, "gone")
        self.asked.append(argv[1])
        count = self.asked.count(argv[1])
        text = f"  level: {60 - count}\n" if argv[1] == "battery" else f"Thermal Status: {count}\n"
        return ShellResult(0, text.encode(), b"")


def made() -> tuple[Phone, Vitals]:
    phone = Phone()
    return phone, Vitals(cast("Any", phone), clock=lambda: phone.now)


def after(vitals: Vitals) -> tuple[int | None, int | None]:
    battery = vitals.battery_after()
    return (None if battery is None else battery.level_pct), vitals.status_after().value


def before(vitals: Vitals) -> tuple[int | None, int | None]:
    return vitals.battery_before().level_pct, vitals.status_before().value


def test_what_was_asked_right_after_a_run_is_how_the_phone_stands_before_the_next() -> None:
    phone, vitals = made()
    assert (before(vitals), after(vitals)) == ((59, 1), (58, 2))
    phone.now += FRESH_S - 0.1
    assert before(vitals) == (58, 2)
    assert phone.asked == ["battery", "thermalservice"] * 2


def test_a_phone_that_rested_meanwhile_is_asked_again() -> None:
    phone, vitals = made()
    assert after(vitals) == (59, 1)
    phone.now += FRESH_S
    assert before(vitals) == (58, 2)


def test_what_was_asked_before_a_run_never_counts_after_it() -> None:
    _, vitals = made()
    assert (before(vitals), after(vitals), after(vitals)) == ((59, 1), (58, 2), (57, 3))


def test_nothing_counts_of_a_phone_that_was_away() -> None:
    _, vitals = made()
    after(vitals)
    vitals.forget()
    assert before(vitals) == (58, 2)


def test_a_phone_that_is_lost_after_a_run_costs_these_figures_only() -> None:
    phone, vitals = made()
    after(vitals)
    phone.lost = True
    assert after(vitals) == (None, None)
    phone.lost = False
    assert before(vitals) == (58, 2), "what was asked after the run before that does not count any more"
