"""The battery of one phone as a pure function of time and load.

    current = idle_ma + ma_per_core * busy_cores               drawn by the phone
    d charge / d t = (charge_ma if plugged else 0) - current   in mAh per hour, between empty and full

A load above what the charger gives empties a plugged phone too, as it does on a weak USB port.
"""

from __future__ import annotations

from harness.virtual.traits import Battery

PLUGS = {"none": 0, "ac": 1, "usb": 2, "wireless": 4}
"""Android's numbers of the chargers."""
CHARGING, DISCHARGING, NOT_CHARGING, FULL = 2, 3, 4, 5
EMPTY_MV, FULL_MV = 3450, 4380


class BatteryModel:
    """Charge and current of one phone."""

    def __init__(self, battery: Battery) -> None:
        self.battery = battery
        self.plugged = battery.plugged
        self.charge_mah = battery.capacity_mah * battery.level / 100
        self.current_ma = self._balance(0.0)

    def advance(self, seconds: float, busy_cores: float) -> None:
        """Let time pass under a constant load."""
        self.current_ma = self._balance(busy_cores)
        charge = self.charge_mah + self.current_ma * seconds / 3600
        self.charge_mah = min(max(charge, 0.0), float(self.battery.capacity_mah))

    def _balance(self, busy_cores: float) -> float:
        drawn = self.battery.idle_ma + self.battery.ma_per_core * busy_cores
        given = self.battery.charge_ma if self.plugged != "none" else 0.0
        return given - drawn

    @property
    def level(self) -> int:
        """Percent, as the status bar shows it."""
        return round(100 * self.charge_mah / self.battery.capacity_mah)

    @property
    def status(self) -> int:
        """Android's ``BatteryManager`` status."""
        if self.plugged == "none":
            return DISCHARGING
        if self.level >= 100:
            return FULL
        return CHARGING if self.current_ma > 0 else NOT_CHARGING

    @property
    def voltage_mv(self) -> int:
        """Voltage at rest, linear in the charge."""
        return EMPTY_MV + round((FULL_MV - EMPTY_MV) * self.charge_mah / self.battery.capacity_mah)
