from __future__ import annotations

import pytest

from harness.virtual.battery import BatteryModel
from harness.virtual.traits import Battery

BATTERY = Battery(capacity_mah=4000, level=50, plugged="usb", charge_ma=460.0, idle_ma=60.0, ma_per_core=500.0)


def test_an_idle_phone_on_the_cable_charges_at_what_is_left_over() -> None:
    model = BatteryModel(BATTERY)
    model.advance(3600, 0.0)
    assert model.charge_mah == pytest.approx(2400)
    assert (model.level, model.status) == (60, 2)


def test_load_empties_an_unplugged_phone() -> None:
    model = BatteryModel(BATTERY)
    model.plugged = "none"
    model.advance(3600, 2.0)
    assert model.charge_mah == pytest.approx(2000 - 1060)
    assert model.status == 3


def test_a_load_above_the_charger_empties_a_plugged_phone() -> None:
    model = BatteryModel(BATTERY)
    model.advance(3600, 2.0)
    assert model.charge_mah == pytest.approx(2000 - 600)
    assert model.status == 4


def test_it_ends_at_full_and_at_empty() -> None:
    model = BatteryModel(BATTERY)
    model.advance(100 * 3600, 0.0)
    assert (model.level, model.status, model.voltage_mv) == (100, 5, 4380)
    model.plugged = "none"
    model.advance(1000 * 3600, 1.0)
    assert (model.level, model.voltage_mv) == (0, 3450)
