"""The record of a cell, made from evidence. Every null says why."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.bench.engine_log import find_fallback
from harness.bench.evidence import Evidence, Objection
from harness.bench.metrics import decode_tps, latency, prefill_tps, speed, token_times
from harness.bench.validity import THROTTLED_CAP, lowest_cap_ratio
from harness.core.ids import content_id
from harness.payload.probe_events import RunLog
from harness.phone.facts import Facts
from harness.phone.thermal import celsius, leading_zone
from harness.plan.model import Plan
from harness.runners.events import Generation
from harness.store.schema import Answer, BackendProof, Finding, Metrics, Output, Sample, Thermal

# Beyond these a time is refused anyway, and figures made from it would overflow.
_LEAST_MS, _MOST_MS = 1e-6, 1e12

_NO_BATTERY = "the battery was not read"

ALWAYS_NULL = {
    "load_cold_ms": "whether the phone's file cache was cold is not known",
    "peak_gpu_bytes": "no readable counter on this phone",
    "roofline_ratio": "the phone's memory bandwidth was not measured",
    "status_max": "the thermal service was not asked",
    "onset_s": "a burst cell looks for no onset",
    "burst_tps": "a burst cell has no sustained phase to compare with",
    "sustained_tps": "a burst cell has no sustained phase",
    "sustained_ratio": "a burst cell has no sustained phase",
    "reference": "the plan compares with no reference",
    "match": "the plan compares with no reference",
    "matched_tokens": "the plan compares with no reference",
}


def backend_proof(evidence: Evidence) -> BackendProof | None:
    """Return what was asked, what ran and what proves it; ``None`` when the runner never came so far."""
    mark = find_fallback(evidence.engine_log, evidence.cell.backend)
    load = evidence.told.load
    if mark is not None:
        return BackendProof(requested=evidence.cell.backend, actual=mark.used, strength="log", proof=mark.line)
    if load is None:
        return None
    return BackendProof(
        requested=evidence.cell.backend, actual=load.backend_actual, strength=load.strength, proof=load.proof
    )


def metrics_of(evidence: Evidence, nulls: dict[str, str]) -> Metrics | None:
    """Summarise the timed generations; reasons for nulls go to ``nulls``."""
    timed = [generation for generation in evidence.timed if _usable(generation)]
    if not timed or evidence.told.load is None:
        return None
    ttft = latency([generation.ttft_ms for generation in timed])
    prefill = speed([value for generation in timed if (value := prefill_tps(generation)) is not None])
    decode = speed([value for generation in timed if (value := decode_tps(generation)) is not None])
    tokens = token_times(timed)
    run = evidence.run
    peak = run.end.maxrss_bytes if run.end is not None else None
    anon, swap = _peak(run, "anon_bytes"), _peak(run, "swap_bytes")
    _explain(nulls, ttft is not None and ttft.p90 is None, "ttft_ms.p90", "20 samples are needed")
    for name, summary in (("prefill_tps", prefill), ("decode_tps", decode)):
        _explain(nulls, summary is None, name, "no generation was long enough")
        _explain(nulls, summary is not None and summary.cv is None, f"{name}.cv", "one sample has no spread")
        _explain(nulls, summary is not None and summary.ci95 is None, f"{name}.ci95", "3 samples are needed")
    _explain(nulls, tokens is None, "token_ms", "no generation was long enough")
    _explain(nulls, tokens is not None and tokens.p95 is None, "token_ms.p95", "40 tokens are needed")
    for name, value in (
        ("peak_rss_bytes", peak),
        ("peak_anon_bytes", anon),
        ("peak_swap_bytes", swap),
        ("min_available_bytes", run.min_available_bytes),
    ):
        _explain(nulls, value is None, name, "the phone's /proc did not tell")
    load_ms = _usable_or_none(evidence.told.load.load_ms)
    _explain(nulls, load_ms is None, "load_ms", "the runner told no possible time")
    nulls["tuning_ms"] = (
        "the CPU backend has no tuning step" if evidence.cell.backend == "cpu" else "the runner does not report it"
    )
    return Metrics(
        load_cold_ms=None,
        tuning_ms=None,
        load_ms=load_ms,
        ttft_ms=ttft,
        prefill_tps=prefill,
        decode_tps=decode,
        token_ms=tokens,
        peak_rss_bytes=peak,
        peak_anon_bytes=anon,
        peak_swap_bytes=swap,
        peak_gpu_bytes=None,
        min_available_bytes=run.min_available_bytes,
        roofline_ratio=None,
        battery_drop_pct=battery_drop_pct(evidence, nulls),
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
    _explain(nulls, not caps, "clock_ratio_min", "no core's cap and top clock are readable")
    _explain(nulls, fell is None, "throttled", "no core's clock is readable")
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


def output_of(evidence: Evidence, plan: Plan, nulls: dict[str, str]) -> Output | None:
    """Return what the model said, and how many of the plan's questions it answered as expected."""
    answers = tuple(
        Answer(question=ask.question, text=said.text, expect=ask.expect, right=_matches(ask.expect, said.text))
        for ask, said in zip(plan.ask, evidence.told.of_kind("answer"), strict=False)
        if said.question in (None, ask.question)
    )
    timed = evidence.timed
    if not answers and not timed:
        return None
    if not plan.ask:
        nulls["golden"] = "the plan asks no question"
    if not timed:
        nulls["token_ids_hash"] = "no timed generation"
    text = answers[0].text if answers else timed[0].text
    return Output(
        text=text,
        token_ids_hash=content_id({"ids": list(timed[0].token_ids)})[:16] if timed else None,
        reference=None,
        match=None,
        matched_tokens=None,
        golden=f"{sum(answer.right for answer in answers)}/{len(plan.ask)}" if plan.ask else None,
        timed_text=timed[0].text if timed else "",
        answers=answers,
    )


def _matches(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None


def samples_of(evidence: Evidence) -> tuple[Sample, ...]:
    """Return every generation, raw."""
    return tuple(
        Sample(
            kind=generation.kind,
            ttft_ms=generation.ttft_ms,
            prefill_ms=generation.prefill_ms,
            decode_tps=decode_tps(generation) if _usable(generation) else None,
            prompt_tokens=generation.prompt_tokens,
            generated_tokens=generation.generated_tokens,
            finish=generation.finish[:40],
            engine_prefill_ms=_usable_or_none(generation.engine_prefill_ms),
            engine_decode_ms=_usable_or_none(generation.engine_decode_ms),
        )
        for generation in evidence.told.generations
        if _usable_or_none(generation.ttft_ms) is not None and _usable_or_none(generation.prefill_ms) is not None
    )


def findings_of(objections: Sequence[Objection]) -> tuple[Finding, ...]:
    """Return what the rules found; the first is the verdict's."""
    return tuple(
        Finding(code=o.reason.code, severity="error", title=o.detail[:500], evidence=o.evidence[:2000])
        for o in objections
    )


def _explain(nulls: dict[str, str], is_null: bool, name: str, why: str) -> None:
    if is_null:
        nulls[name] = why


def _usable(generation: Generation) -> bool:
    times = (generation.ttft_ms, generation.prefill_ms, *generation.token_ms)
    return all(_usable_or_none(value) is not None for value in times)


def _usable_or_none(value: float | None) -> float | None:
    """Return a time that sums, medians and quotients can be made of; NaN compares false."""
    return value if value is not None and _LEAST_MS <= value <= _MOST_MS else None


def _peak(run: RunLog, field: str) -> int | None:
    values = [getattr(sample, field) for sample in run.samples if getattr(sample, field) is not None]
    return max(values) if values else None
