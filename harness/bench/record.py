"""The record of a cell, made from evidence. Every null says why."""

from __future__ import annotations

from collections.abc import Sequence

from harness.bench.cold import loads_of
from harness.bench.evidence import Evidence, Objection, explain
from harness.bench.fit import remarks_on_fit
from harness.bench.heat import battery_drop_pct, counted
from harness.bench.memory import memory_of, remarks_on_memory
from harness.bench.metrics import (
    P95_SAMPLES,
    P99_SAMPLES,
    decode_tps,
    latency,
    outliers,
    possible_ms,
    prefill_tps,
    speed,
    token_times,
)
from harness.bench.roofline import roofline_of
from harness.bench.tool_output import definition_of
from harness.runners.events import Generation
from harness.store.schema import Finding, Metrics, Sample

ALWAYS_NULL = {
    "peak_gpu_bytes": "no readable counter on this phone",
    "roofline_ratio": "the phone's memory bandwidth was not measured",
}


def metrics_of(evidence: Evidence, nulls: dict[str, str]) -> Metrics | None:
    """Summarise the timed generations; reasons for nulls go to ``nulls``."""
    timed = [generation for generation in counted(evidence) if _usable(generation)]
    if not timed or evidence.told.load is None:
        return None
    ttft = latency([generation.ttft_ms for generation in timed if generation.ttft_ms is not None])
    prefill = speed([value for generation in timed if (value := prefill_tps(generation)) is not None])
    decode = speed([value for generation in timed if (value := decode_tps(generation)) is not None])
    tokens = token_times(timed)
    explain(nulls, ttft is None, "ttft_ms", "nothing tells when each timed prompt was submitted")
    explain(nulls, ttft is not None and ttft.p90 is None, "ttft_ms.p90", "20 samples are needed")
    explain(nulls, prefill is None, "prefill_tps", "the runner told no time of a prefill")
    explain(nulls, decode is None, "decode_tps", "no generation was long enough")
    for name, summary in (("prefill_tps", prefill), ("decode_tps", decode)):
        explain(nulls, summary is not None and summary.cv is None, f"{name}.cv", "one sample has no spread")
        explain(nulls, summary is not None and summary.ci95 is None, f"{name}.ci95", "3 samples are needed")
    untold = "the moments of single tokens are not known" if decode is not None else "no generation was long enough"
    explain(nulls, tokens is None, "token_ms", untold)
    for name, least in (("p95", P95_SAMPLES), ("p99", P99_SAMPLES)):
        few = tokens is not None and getattr(tokens, name) is None
        explain(nulls, few, f"token_ms.{name}", f"{least} tokens are needed")
    return Metrics(
        **loads_of(evidence, nulls),
        ttft_ms=ttft,
        prefill_tps=prefill,
        decode_tps=decode,
        token_ms=tokens,
        **memory_of(evidence, nulls),
        **roofline_of(evidence, decode.median if decode is not None else None, nulls),
        battery_drop_pct=battery_drop_pct(evidence, nulls),
    )


def samples_of(evidence: Evidence) -> tuple[Sample, ...]:
    """Return every generation, raw. Timed ones that lie far from the others are marked, not dropped.

    The answers to a golden set are dozens and no measurements: they lie in ``raw``.
    """
    of_set = {id(answer) for answer in evidence.told.of_kind("answer")[len(evidence.plan.ask) :]}
    kept = [
        generation
        for generation in evidence.told.generations
        if id(generation) not in of_set
        and all(
            possible_ms(value) is not None for value in (generation.ttft_ms, generation.prefill_ms) if value is not None
        )
    ]
    speeds = [decode_tps(generation) if _usable(generation) else None for generation in kept]
    timed = {n: tps for n, tps in enumerate(speeds) if tps is not None and kept[n].kind == "timed"}
    far = {n for n, is_far in zip(timed, outliers(list(timed.values())), strict=True) if is_far}
    return tuple(_sample(kept[n], tps, n in far) for n, tps in enumerate(speeds))


def _sample(generation: Generation, decode: float | None, outlier: bool) -> Sample:
    return Sample(
        kind=generation.kind,
        ttft_ms=generation.ttft_ms,
        prefill_ms=generation.prefill_ms,
        decode_tps=decode,
        prompt_tokens=generation.prompt_tokens,
        generated_tokens=generation.generated_tokens,
        finish=generation.finish[:40],
        engine_prefill_ms=possible_ms(generation.engine_prefill_ms),
        engine_decode_ms=possible_ms(generation.engine_decode_ms),
        outlier=outlier,
        rss_bytes=generation.rss_bytes,
    )


def findings_of(objections: Sequence[Objection]) -> tuple[Finding, ...]:
    """Return what the rules found; the first is the verdict's."""
    return tuple(
        Finding(code=o.reason.code, severity="error", title=o.detail[:500], evidence=o.evidence[:2000])
        for o in objections
    )


def remarks_of(evidence: Evidence) -> tuple[Finding, ...]:
    """Return what is worth knowing beside the figures and decides nothing."""
    return (*remarks_on_memory(evidence), *remarks_on_fit(evidence), *definition_of(evidence))


def _usable(generation: Generation) -> bool:
    return all(possible_ms(value) is not None for value in generation.times_ms)
