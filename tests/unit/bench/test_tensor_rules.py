"""Each rule about a tensor cell has its objection here, and an honest cell has none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from harness.bench.bandwidth import Bandwidth
from harness.bench.evidence import Evidence
from harness.bench.limits import Limits
from harness.bench.tensor_compare import TensorResult, demand_of
from harness.bench.tensor_pull import Pulled
from harness.bench.tensor_record import tensor_findings, tensor_metrics_of, tensor_output_of, tensor_samples_of
from harness.bench.validity import judge
from harness.payload.mnn_weights import Weights
from harness.payload.tensor_case import TensorCase
from harness.plan.model import Plan

MS = 1_000_000
Event = dict[str, Any]
Y = np.linspace(-1, 1, 8).reshape(1, 8)


def plan(**over: Any) -> Plan:
    base = {"kind": "tensor", "models": ["net"], "backends": ["cpu"], "threads": [4], "precision": ["high"]}
    return Plan.model_validate({**base, "warmups": 1, "repeats": 3, "cold_start": False, **over})


def inference(index: int, kind: str, latency_ms: float = 100.0, sample: str = "000000", **over: Any) -> Event:
    begun = {"begun_ns": 400 * MS + index * 120 * MS, "rss_bytes": 90_000_000}
    return {
        "event": "inference", "index": index, "kind": kind, "sample": sample, "latency_ms": latency_ms, **begun, **over,
    }  # fmt: skip


def events() -> list[Event]:
    """What an honest runner prints."""
    return [
        {"event": "hello", "runner": "farm_runner", "engine": "MNN", "engine_version": "3.6.1", "pid": 7},
        {
            "event": "load", "load_ms": 200.0, "backend_requested": "cpu", "backend_actual": "cpu",
            "strength": "engine", "proof": "the session runs on cpu", "threads": 4, "precision": "high",
            "memory": "low", "rss_before_bytes": 30_000_000, "rss_bytes": 80_000_000,
        },
        inference(0, "warmup"),
        *(inference(n, "timed", 100.0 + n) for n in (1, 2, 3)),
        inference(4, "check"),
        inference(5, "check", sample="000001"),
        {"event": "end", "status": "ok"},
    ]  # fmt: skip


def result(made: Any = None, problems: tuple[str, ...] = (), the_plan: Plan | None = None, **case: Any) -> TensorResult:
    values: dict[str, Any] = {
        "samples": ("cat.npz", "dog.npz"), "inputs": ({}, {}), "expected": ({"y": Y}, {"y": Y}),
        "reference": "onnxruntime", "real_inputs": True, "weights": Weights.FULL, **case,
    }  # fmt: skip
    from harness.plan.matrix import cells_of

    [cell] = cells_of(the_plan or plan())
    outputs = (Y.copy(), Y.copy()) if made is None else made
    demand = demand_of(cell, values["weights"], 1e-4)
    return TensorResult(TensorCase(**values), Pulled(tuple({"y": one} for one in outputs), problems), demand)


@pytest.fixture
def honest(make: ModuleType) -> Callable[..., Evidence]:
    """Make the evidence of an honest cell; ``bend`` changes its events in place."""

    def of(
        bend: Callable[[list[Event]], object] | None = None,
        the_plan: Plan | None = None,
        tensors: TensorResult | None = None,
        *,
        limits: Limits | None = None,
        multiplied: int = 1_000_000,
        **over: Any,
    ) -> Evidence:
        told = events()
        if bend is not None:
            bend(told)
        values = {"told_ms": 1300.0, "wall_ms": 2000.0, "weight_bytes": 4_000_000, **over}
        found = make.evidence(told, the_plan=the_plan or plan(), **values)
        return dataclasses.replace(
            found, tensors=tensors or result(), multiplied_weights=multiplied, limits=limits or Limits()
        )

    return of


def codes(evidence: Evidence) -> list[str]:
    return [objection.reason.code for objection in judge(evidence)]


def test_nothing_is_said_against_an_honest_cell(honest: Callable[..., Evidence]) -> None:
    assert judge(honest()) == []


def drop(kind: str) -> Callable[[list[Event]], None]:
    def bend(told: list[Event]) -> None:
        told[:] = [event for event in told if event.get("kind", event["event"]) != kind]

    return bend


def change(number: int, **over: Any) -> Callable[[list[Event]], None]:
    def bend(told: list[Event]) -> None:
        next(event for event in told if event.get("index") == number).update(over)

    return bend


@pytest.mark.parametrize(
    ("bend", "code", "says"),
    [
        (drop("timed"), "token_count_short", "0 of 3 timed inferences"),
        (drop("check"), "token_count_short", "sample cat.npz was not run, and 1 more"),
        (change(5, sample="000000"), "token_count_short", "sample dog.npz was not run"),
        (change(2, sample="000001"), "token_count_short", "was timed on '000001', asked was 000000"),
        (change(2, index=1), "unparsed_output", "inference 1 was told twice"),
        (change(4, kind="timed"), "unparsed_output", "asked were 3 timed inferences, told were 4"),
        (change(2, latency_ms=None), "unparsed_output", "1 of the runner's events cannot be read"),
        (drop("end"), "unparsed_output", "hello, load or end is missing"),
        (change(2, latency_ms=0.0), "implausible_speed", "inference 2 (timed) took 0 ms"),
        (change(2, latency_ms=0.0005), "implausible_speed", "inference 2 (timed) in 0.0005 ms would read"),
        (change(2, latency_ms=5000.0), "implausible_speed", "load and inferences claim 5704 ms, the whole run took"),
    ],
)
def test_what_a_runner_tells_is_not_believed(
    honest: Callable[..., Evidence], bend: Callable[[list[Event]], None], code: str, says: str
) -> None:
    first = judge(honest(bend))[0]
    assert (first.reason.code, says in first.detail) == (code, True), first.detail


def test_latencies_that_claim_a_part_of_the_time_they_took_are_not_believed(honest: Callable[..., Evidence]) -> None:
    def a_tenth(told: list[Event]) -> None:
        for event in told:
            if event["event"] == "inference":
                event["latency_ms"] /= 10

    slow = honest(a_tenth, told_ms=20_000.0, wall_ms=30_000.0)
    assert codes(slow) == ["implausible_speed"]
    assert "all inferences but the first claim 31 ms; by the probe's clock they took" in judge(slow)[0].detail


def test_no_inference_reads_its_weights_faster_than_the_memory_gives_them(honest: Callable[..., Evidence]) -> None:
    # 1e9 weights in at least 2 bytes, 64 MiB of caches granted: 1.9 GB at 10 GB/s and 15 % slack
    known = Limits(bandwidth=Bandwidth({4: 10.0}), cache_bytes=32 << 20)
    [says] = judge(honest(limits=known, multiplied=1_000_000_000))
    assert says.reason.code == "implausible_speed"
    assert "an inference in 101 ms would read 1933 MB of weights" in says.detail
    assert judge(honest(limits=known, multiplied=200_000_000)) == []
    assert judge(honest(limits=known, multiplied=0)) == []
    assert judge(honest(limits=known, multiplied=1_000_000_000, tensors=result(weights=Weights.INT8))) == []
    [eight] = judge(honest(limits=known, multiplied=2_000_000_000, tensors=result(weights=Weights.INT8)))
    assert eight.reason.code == "implausible_speed"
    assert judge(honest(limits=known, multiplied=2_000_000_000, tensors=result(weights=Weights.INT4))) == []


@pytest.mark.parametrize(
    ("tensors", "code", "says"),
    [
        (result((Y, Y + 0.5)), "output_wrong", "output y differs from the reference: 8 of 16 elements"),
        (result((Y, Y[:, ::-1])), "output_wrong", "the worst is in sample dog.npz"),
        (result(problems=("output z of sample cat.npz is missing",)), "output_wrong", "output z of sample cat.npz is"),
        (result((np.zeros_like(Y), np.zeros_like(Y))), "output_degenerate", "output y is 0 everywhere, in 2 samples"),
        (result((Y * np.nan, Y)), "output_wrong", "output y has NaN or infinity beside numbers"),
    ],
)
def test_fast_and_wrong_is_rejected(
    honest: Callable[..., Evidence], tensors: TensorResult, code: str, says: str
) -> None:
    first = judge(honest(tensors=tensors))[0]
    assert (first.reason.code, says in first.detail) == (code, True), first.detail


def test_outputs_that_were_never_compared_are_not_right(honest: Callable[..., Evidence]) -> None:
    unheld = dataclasses.replace(honest(), tensors=None)
    assert codes(unheld) == ["output_wrong"]


def test_the_rules_of_all_cells_hold_for_tensors(honest: Callable[..., Evidence]) -> None:
    def on_vulkan(told: list[Event]) -> None:
        told[1]["backend_actual"] = "vulkan"

    def untold(told: list[Event]) -> None:
        told[1]["strength"] = "none"

    def on_two_threads(told: list[Event]) -> None:
        told[1]["threads"] = 2

    def failed(told: list[Event]) -> None:
        told[-1:] = [{"event": "error", "stage": "run", "message": "no"}, {"event": "end", "status": "error"}]

    def denied(told: list[Event]) -> None:
        said = "nothing proves that opencl runs a module"
        told[1:] = [{"event": "error", "stage": "fallback", "message": said}, {"event": "end", "status": "error"}]

    assert codes(honest(denied, exit_code=1))[0] == "backend_unproven"
    assert codes(honest(on_vulkan))[0] == "backend_fallback"
    assert codes(honest(untold))[0] == "backend_unproven"
    assert codes(honest(on_two_threads)) == ["harness_error"]
    assert codes(honest(failed))[0] == "engine_error"
    assert codes(honest(started_hot="42 °C")) == ["hot_start"]
    assert codes(honest(boot_ms=9000.0)) == ["suspended"]
    assert codes(honest(exit_code=None, signal=11))[0] == "crash"


def test_a_phone_that_throttles_meanwhile_is_told(honest: Callable[..., Evidence], make: ModuleType) -> None:
    times = (300 * MS, 700 * MS, 1200 * MS)
    caps = ((1_800_000, 2_400_000), (1_800_000, 2_400_000), (900_000, 1_200_000))
    samples = tuple(
        dataclasses.replace(make.sample(), mono_ns=ns, cap_khz=cap) for ns, cap in zip(times, caps, strict=True)
    )
    assert codes(honest(samples=samples)) == ["throttled"]


def test_repeats_that_spread_beyond_the_plans_limit_are_noisy(honest: Callable[..., Evidence]) -> None:
    noisy = plan(cv_limit=0.05)
    assert codes(honest(the_plan=noisy)) == []
    [says] = judge(honest(change(2, latency_ms=150.0), the_plan=noisy))
    assert says.reason.code == "noisy"
    assert "over 3 inferences (limit 5.0%)" in says.detail


def test_the_record_shows_latency_and_says_what_does_not_apply(honest: Callable[..., Evidence]) -> None:
    nulls: dict[str, str] = {}
    metrics = tensor_metrics_of(honest(), nulls)
    assert metrics is not None
    assert metrics.latency_ms is not None
    assert (metrics.latency_ms.p50, metrics.latency_ms.min, metrics.latency_ms.max, metrics.latency_ms.n) == (
        102.0, 101.0, 103.0, 3,
    )  # fmt: skip
    assert (metrics.load_ms, metrics.baseline_rss_bytes, metrics.growth_bytes) == (200.0, 30_000_000, 0.0)
    assert nulls["latency_ms.p90"] == "20 samples are needed"
    assert nulls["decode_tps"] == nulls["ttft_ms"] == "a tensor cell has no tokens"


def test_percentiles_come_with_enough_inferences(honest: Callable[..., Evidence]) -> None:
    def many(told: list[Event]) -> None:
        told[3:6] = [inference(n, "timed", 0.1 + n / 1000) for n in range(100, 300)]

    metrics = tensor_metrics_of(honest(many, the_plan=plan(repeats=200)), nulls := {})
    assert metrics is not None
    assert metrics.latency_ms is not None
    assert metrics.latency_ms.p90 == pytest.approx(0.1 + 0.2791)
    assert metrics.latency_ms.p99 == pytest.approx(0.1 + 0.29701)
    assert "latency_ms.p99" not in nulls


def test_every_inference_is_a_sample_and_the_far_ones_are_marked(honest: Callable[..., Evidence]) -> None:
    def more(told: list[Event]) -> None:
        told[6:6] = [inference(n, "timed", ms) for n, ms in ((10, 102.5), (11, 300.0))]

    samples = tensor_samples_of(honest(more, the_plan=plan(repeats=5)))
    assert [one.kind for one in samples] == ["warmup", *["timed"] * 5, "check", "check"]
    assert [one.latency_ms for one in samples if one.outlier] == [300.0]


def test_what_came_out_is_in_the_record(honest: Callable[..., Evidence]) -> None:
    off = Y.copy()
    off[0, 3] += 0.5
    output = tensor_output_of(honest(tensors=result((Y, off))), nulls := {})
    assert output is not None
    assert output.tensors is not None
    assert (output.reference, output.tensors.reference) == ("onnx", "onnxruntime")
    assert (output.tensors.samples, output.tensors.failed, output.tensors.tolerance) == (2, 0, 1e-4)
    [kept] = output.tensors.outputs
    assert (kept.name, kept.shape, kept.agreeing, kept.same_top1) == ("y", (1, 8), 15 / 16, 1.0)
    assert kept.max_error == pytest.approx(0.5)
    assert nulls["golden"] == "a tensor cell has no text"


def test_what_is_worth_knowing_is_a_finding(honest: Callable[..., Evidence]) -> None:
    tiny = np.tile(Y, 100)
    off = tiny.copy()
    off[0, 3] += 3e-4
    rounded = result((tiny, off), expected=({"y": tiny}, {"y": tiny}))
    assert [one.code for one in tensor_findings(honest(tensors=rounded))] == ["rounding"]
    assert judge(honest(tensors=rounded)) == []
    own = result(reference="mnn 3.6.1", real_inputs=False)
    assert [one.code for one in tensor_findings(honest(tensors=own))] == ["inputs_random", "reference_same_model"]
    assert list(tensor_findings(honest())) == []


def test_each_inference_has_its_moment(honest: Callable[..., Evidence]) -> None:
    timeline = honest().timeline
    assert [token.kind for token in timeline.tokens] == ["warmup", *["timed"] * 3, "check", "check"]
    assert timeline.begun_ns == 520 * MS
    assert timeline.timed[0].at_ns == 520 * MS + 101 * MS
