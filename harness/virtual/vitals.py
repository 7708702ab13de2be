"""The state of one phone at one moment, and what its files and its services say then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.virtual.battery import PLUGS, BatteryModel
from harness.virtual.profile import Cluster, Profile, Zone

POWER = "/sys/class/power_supply"
CPUFREQ = "/sys/devices/system/cpu/cpufreq"
THERMAL = "/sys/devices/virtual/thermal"
KGSL = "/sys/class/kgsl/kgsl-3d0"
_STATUS_WORDS = {2: "Charging", 3: "Discharging", 4: "Not charging", 5: "Full"}
_BATTERY_SHARE = 0.6
"""The battery's rise, as a share of the skin's."""


@dataclass(frozen=True)
class Charge:
    """The battery: ``plugged`` and ``status`` are Android's numbers, currents flow in when positive."""

    level: int
    plugged: int
    status: int
    voltage_mv: int
    current_ma: int
    counter_uah: int


@dataclass(frozen=True)
class Vitals:
    """Rises are in °C above idle, ``step`` counts the governor's steps down, ``used_kb`` is what processes hold."""

    charge: Charge
    chip_rise_c: float = 0.0
    skin_rise_c: float = 0.0
    step: int = 0
    busy: bool = False
    wakefulness: str = "Awake"
    suspended: bool = False


def charge_of(model: BatteryModel) -> Charge:
    """Return what the battery model says now."""
    return Charge(
        level=model.level,
        plugged=PLUGS[model.plugged],
        status=model.status,
        voltage_mv=model.voltage_mv,
        current_ma=round(model.current_ma),
        counter_uah=round(model.charge_mah) * 1000,
    )


def idle(profile: Profile) -> Vitals:
    """Return the state of a phone that has just started."""
    return Vitals(charge_of(BatteryModel(profile.battery)))


def zone_raw(zone: Zone, vitals: Vitals) -> int:
    """Return the number in a zone's ``temp`` file, in steps of a twentieth of a degree as a converter has them."""
    rise_c = {"chip": vitals.chip_rise_c, "skin": vitals.skin_rise_c, "fixed": 0.0}[zone.node]
    grain = max(1, zone.per_degree // 20)
    return zone.raw + round(rise_c * zone.gain * zone.per_degree / grain) * grain


def battery_decicelsius(profile: Profile, vitals: Vitals) -> int:
    """Return the battery's temperature in tenths of a degree."""
    return profile.battery.idle_decicelsius + round(10 * _BATTERY_SHARE * vitals.skin_rise_c)


def clusters(profile: Profile) -> Iterator[tuple[int, Cluster]]:
    """Yield each cluster with the number of its first core."""
    first = 0
    for cluster in profile.cpu.clusters:
        yield first, cluster
        first += cluster.cores


def cooling_names(profile: Profile) -> list[str]:
    """Return the name of each cluster's cooling device."""
    by_core = profile.thermal.cooling_by_core
    numbers = [first if by_core else index for index, (first, _) in enumerate(clusters(profile))]
    return [f"{profile.thermal.cooling_name}{number}" for number in numbers]


def sysfs_texts(profile: Profile, vitals: Vitals) -> Iterator[tuple[str, str]]:
    """Yield path and text of every file under ``/sys`` that changes while the phone runs."""
    cap = profile.heat.caps[vitals.step]
    for index, (first, cluster) in enumerate(clusters(profile)):
        allowed = cluster.allowed_khz(cap)
        current = allowed if vitals.busy else min(cluster.idle_khz, allowed)
        yield f"{CPUFREQ}/policy{first}/scaling_max_freq", f"{allowed}\n"
        yield f"{CPUFREQ}/policy{first}/scaling_cur_freq", f"{current}\n"
        yield f"{THERMAL}/cooling_device{index}/cur_state", f"{vitals.step}\n"
    for number, zone in enumerate(profile.zones):
        yield f"{THERMAL}/thermal_zone{number}/temp", f"{zone_raw(zone, vitals)}\n"
    charge = vitals.charge
    yield f"{POWER}/battery/capacity", f"{charge.level}\n"
    yield f"{POWER}/battery/status", f"{_STATUS_WORDS[charge.status]}\n"
    yield f"{POWER}/battery/temp", f"{battery_decicelsius(profile, vitals)}\n"
    yield f"{POWER}/battery/voltage_now", f"{charge.voltage_mv * 1000}\n"
    yield f"{POWER}/battery/current_now", f"{charge.current_ma * 1000}\n"
    yield f"{POWER}/battery/charge_counter", f"{charge.counter_uah}\n"
    yield f"{POWER}/usb/online", f"{int(charge.plugged == PLUGS['usb'])}\n"
    yield f"{POWER}/ac/online", f"{int(charge.plugged == PLUGS['ac'])}\n"


def service_state(profile: Profile, vitals: Vitals, asked: int) -> dict[str, Any]:
    """Return what the phone's services are told (``now.json``); ``asked`` is the last request that is included."""
    charge = vitals.charge
    return {
        "asked": asked,
        "zones": {
            zone.type: zone_raw(zone, vitals) / zone.per_degree for zone in profile.zones
        },
        "step": vitals.step,
        "battery": {
            "level": charge.level,
            "plugged": charge.plugged,
            "status": charge.status,
            "voltage": charge.voltage_mv,
            "counter": charge.counter_uah,
            "temperature": battery_decicelsius(profile, vitals),
        },
        "wakefulness": vitals.wakefulness,
    }  # fmt: skip
