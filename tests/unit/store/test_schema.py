from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from harness.core.reasons import Fault, Reason, Verdict
from harness.store.head import RunInfo
from harness.store.nulls import unexplained_nulls
from harness.store.schema import CellRecord

Values = Callable[..., dict[str, Any]]


def test_a_record_comes_back_as_it_was_written(values: Values) -> None:
    record = CellRecord.model_validate(values())
    line = record.to_json_line()
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert CellRecord.model_validate(json.loads(line)) == record
    assert json.loads(line)["schema"] == 1
    assert json.loads(line)["config"]["engine"] == {"use_mmap": True, "chunk": 64, "power": "high"}


def test_an_honest_record_is_ok(values: Values) -> None:
    record = CellRecord.model_validate(values())
    assert (record.verdict, record.why) == (Verdict.OK, None)


@pytest.mark.parametrize(
    ("over", "says"),
    [
        ({"reason": "crash"}, "neither reason nor fault"),
        ({"fault": "product"}, "neither reason nor fault"),
        ({"backend": {"requested": "cpu", "actual": "cpu", "strength": "inferred", "proof": ""}}, "backend proven"),
        ({"backend": {"requested": "cpu", "actual": "cpu", "strength": "none", "proof": ""}}, "backend proven"),
        (
            {"backend": {"requested": "opencl", "actual": "cpu", "strength": "engine", "proof": ""}},
            "the backend that was asked for",
        ),
        (
            {"backend": {"requested": "opencl", "actual": "opencl", "strength": "engine", "proof": ""}},
            "the backend that was asked for",
        ),
        ({"backend": None, "nulls": {"driver": "x", "backend": "x"}}, "backend proven"),
        ({"metrics": None, "nulls": {"driver": "x", "metrics": "x"}}, "needs its metrics"),
    ],
)
def test_nothing_is_ok_without_its_proof(values: Values, over: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        CellRecord.model_validate(values(**over))


@pytest.mark.parametrize("missing", ["decode_tps", "ttft_ms"])
def test_nothing_is_ok_without_its_figures(values: Values, missing: str) -> None:
    bent = values(nulls={"driver": "x", missing: "x"})
    bent["metrics"][missing] = None
    with pytest.raises(ValidationError, match="needs its metrics"):
        CellRecord.model_validate(bent)


@pytest.mark.parametrize("runner", ["llm_bench", "llm_demo"])
def test_tools_that_cannot_tell_a_ttft_are_ok_without_one(values: Values, runner: str) -> None:
    bent = values(nulls={"driver": "x", "ttft_ms": "x"})
    bent["metrics"]["ttft_ms"] = None
    bent["bundle"]["runner"] = runner
    assert CellRecord.model_validate(bent).metrics is not None


def test_nothing_is_ok_when_the_actual_backend_is_unknown(values: Values) -> None:
    bent = values(nulls={"driver": "x", "actual": "x"})
    bent["backend"]["actual"] = None
    with pytest.raises(ValidationError, match="the backend that was asked for"):
        CellRecord.model_validate(bent)


@pytest.mark.parametrize("reason", Reason)
def test_each_reason_goes_with_its_own_verdict_and_fault_only(values: Values, reason: Reason) -> None:
    own = {"verdict": reason.verdict.value, "reason": reason.code, "fault": reason.fault.value}
    assert CellRecord.model_validate(values(**own)).why is reason
    for verdict in set(Verdict) - {Verdict.OK, reason.verdict}:
        with pytest.raises(ValidationError, match=f"reason {reason.code} belongs to"):
            CellRecord.model_validate(values(**{**own, "verdict": verdict.value}))
    for fault in set(Fault) - {reason.fault}:
        with pytest.raises(ValidationError, match=f"reason {reason.code} belongs to"):
            CellRecord.model_validate(values(**{**own, "fault": fault.value}))


@pytest.mark.parametrize("over", [{"reason": None}, {"fault": None}, {"reason": "nobody"}])
def test_what_is_not_ok_says_why_and_whose_fault_it_is(values: Values, over: dict[str, Any]) -> None:
    base = {"verdict": "failed", "reason": "crash", "fault": "product"}
    with pytest.raises(ValidationError, match=r"needs reason and fault|unknown reason code"):
        CellRecord.model_validate(values(**{**base, **over}))


NULLABLE = {
    "adb": ["server", "version"],
    "phone": ["model", "soc", "fingerprint", "boot_id", "driver"],
    "model": ["quant_bits"],
    "bundle": ["engine_version"],
    "metrics": [
        "load_cold_ms", "tuning_ms", "load_ms", "prefill_tps", "token_ms", "peak_rss_bytes", "peak_anon_bytes",
        "peak_swap_bytes", "peak_gpu_bytes", "min_available_bytes", "roofline_ratio", "battery_drop_pct",
        "ttft_ms.p90", "decode_tps.cv", "decode_tps.ci95", "token_ms.p95",
    ],
    "thermal": [
        "start_c", "max_c", "zone", "status_max", "clock_ratio_min", "throttled", "onset_s", "burst_tps",
        "sustained_tps", "sustained_ratio", "plugged",
    ],
    "output": ["token_ids_hash", "reference", "match", "matched_tokens", "golden"],
}  # fmt: skip


@pytest.mark.parametrize(("section", "path"), [(s, p) for s, paths in NULLABLE.items() for p in paths])
def test_a_null_needs_its_reason(values: Values, section: str, path: str) -> None:
    bent = values()
    *way, last = path.split(".")
    place = bent[section]
    for step in way:
        place[step] = dict(place[step])
        place = place[step]
    place[last] = None
    bent["nulls"].pop(path, None)
    with pytest.raises(ValidationError, match=f"null without a reason in nulls: {path}"):
        CellRecord.model_validate(bent)
    bent["nulls"][path] = "because"
    read = CellRecord.model_validate(bent)
    assert unexplained_nulls(read, read.nulls) == []


@pytest.mark.parametrize("section", ["backend", "metrics", "thermal", "output", "raw"])
def test_a_missing_section_needs_its_reason(values: Values, section: str) -> None:
    bent = values(verdict="failed", reason="crash", fault="product", **{section: None})
    with pytest.raises(ValidationError, match=f"null without a reason in nulls: {section}"):
        CellRecord.model_validate(bent)
    bent["nulls"][section] = "because"
    read = CellRecord.model_validate(bent)
    assert unexplained_nulls(read, read.nulls) == []


def test_what_does_not_apply_needs_no_reason(values: Values) -> None:
    record = CellRecord.model_validate(values())
    assert (record.planned_phone, record.config.affinity, record.reason) == (None, None, None)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_no_figure_is_nan_or_infinite(values: Values, number: float) -> None:
    bent = values()
    bent["metrics"]["decode_tps"] = {**bent["metrics"]["decode_tps"], "median": number}
    with pytest.raises(ValidationError, match="finite"):
        CellRecord.model_validate(bent)


def test_half_a_character_becomes_a_replacement(values: Values) -> None:
    bent = values(detail="a\ud83d\ude00b\udc80", nulls={"driver": "x\udcff"})
    record = CellRecord.model_validate(bent)
    assert (record.detail, record.nulls["driver"]) == ("a\U0001f600b\ufffd", "x\ufffd")
    assert CellRecord.model_validate_json(record.to_json_line()) == record


def test_fields_of_the_future_are_passed_over(values: Values) -> None:
    bent = values(tomorrow=1)
    bent["metrics"]["tomorrow"] = 2
    assert not hasattr(CellRecord.model_validate(bent), "tomorrow")


def test_a_record_of_another_schema_is_none(values: Values) -> None:
    with pytest.raises(ValidationError, match="schema"):
        CellRecord.model_validate(values(schema=2))


def test_a_records_values_stay_as_they_are(values: Values) -> None:
    record = CellRecord.model_validate(values())
    with pytest.raises(ValidationError, match="frozen"):
        record.detail = "other"  # type: ignore[misc]


def test_the_head_of_a_run_comes_back_as_it_was_written() -> None:
    info = RunInfo(
        run_id="r1", started="2026-01-01T00:00:00Z", command=("pytest",), harness_version="0", versions={}, host={},
        plan_name="smoke", plan={"threads": [1]}, fleet=(), cells=3,
    )  # fmt: skip
    assert RunInfo.model_validate_json(info.model_dump_json(by_alias=True)) == info


def test_a_head_of_an_older_version_is_read_without_payloads_and_resumptions() -> None:
    old = (
        '{"schema":1,"run_id":"r1","started":"2026-01-01T00:00:00Z","command":["pytest"],"harness_version":"0",'
        '"versions":{},"host":{},"plan_name":"smoke","plan":{},"fleet":[],"left_out":[{"name":"a","reason":"b"}]}'
    )
    info = RunInfo.model_validate_json(old)
    assert (info.models, info.bundle, info.resumptions) == ({}, None, ())
    assert info.still_left_out == info.left_out


def test_resuming_leaves_alone_what_is_ok_or_the_products_fault(values: Values) -> None:
    nothing = dict.fromkeys(("backend", "metrics", "thermal", "output", "raw"), "it never ran")
    assert CellRecord.model_validate(values()).final
    final = set()
    for reason in Reason:
        over = {"verdict": reason.verdict, "reason": reason.code, "fault": reason.fault, **dict.fromkeys(nothing)}
        if CellRecord.model_validate(values(**over, nulls={**values()["nulls"], **nothing})).final:
            final.add(reason)
    assert final == {
        reason
        for reason in Reason
        if reason.verdict is Verdict.UNSUPPORTED
        or (reason.verdict in (Verdict.REJECTED, Verdict.FAILED) and reason.fault is Fault.PRODUCT)
    }
    assert {Reason.CRASH, Reason.OUTPUT_WRONG, Reason.MODEL_TOO_BIG} < final
    assert final.isdisjoint({Reason.NOISY, Reason.HARNESS_ERROR, Reason.BAD_PLAN, Reason.OUT_OF_TIME})
