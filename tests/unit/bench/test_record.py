from __future__ import annotations

import math
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from harness.bench import record as made
from harness.bench.heat import battery_drop_pct, plugged, thermal_of
from harness.bench.said import output_of
from harness.bench.validity import judge
from harness.core.reasons import Reason
from harness.phone.battery import Battery


def metrics(evidence: Any) -> tuple[Any, dict[str, str]]:
    nulls = dict(made.ALWAYS_NULL)
    return made.metrics_of(evidence, nulls), nulls


def test_the_figures_are_those_of_the_timed_generations_alone(make: ModuleType) -> None:
    found, nulls = metrics(make.evidence())
    assert found.decode_tps.median == pytest.approx((50 + 1000 / 20.4) / 2)
    assert (found.decode_tps.n, found.ttft_ms.n, found.ttft_ms.p50) == (2, 2, 42.0)
    assert found.prefill_tps.median == 200.0
    assert (found.load_ms, found.peak_rss_bytes, found.peak_anon_bytes) == (300.0, 170_000_000, 90_000_000)
    assert found.min_available_bytes == 3 * 1024**3
    assert nulls["ttft_ms.p90"] == "20 samples are needed"
    assert nulls["decode_tps.ci95"] == "3 samples are needed"
    assert nulls["tuning_ms"] == "the CPU backend has no tuning step"
    assert "token_ms.p95" not in nulls


def test_every_null_among_the_figures_has_its_reason(make: ModuleType) -> None:
    blind = make.sample(anon_bytes=None, swap_bytes=None, mem_available_bytes=None)
    found, nulls = metrics(make.evidence(backend="opencl", samples=(blind,), maxrss_bytes=None))
    missing = {name for name in found.model_fields_set if getattr(found, name) is None}
    assert missing == {
        "load_cold_ms", "first_use_ms", "tuning_ms", "peak_rss_bytes", "peak_anon_bytes", "peak_swap_bytes",
        "peak_gpu_bytes", "min_available_bytes", "roofline_ratio", "battery_drop_pct", "bandwidth_gb_per_s",
        "reload_growth_bytes", "gpu_counter", "killed_apps",
    }  # fmt: skip
    assert all(nulls[name] for name in missing)
    assert nulls["peak_rss_bytes"] == "the phone's /proc did not tell"


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0, 1e-320, 1e308])
@pytest.mark.parametrize("field", ["prefill_ms", "ttft_ms", "token_ms", "load_ms", "engine_decode_ms"])
def test_no_time_can_break_the_record_of_a_refused_cell(make: ModuleType, field: str, value: float) -> None:
    def lie(told: list[dict[str, Any]]) -> None:
        place = told[1] if field == "load_ms" else told[3]
        place[field] = [value] * 31 if field == "token_ms" else value

    evidence = make.evidence(bend=lie)
    found, nulls = metrics(evidence)
    samples = made.samples_of(evidence)
    text = found.model_dump_json() + "".join(sample.model_dump_json() for sample in samples)
    assert "NaN" not in text
    assert "Infinity" not in text
    if field == "load_ms":
        assert found.load_ms is None
        assert nulls["load_ms"] == "the runner told no possible time"
    elif field != "engine_decode_ms":
        assert found.decode_tps.n == 1


def test_there_are_no_figures_without_a_load_event_or_a_generation(make: ModuleType) -> None:
    assert metrics(make.evidence(b""))[0] is None
    assert metrics(make.evidence(make.lines(make.events()[:2])))[0] is None


CHARGING = Battery(80, 30.0, "usb", "charging", "good", 4000, False)
RESTING = Battery(80, 30.0, "none", "discharging", "good", 4000, False)


@pytest.mark.parametrize(
    ("before", "after", "drop", "why"),
    [
        (RESTING, replace(RESTING, level_pct=77), 3.0, ""),
        (RESTING, RESTING, 0.0, ""),
        (CHARGING, CHARGING, None, "a charger was on"),
        (RESTING, CHARGING, None, "a charger was on"),
        (replace(RESTING, overridden=True), RESTING, None, "the battery's readings are frozen"),
        (RESTING, None, None, "the battery was not read"),
        (None, None, None, "the battery was not read"),
        (replace(RESTING, level_pct=None), RESTING, None, "the battery was not read"),
    ],
)
def test_how_far_the_battery_fell_is_told_only_where_it_means_something(
    make: ModuleType, before: Any, after: Any, drop: float | None, why: str
) -> None:
    nulls: dict[str, str] = {}
    evidence = replace(make.evidence(), battery_before=before, battery_after=after)
    assert battery_drop_pct(evidence, nulls) == drop
    assert nulls.get("battery_drop_pct", "") == why


@pytest.mark.parametrize(
    ("before", "on", "why"),
    [
        (CHARGING, True, ""),
        (RESTING, False, ""),
        (replace(RESTING, plugged=None, nulls={"plugged": "no such line"}), None, "no such line"),
        (None, None, "the battery was not read"),
    ],
)
def test_whether_a_charger_was_on_is_told_from_the_reading_before(
    make: ModuleType, before: Any, on: bool | None, why: str
) -> None:
    nulls: dict[str, str] = {}
    assert plugged(replace(make.evidence(), battery_before=before), nulls) is on
    assert nulls.get("plugged", "") == why


# A burst cell has no sustained phase, and nobody asked for the status.
BURST = {"onset_s", "burst_tps", "sustained_tps", "sustained_ratio", "status_max"}


