"""Thermal zones by name and with their units repaired; which one speaks for a phone.

Zone numbers mean nothing and differ from phone to phone; names are the vendors'. Some zones are no temperatures at all
(battery percent, millivolt), some have no sensor behind them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# In order of preference: what is warm while a CPU generates. Vendors: Qualcomm (cpu-1-0-0, cpuss-0, tsens…), MediaTek
# (mtktscpu, cpu_big0), Samsung and Tensor (BIG, MID, LITTLE), HiSilicon (cluster0), x86 PCs (x86_pkg_temp).
_CPU = re.compile(r"^(cpu|mtktscpu|tsens_tz|cluster\d|BIG|MID$|LITTLE$|x86_pkg_temp|soc_thermal)", re.IGNORECASE)
_SKIN = re.compile(r"skin|quiet.therm|xo.therm|^mtktsAP$|^shell", re.IGNORECASE)
# Percent, millivolt, milliampere, or a constant (Qualcomm's lmh-dcvs).
_NO_TEMPERATURE = re.compile(r"^soc$|vbat|ibat|lmh-dcvs|bcl|-step$|virt", re.IGNORECASE)
# Kernel values for "no sensor".
_ABSENT = frozenset({0, -40_000, -273_000, -274_000})
# No phone is used below -30 °C or survives 150 °C; a raw value below 150 can only be plain degrees.
_COLDEST_C, _HOTTEST_C = -30.0, 150.0


def celsius(zone_type: str, raw: int | None) -> float | None:
    """Return a zone's temperature in °C; ``None`` when it has none or is no temperature."""
    if raw is None or raw in _ABSENT or _NO_TEMPERATURE.search(zone_type):
        return None
    value = raw / 1000 if abs(raw) >= _HOTTEST_C else float(raw)
    return value if _COLDEST_C < value < _HOTTEST_C else None


def leading_zone(zone_types: Sequence[str], raws: Sequence[int | None]) -> int | None:
    """Return the position of the zone that speaks for the phone: the hottest CPU zone, else a skin zone, else none."""
    for pattern in (_CPU, _SKIN):
        readable = [
            (value, -position)
            for position, (name, raw) in enumerate(zip(zone_types, raws, strict=False))
            if pattern.search(name) and (value := celsius(name, raw)) is not None
        ]
        if readable:
            return -max(readable)[1]
    return None
