"""Heat, clocks and battery over a run, as they go into its record."""

from __future__ import annotations

from harness.bench.evidence import Evidence, explain
from harness.bench.steady import THROTTLED_CAP, lowest_cap_ratio
from harness.phone.facts import Facts
from harness.phone.thermal import celsius, leading_zone
from harness.store.schema import Thermal

_NO_BATTERY = "the battery was not read"


def thermal_of(evidence: Evidence, facts: Facts, nulls: dict[str, str]) -> Thermal | None:
    """Summarise temperatures and clocks over the run; reasons for nulls go to ``nulls``."""
    run = evidence.run
    if run.sensors is None or not run.samples:
        return None
    types = [zone.type for zone in run.sensors.zones]
    rows = [sample.milli_c for sample in run.samples if any(raw is not None for raw in sample.milli_c)]
    position = leading_zone(types, rows[0]) if rows else None
    series: list[float] = []
    if position is not None:
        readings = (celsius(types[position], row[position]) for row in rows if position < len(row))
        series = [value for value in readings if value is not None]
    if not series:
        nulls.update(dict.fromkeys(("start_c", "max_c", "zone"), "no skin, battery or CPU zone is readable"))
    tops = [facts.core_max_khz.get(cpu) for cpu in run.sensors.cpus]
    caps = [cap / top for sample in run.samples for cap, top in zip(sample.cap_khz, tops, strict=False) if cap and top]
    fell = lowest_cap_ratio(run)
    explain(nulls, not caps, "clock_ratio_min", "no core's cap and top clock are readable")
    explain(nulls, fell is None, "throttled", "no core's clock is readable")
    return Thermal(
        start_c=series[0] if series else None,
        max_c=max(series) if series else None,
        zone=types[position] if series and position is not None else None,
        status_max=None,
        clock_ratio_min=min(caps) if caps else None,
        throttled=None if fell is None else fell < THROTTLED_CAP,
        onset_s=None,
        burst_tps=None,
        sustained_tps=None,
        sustained_ratio=None,
        plugged=plugged(evidence, nulls),
    )


def plugged(evidence: Evidence, nulls: dict[str, str]) -> bool | None:
    """Return whether a charger was on as the run began."""
    before = evidence.battery_before
    if before is None or before.plugged is None:
        nulls["plugged"] = _NO_BATTERY if before is None else before.nulls.get("plugged", _NO_BATTERY)
        return None
    return before.plugged != "none"


def battery_drop_pct(evidence: Evidence, nulls: dict[str, str]) -> float | None:
    """Return by how many percent the battery fell over the run; with a charger on that says nothing."""
    before, after = evidence.battery_before, evidence.battery_after
    if before is None or after is None or before.level_pct is None or after.level_pct is None:
        nulls["battery_drop_pct"] = _NO_BATTERY
    elif before.overridden or after.overridden:
        nulls["battery_drop_pct"] = "the battery's readings are frozen"
    elif before.plugged != "none" or after.plugged != "none":
        nulls["battery_drop_pct"] = "a charger was on"
    else:
        return float(before.level_pct - after.level_pct)
    return None
