"""Thermal zones by name and with their units repaired; which one speaks for a phone.

Zone numbers mean nothing and differ from phone to phone; names are the vendors'. Some zones are no temperatures at all
(battery percent, millivolt), some have no sensor behind them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

# What a zone measures; ``none`` is a zone that is no temperature.
Meaning = Literal["cpu", "gpu", "skin", "battery", "other", "none"]

# In order of preference: skin and battery tell whether a phone is cool again. CPU zones idle at 40 °C and more on a
# cool phone and jump by ten degrees within a second, so they only speak where nothing else does. Their names: Qualcomm
# (cpu-1-0-0, cpuss-0, tsens…), MediaTek (mtktscpu, cpu_big0), Samsung and Tensor (BIG, MID, LITTLE), HiSilicon
# (cluster0), x86 PCs (x86_pkg_temp).
_CPU = re.compile(
    r"^(cpu|apc\d-cpu|mtktscpu|soc_max$|tsens_tz|cluster\d|BIG|MID[HL]?$|LITTLE$|x86_pkg_temp|soc[-_]thermal|soc-thmzone"
    r"|prometheus\d|ank\d)",
    re.IGNORECASE,
)
_SKIN = re.compile(r"skin|quiet.therm|xo.therm|^mtktsAP$|^ap_ntc$|^shell|^case.therm", re.IGNORECASE)
_BATTERY = re.compile(r"^battery|^mtktsbattery$|^batt.therm|^maxfg|^bms$", re.IGNORECASE)
_GPU = re.compile(r"^gpu|^mtktsgpu|^G3D$|^mali|^kgsl", re.IGNORECASE)
# The probe takes a type for a regular expression, unless it is the type itself: these are both.
_PLAIN_NAME = re.compile(r"[\w.,:/-]+")
# Percent, millivolt, milliampere, or a constant (Qualcomm's lmh-dcvs).
_NO_TEMPERATURE = re.compile(r"^socd?$|vbat|ibat|vph|lmh-dcvs|bcl|-step$|virt", re.IGNORECASE)
# Kernel values for "no sensor".
_ABSENT = frozenset({0, -40_000, -273_000, -274_000})
# No phone is used below -30 °C or survives 150 °C; a raw value below 150 can only be plain degrees, and one below 1500
# only tenths (old Qualcomm kernels): as thousandths it would be a CPU near freezing, and the phone seem cool.
_COLDEST_C, _HOTTEST_C = -30.0, 150.0


def celsius(zone_type: str, raw: int | None) -> float | None:
    """Return a zone's temperature in °C; ``None`` when it has none or is no temperature."""
    if raw is None or raw in _ABSENT or _NO_TEMPERATURE.search(zone_type):
        return None
    value = raw / _unit(raw)
    return value if _COLDEST_C < value < _HOTTEST_C else None


def _unit(raw: int) -> int:
    """Return how much a zone counts for one degree, by what it reads."""
    return 1 if abs(raw) < _HOTTEST_C else 10 if abs(raw) < 10 * _HOTTEST_C else 1000


def trip_limits(
    zone_types: Sequence[str], raws: Sequence[int | None], limits_c: Mapping[Meaning, float]
) -> dict[str, int]:
    """Return by zone type the raw reading at which a zone of that meaning is at its limit, as ``probe run`` takes it.

    Only for zones that read something now: a limit on one that never does would protect nothing.
    """
    found: dict[str, int] = {}
    for name, raw in zip(zone_types, raws, strict=False):
        limit_c = limits_c.get(meaning_of(name))
        if limit_c is not None and raw is not None and celsius(name, raw) is not None and _PLAIN_NAME.fullmatch(name):
            found[name] = round(limit_c * _unit(raw))
    return found


def meaning_of(zone_type: str) -> Meaning:
    """Return what a zone of this name measures: names are the vendors', and most say it."""
    if _NO_TEMPERATURE.search(zone_type):
        return "none"
    kinds: tuple[tuple[Meaning, re.Pattern[str]], ...] = (
        ("gpu", _GPU), ("skin", _SKIN), ("battery", _BATTERY), ("cpu", _CPU),
    )  # fmt: skip
    return next((meaning for meaning, pattern in kinds if pattern.search(zone_type)), "other")


def leading_zone(zone_types: Sequence[str], raws: Sequence[int | None]) -> int | None:
    """Return the position of the zone that speaks for the phone: the hottest skin zone, else battery, else CPU."""
    for pattern in (_SKIN, _BATTERY, _CPU):
        readable = [
            (value, -position)
            for position, (name, raw) in enumerate(zip(zone_types, raws, strict=False))
            if pattern.search(name) and (value := celsius(name, raw)) is not None
        ]
        if readable:
            return -max(readable)[1]
    return None