def thermal(make: ModuleType, *rows: dict[str, Any], zones: tuple[str, ...] = ("cpu-0-0", "skin-therm")) -> Any:
    nulls: dict[str, str] = {}
    evidence = make.evidence(samples=tuple(make.sample(**row) for row in rows), zones=zones)
    return thermal_of(replace(evidence, battery_before=CHARGING), make.facts(), nulls), nulls


def test_temperatures_are_those_of_the_leading_zone(make: ModuleType) -> None:
    found, nulls = thermal(
        make, {"milli_c": (30_000, 41_000)}, {"milli_c": (None, None)}, {"milli_c": (35_000, 52_500)}
    )
    assert (found.zone, found.start_c, found.max_c) == ("skin-therm", 41.0, 52.5)
    assert set(nulls) == BURST


def test_clocks_are_told_as_shares_of_what_the_cores_can(make: ModuleType) -> None:
    found, _ = thermal(make, {"cap_khz": (1_000_000, 2_400_000)}, {"cap_khz": (1_000_000, 1_800_000)})
    assert (found.clock_ratio_min, found.throttled) == (0.75, True), "of the fastest core, which computed"


def test_the_record_calls_a_cell_throttled_when_the_rule_does(make: ModuleType) -> None:
    rows = (make.sample(), make.sample(cap_khz=(1_790_000, 2_400_000)))
    found = thermal_of(make.evidence(samples=rows), make.facts(), {})
    assert found is not None
    assert found.throttled is False
    assert make.codes(make.evidence(samples=rows)) == []


@pytest.mark.parametrize("milli_c", [(), (30_000,), (None, None), (0, -40_000), (30_000, 31_000, 32_000)])
def test_samples_that_do_not_fit_the_zones_break_nothing(make: ModuleType, milli_c: tuple[int | None, ...]) -> None:
    found, _ = thermal(make, {"milli_c": (30_000, 41_000)}, {"milli_c": milli_c}, {"cap_khz": (1,)})
    assert found.start_c == 41.0
    found, nulls = thermal(make, {"milli_c": milli_c})
    assert (found.start_c is None, found.zone is None) == ("start_c" in nulls, "zone" in nulls)


def test_a_phone_that_shows_nothing_says_why_nothing_is_known(make: ModuleType) -> None:
    found, nulls = thermal(make, {"milli_c": (), "cap_khz": ()}, zones=())
    assert (found.start_c, found.max_c, found.zone, found.clock_ratio_min) == (None,) * 4
    assert (found.throttled, found.judged_by) == (False, "speed alone")
    assert set(nulls) == {"start_c", "max_c", "zone", "clock_ratio_min"} | BURST


def test_there_is_no_thermal_section_without_samples(make: ModuleType) -> None:
    assert thermal(make)[0] is None


def output(make: ModuleType, **over: Any) -> Any:
    evidence = make.evidence(**over)
    nulls: dict[str, str] = {}
    return output_of(evidence, evidence.plan, nulls), nulls


def test_answers_are_matched_whatever_their_case(make: ModuleType) -> None:
    found, _ = output(make)
    assert (found.text, found.golden, found.timed_text) == ("Lima.", "1/1", "The river ran east.")
    assert [(a.question, a.right) for a in found.answers] == [("Capital of Peru?", True)]


def test_an_answer_to_another_question_answers_nothing(make: ModuleType) -> None:
    found, _ = output(make, bend=lambda told: told[5].update(question="Capital of Chile?"))
    assert (found.golden, found.answers) == (None, ())


def test_without_questions_the_timed_text_is_shown(make: ModuleType) -> None:
    found, nulls = output(make, the_plan=make.plan(ask=[]), bend=lambda told: told.pop(5))
    assert (found.text, found.golden, nulls["golden"]) == ("The river ran east.", None, "the plan asks no question")


def test_equal_tokens_have_equal_hashes(make: ModuleType) -> None:
    same, _ = output(make)
    again, _ = output(make)
    other, _ = output(make, bend=lambda told: told[3].update(token_ids=list(range(32))))
    assert same.token_ids_hash == again.token_ids_hash != other.token_ids_hash


def test_every_objection_is_a_finding_with_its_evidence(make: ModuleType) -> None:
    objections = judge(make.evidence(stderr=b"LLM init error\n", boot_ms=9000.0))
    assert [(f.code, f.evidence) for f in made.findings_of(objections)] == [
        (Reason.ENGINE_ERROR.code, "LLM init error"),
        (Reason.SUSPENDED.code, ""),
    ]


def test_every_generation_is_kept_raw(make: ModuleType) -> None:
    samples = made.samples_of(make.evidence(bend=lambda told: told[3].update(finish="x" * 100)))
    assert [sample.kind for sample in samples] == ["warmup", "timed", "timed", "answer"]
    assert samples[1].decode_tps == 50.0
    assert samples[1].finish == "x" * 40


def test_a_timed_generation_far_from_the_others_is_marked_and_counts(make: ModuleType) -> None:
    def one_slow(told: list[dict[str, Any]]) -> None:
        told[4:5] = [make.generation(n, "timed", step_ms=40.0 if n == 4 else 20.0, rss_bytes=n) for n in range(2, 7)]

    evidence = make.evidence(bend=one_slow, the_plan=make.plan(repeats=6))
    samples = made.samples_of(evidence)
    assert [(sample.kind, sample.outlier, sample.rss_bytes) for sample in samples] == [
        ("warmup", False, None), ("timed", False, None), ("timed", False, 2), ("timed", False, 3), ("timed", True, 4),
        ("timed", False, 5), ("timed", False, 6), ("answer", False, None),
    ]  # fmt: skip
    found, _ = metrics(evidence)
    assert (found.decode_tps.n, found.decode_tps.median) == (6, 50.0)
    assert found.token_ms.max == 40.0
