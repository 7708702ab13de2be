from __future__ import annotations

import math

import pytest

from harness.virtual.heat import HeatModel, seconds_to_trip, thermal_status, trip_under_load
from harness.virtual.profile import load_profile, profile_names
from harness.virtual.traits import Heat

TICK_S = 0.05
# Reaches 30 + 40 °C in the end under one busy core, trips at 50: after 100 * ln 2 seconds.
HEAT = Heat(
    watts_per_core=4.0, chip_c_per_watt=10.0, chip_tau_s=100.0, skin_c_per_watt=3.0, skin_tau_s=300.0,
    idle_c=30.0, trip_c=50.0, hysteresis_c=18.0, step_s=1.0, caps=(1.0, 0.7, 0.5),
)  # fmt: skip


def run(model: HeatModel, seconds: float, cores: float) -> None:
    """``cores`` is what the load would use at the full clock; it gets its share of it."""
    for _ in range(round(seconds / TICK_S)):
        model.advance(TICK_S, cores * model.cap)


def first_throttle_s(model: HeatModel, cores: float, most_s: float) -> float:
    now_s = 0.0
    while model.step == 0 and now_s < most_s:
        model.advance(TICK_S, cores * model.cap)
        now_s += TICK_S
    return now_s


def test_the_modelled_second_is_that_of_the_equation() -> None:
    assert seconds_to_trip(HEAT, 1.0) == pytest.approx(100 * math.log(2))
    assert seconds_to_trip(HEAT, 0.5) == math.inf


@pytest.mark.parametrize("cores", [0.8, 1.0, 2.0, 4.0])
def test_the_phone_throttles_at_the_modelled_second(cores: float) -> None:
    modelled_s = seconds_to_trip(HEAT, cores)
    assert first_throttle_s(HeatModel(HEAT), cores, 1000) == pytest.approx(modelled_s, rel=0.05)


def test_a_load_that_stays_below_the_trip_never_throttles() -> None:
    model = HeatModel(HEAT)
    run(model, 3000, 0.49)
    assert model.step == 0
    assert model.chip_c == pytest.approx(30 + 0.49 * 40, rel=0.01)


def test_the_clock_falls_step_by_step_and_not_faster_than_the_governor() -> None:
    model = HeatModel(HEAT)
    first_throttle_s(model, 4.0, 1000)
    assert model.cap == 0.7
    run(model, 0.9, 4.0)
    assert model.cap == 0.7
    run(model, 0.2, 4.0)
    assert model.cap == 0.5


def test_under_load_it_settles_at_the_modelled_ratio() -> None:
    # At 0.7 it would reach 30 + 40 * 0.7**3 = 43.7 °C: below the trip, above 50 - 18, so it stays there.
    model = HeatModel(HEAT)
    run(model, 400, 1.0)
    ratios = []
    for _ in range(2000):
        run(model, TICK_S, 1.0)
        ratios.append(model.cap)
    assert sum(ratios) / len(ratios) == pytest.approx(0.7, rel=0.05)
    assert model.chip_c == pytest.approx(30 + 40 * 0.7**3, rel=0.05)


def test_cooling_takes_it_back() -> None:
    model = HeatModel(HEAT)
    run(model, 400, 1.0)
    rise_c = model.chip_rise_c
    # Up again when the rise has fallen to 2 °C, at the modelled second.
    back_s = HEAT.chip_tau_s * math.log(rise_c / 2.0)
    run(model, back_s * 0.95, 0.0)
    assert model.cap == 0.7
    run(model, back_s * 0.1, 0.0)
    assert model.cap == 1.0
    run(model, 3000, 0.0)
    assert (model.chip_c, model.is_cold) == (30.0, True)


def test_the_skin_follows_more_slowly() -> None:
    model = HeatModel(HEAT)
    run(model, 60, 1.0)
    assert model.skin_rise_c == pytest.approx(12 * (1 - math.exp(-60 / 300)), rel=0.05)
    assert model.skin_rise_c < model.chip_rise_c / 4


def test_one_long_step_and_many_short_ones_warm_alike() -> None:
    many, one = HeatModel(HEAT), HeatModel(HEAT)
    run(many, 10, 1.0)
    one.advance(10, 1.0)
    assert one.chip_rise_c == pytest.approx(many.chip_rise_c)


def test_the_status_is_the_highest_limit_that_was_reached() -> None:
    limits = (math.nan, 38.0, 41.0, 44.0, math.nan, math.nan, 56.0)
    assert [thermal_status(limits, celsius) for celsius in (37.9, 38.0, 43.9, 50.0, 60.0)] == [0, 1, 2, 3, 6]


@pytest.mark.parametrize("load", [1.0, 2.0])
def test_the_second_of_throttling_under_a_load_is_that_of_the_equation(load: float) -> None:
    spans = [(TICK_S, load)] * 4000
    assert trip_under_load(HEAT, spans) == pytest.approx(seconds_to_trip(HEAT, load), abs=2 * TICK_S)
    assert trip_under_load(HEAT, spans, chip_rise_c=10.0) < 0.75 * trip_under_load(HEAT, spans)


def test_a_load_that_pauses_throttles_later_or_never() -> None:
    steady = trip_under_load(HEAT, [(TICK_S, 1.0)] * 4000)
    assert trip_under_load(HEAT, [(TICK_S, 1.0), (TICK_S, 0.4)] * 4000) > 1.3 * steady
    assert trip_under_load(HEAT, [(TICK_S, 0.5)] * 4000) == math.inf


# Phones that are there to get hot.
@pytest.mark.parametrize("name", [name for name in profile_names() if not name.endswith(("-hot", "-soak", "-quick"))])
def test_a_short_plan_on_an_idle_phone_starts_cool_and_is_not_throttled(name: str) -> None:
    model = HeatModel(load_profile(name).heat)
    run(model, 25, 2.0)
    assert model.step == 0
    assert model.chip_c < 41.0
    run(model, 40, 0.0)
    assert model.chip_c < 38.0


def test_two_phones_do_not_warm_each_other() -> None:
    busy, idle = HeatModel(HEAT), HeatModel(HEAT)
    run(busy, 100, 2.0)
    run(idle, 100, 0.0)
    assert idle.chip_c == 30.0
    assert busy.step > 0
