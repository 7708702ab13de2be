"""The record of a tensor cell, made from evidence. What it shares with others is made where theirs is."""

from __future__ import annotations

from collections.abc import Iterator

from harness.bench.cold import loads_of
from harness.bench.evidence import Evidence, explain
from harness.bench.heat import battery_drop_pct
from harness.bench.memory import memory_of
from harness.bench.metrics import P90_SAMPLES, P99_SAMPLES, latency, outliers, possible_ms
from harness.bench.tensor_compare import TensorResult
from harness.payload.accuracy import Kept
from harness.payload.tensor_case import ONNX
from harness.store.schema import Finding, Metrics, Output, Sample, TensorKept, TensorOutput

_NO_TOKENS = "a tensor cell has no tokens"
_NO_TEXT = "a tensor cell has no text"


def tensor_metrics_of(evidence: Evidence, nulls: dict[str, str]) -> Metrics | None:
    """Summarise the timed inferences; reasons for nulls go to ``nulls``."""
    timed = [ms for one in evidence.measured if (ms := possible_ms(one.claimed_ms)) is not None]
    summary = latency(timed, with_p99=True)
    if summary is None or evidence.told.load is None:
        return None
    for name, least in (("p90", P90_SAMPLES), ("p99", P99_SAMPLES)):
        explain(nulls, getattr(summary, name) is None, f"latency_ms.{name}", f"{least} samples are needed")
    nulls.update(dict.fromkeys(("ttft_ms", "prefill_tps", "decode_tps", "token_ms"), _NO_TOKENS))
    best = evidence.limits.bandwidth.best_gb_per_s
    explain(nulls, best is None, "bandwidth_gb_per_s", evidence.limits.bandwidth.why or "it was not measured")
    nulls["roofline_ratio"] = "an ordinary model computes more than it reads"
    return Metrics(
        **loads_of(evidence, nulls),
        ttft_ms=None,
        prefill_tps=None,
        decode_tps=None,
        token_ms=None,
        latency_ms=summary,
        **memory_of(evidence, nulls),
        roofline_ratio=None,
        bandwidth_gb_per_s=best,
        battery_drop_pct=battery_drop_pct(evidence, nulls),
    )


def tensor_samples_of(evidence: Evidence) -> tuple[Sample, ...]:
    """Return every inference, raw. Timed ones that lie far from the others are marked, not dropped."""
    kept = [one for one in evidence.told.inferences if possible_ms(one.latency_ms) is not None]
    timed = [number for number, one in enumerate(kept) if one.kind == "timed"]
    marks = outliers([kept[number].latency_ms for number in timed])
    far = {number for number, is_far in zip(timed, marks, strict=True) if is_far}
    return tuple(
        Sample(
            kind=one.kind,
            ttft_ms=None,
            prefill_ms=None,
            decode_tps=None,
            prompt_tokens=0,
            generated_tokens=0,
            finish="done",
            outlier=number in far,
            rss_bytes=one.rss_bytes,
            latency_ms=one.latency_ms,
        )
        for number, one in enumerate(kept)
    )


def tensor_output_of(evidence: Evidence, nulls: dict[str, str]) -> Output | None:
    """Return what came out against the reference."""
    result = evidence.tensors
    if result is None:
        return None
    of_text = ("token_ids_hash", "match", "matched_tokens", "golden", "golden_ci95", "golden_set", "first_logits")
    nulls.update(dict.fromkeys(of_text, _NO_TEXT))
    kept = {one.name: one for one in result.kept}
    names = list(result.compared)
    outputs = tuple(_kept(result, name, kept[name], nulls, f"output.tensors.outputs.{name}") for name in names)
    failed = sum(
        set(made) != set(wanted) for made, wanted in zip(result.pulled.made, result.case.expected, strict=True)
    )
    return Output(
        text="",
        token_ids_hash=None,
        reference="onnx" if result.case.reference == ONNX else "host",
        match=None,
        matched_tokens=None,
        golden=None,
        tensors=TensorOutput(
            reference=result.case.reference,
            samples=len(result.case.samples),
            failed=failed,
            tolerance=result.demand.tolerance,
            held_to=result.demand.words,
            real_inputs=result.case.real_inputs,
            outputs=outputs,
        ),
    )


def _kept(result: TensorResult, name: str, kept: Kept, nulls: dict[str, str], where: str) -> TensorKept:
    compared = result.compared[name]
    count, agreeing = sum(each.count for each in compared), sum(each.agreeing for each in compared)
    shapes = {each.shape for each in compared}
    if kept.same_top1 is None:
        nulls[f"{where}.same_top1"] = kept.no_top1
    if kept.cosine_mean is None:
        nulls[f"{where}.cosine_mean"] = "no sample could be compared"
    return TensorKept(
        name=name,
        shape=shapes.pop() if len(shapes) == 1 else None,
        agreeing=agreeing / count if count else None,
        max_error=kept.max_error,
        mean_error=kept.mean_error,
        cosine_mean=kept.cosine_mean,
        cosine_min=kept.cosine_min,
        same_top1=kept.same_top1,
        same_positions=kept.same_positions,
    )


def tensor_findings(evidence: Evidence) -> Iterator[Finding]:
    """Yield what is worth knowing beside the verdict: rounding that was let pass, and inputs that say little."""
    result = evidence.tensors
    if result is None:
        return
    for says in result.rounded():
        yield Finding(
            code="rounding",
            severity="warning",
            title=f"a steep layer enlarges rounding in {says}"[:500],
            advice="look at that place; whether the app can live with it its own test has to say",
        )
    if not result.case.real_inputs:
        yield Finding(
            code="inputs_random",
            severity="warning" if result.demand.floor is not None else "info",
            title="the outputs were compared on random input, which says little of the accuracy kept",
            advice="convert the model again with --samples DIR, a folder of real inputs",
        )
    if result.case.reference != ONNX:
        yield Finding(
            code="reference_same_model",
            severity="info",
            title=f"the reference is the same model, run by {result.case.reference} here: it shows what the phone "
            "does, not what conversion cost",
            advice="convert the model again with --samples DIR, which keeps ONNX Runtime's outputs",
        )
