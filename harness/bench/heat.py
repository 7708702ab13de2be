"""Heat, clocks and battery over a run, as they go into its record."""

from __future__ import annotations

from harness.bench.evidence import Evidence, explain
from harness.bench.sensed import lead_of
from harness.bench.steady import why_throttled
from harness.bench.throttle import Throttling
from harness.bench.timeline import curve_of
from harness.phone.facts import Facts
from harness.runners.events import Generation
from harness.store.schema import Thermal

_NO_BATTERY = "the battery was not read"
_OF_SUSTAINED = ("onset_s", "burst_tps", "sustained_tps", "sustained_ratio")


def thermal_of(evidence: Evidence, facts: Facts, nulls: dict[str, str]) -> Thermal | None:
    """Summarise temperatures, clocks and speed over the run; reasons for nulls go to ``nulls``."""
    run = evidence.run
    if run.sensors is None or not run.samples:
        return None
    position = lead_of(run)
    states = evidence.timeline.states
    warmth = [state.lead_c for state in states if state.lead_c is not None]
    end_ns = evidence.timeline.timed_end_ns
    while_timed = [state for state in states if end_ns is None or state.at_ns <= end_ns]
    caps = [state.cap_ratio for state in while_timed if state.cap_ratio is not None]
    if not warmth:
        nulls.update(dict.fromkeys(("start_c", "max_c", "zone"), "no skin, battery or CPU zone is readable"))
    explain(nulls, not caps, "clock_ratio_min", "no core's cap and top clock are readable")
    seen, sustained = evidence.throttling, evidence.plan.kind == "sustained"
    throttled = seen.throttled if sustained else bool(why_throttled(evidence)) or seen.throttled
    explain(nulls, throttled is None, "throttled", "no clock is readable, and too few tokens tell of speed")
    if not sustained:
        nulls.update(dict.fromkeys(_OF_SUSTAINED, "a burst cell has no sustained phase to compare with"))
    else:
        _explain_sustained(seen, nulls)
    return Thermal(
        start_c=warmth[0] if warmth else None,
        max_c=max(warmth) if warmth else None,
        zone=run.sensors.zones[position].type if warmth and position is not None else None,
        status_max=_status_max(evidence, nulls),
        clock_ratio_min=min(caps) if caps else None,
        throttled=throttled,
        onset_s=seen.onset_s if sustained else None,
        burst_tps=seen.burst_tps if sustained else None,
        sustained_tps=seen.sustained_tps if sustained else None,
        sustained_ratio=seen.sustained_ratio if sustained else None,
        plugged=plugged(evidence, nulls),
        judged_by=seen.judged_by,
        curve=curve_of(evidence.timeline) if sustained else (),
    )


def _explain_sustained(seen: Throttling, nulls: dict[str, str]) -> None:
    explain(nulls, seen.onset_s is None, "onset_s", "it did not throttle" if seen.throttled is False else "not known")
    for name in ("burst_tps", "sustained_tps"):
        explain(nulls, getattr(seen, name) is None, name, "too few tokens were timed")
    explain(nulls, seen.sustained_ratio is None, "sustained_ratio", "burst and sustained speed are not both known")


def _status_max(evidence: Evidence, nulls: dict[str, str]) -> int | None:
    asked = (evidence.status_before, evidence.status_after)
    known = [status.value for status in asked if status.value is not None]
    explain(nulls, not known, "status_max", asked[1].why or "the thermal service told none")
    return max(known, default=None)


def counted(evidence: Evidence) -> tuple[Generation, ...]:
    """Return the timed generations that a record's figures are made of: all; of a sustained cell those at its end.

    A sustained cell measures what is left of a phone's speed: the generations that were submitted in the last quarter
    of its time (and after the onset of throttling), at least the last one.
    """
    if evidence.plan.kind != "sustained":
        return evidence.timed
    tail_s, timeline = evidence.throttling.tail_s, evidence.timeline
    begun_s = {
        token.generation: timeline.since_s(token.at_ns) - token.took_ms / 1000
        for token in timeline.timed
        if token.position == 0
    }
    late = [one for one in evidence.timed if tail_s is not None and begun_s.get(one.index, -1.0) >= tail_s]
    return tuple(late) or evidence.timed[-1:]


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
