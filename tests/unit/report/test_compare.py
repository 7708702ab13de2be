"""Which cells of two runs are the same, what is said of each, and what is not compared and why."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from harness.core.reasons import Reason
from harness.report.compare import Comparison, changed, compare_runs
from harness.report.compare_history import between_of
from harness.report.compare_view import as_json, as_markdown, caveats, headline, unmatched_lines
from harness.store.schema import CellRecord

SHAKE = (1.0, 1.004, 0.997, 1.002, 0.998)


def measured(make: ModuleType, name: str = "atlas", tps: float = 50.0, **over: Any) -> CellRecord:
    """A record with five timed repeats about ``tps``; all its figures follow from it, but memory."""
    memory = over.pop("memory", 200 * 2**20)
    thermal = over.pop("thermal", {})
    output = over.pop("output", {})
    base: CellRecord = make.record(name, tps=tps, **over)
    if base.metrics is None:
        return base
    data = base.model_dump(mode="json", by_alias=True)
    samples = [
        {"kind": "timed", "ttft_ms": 10_000 / (tps * shake), "prefill_ms": 9_000 / (tps * shake),
         "decode_tps": tps * shake, "prompt_tokens": 64, "generated_tokens": 32, "finish": "length"}
        for shake in SHAKE
    ]  # fmt: skip
    data["samples"] = [{**samples[0], "kind": "warmup", "decode_tps": 1.0}, *samples]
    data["metrics"] |= {"peak_rss_bytes": memory, "load_ms": 20_000 / tps}
    data["metrics"]["ttft_ms"]["p50"] = 10_000 / tps
    data["metrics"]["prefill_tps"]["median"] = 64 * tps / 9
    data["thermal"] |= thermal
    data["output"] |= output
    return CellRecord.model_validate(data)


def other_build(record: CellRecord) -> CellRecord:
    """The same cell with another build, as another cell id says."""
    bundle = record.bundle.model_copy(update={"hash": "c" * 64, "name": "mnn-new", "engine_version": "3.7.0"})
    return record.model_copy(update={"bundle": bundle, "cell_id": record.cell_id[::-1]})


def compare(base: list[CellRecord], new: list[CellRecord], **over: Any) -> Comparison:
    return compare_runs(base, new, **over)


def verdicts(comparison: Comparison) -> dict[str, str]:
    return {figure.name: figure.change.verdict for figure in comparison.cells[0].figures}


def test_a_cell_that_got_slower_is_a_regression_in_all_that_follows_from_its_speed(make: ModuleType) -> None:
    found = compare([measured(make, tps=50)], [measured(make, tps=45)])
    assert verdicts(found) == {
        "decode_tps": "slower", "prefill_tps": "slower", "ttft_ms": "slower", "load_ms": "cannot tell",
        "peak_rss_bytes": "same", "golden": "same",
    }  # fmt: skip
    assert [cell.regression for cell in found.cells] == [True]
    decode = found.cells[0].figure("decode_tps")
    assert decode is not None
    assert (decode.base, decode.new) == ("50.0 tok/s", "45.0 tok/s")
    assert decode.change.ratio == pytest.approx(0.9)


def test_faster_and_the_same_are_no_regression(make: ModuleType) -> None:
    base = [measured(make, threads=1, tps=50), measured(make, threads=2, tps=50)]
    found = compare(base, [measured(make, threads=1, tps=60), measured(make, threads=2, tps=50.2)])
    assert [cell.badness[0] for cell in found.cells] == [3, 4]
    assert not found.regressions
    assert headline(found) == "2 cells compared: 1 better, 1 without a change beyond 3 %"


def test_memory_is_judged_by_what_it_is_taken_to_differ_by(make: ModuleType) -> None:
    found = compare([measured(make)], [measured(make, memory=240 * 2**20)])
    memory = found.cells[0].figure("peak_rss_bytes")
    assert memory is not None
    assert memory.change.verdict == "slower"
    assert memory.note == "one value a run, taken to differ by 2 % from run to run: below 8 % is none"
    assert verdicts(compare([measured(make)], [measured(make, memory=202 * 2**20)]))["peak_rss_bytes"] == "same"
    assert verdicts(compare([measured(make)], [measured(make, memory=214 * 2**20)]))["peak_rss_bytes"] == "cannot tell"


def test_another_build_is_the_same_cell_and_what_differs_is_said(make: ModuleType) -> None:
    new = other_build(measured(make, tps=50)).model_copy(update={"harness_version": "0.1.1"})
    [cell] = compare([measured(make)], [new]).cells
    assert cell.state == "compared"
    assert cell.differs == (
        "build python (bbbbbbbb) → mnn-new (cccccccc)",
        "engine version 3.6.1 → 3.7.0",
        "harness 0.1.0 → 0.1.1",
    )


def test_more_repeats_are_the_same_cell(make: ModuleType) -> None:
    [cell] = compare([measured(make)], [measured(make, config={"repeats": 9})]).cells
    assert cell.differs == ("repeats 5 → 9",)


@pytest.mark.parametrize("reason", [Reason.CRASH, Reason.OUTPUT_WRONG, Reason.BACKEND_MISSING_ON_PHONE])
def test_ok_before_and_the_products_fault_now_is_a_regression(make: ModuleType, reason: Reason) -> None:
    found = compare([measured(make)], [measured(make, reason=reason)])
    assert (found.cells[0].state, found.cells[0].words) == ("broken", f"ok → {reason.code}")
    assert found.regressions
    back = compare([measured(make, reason=reason)], [measured(make)])
    assert (back.cells[0].state, back.cells[0].better) == ("fixed", True)
    both = compare([measured(make, reason=reason)], [measured(make, reason=reason)])
    assert (both.cells[0].state, bool(both.regressions)) == ("still", False)


@pytest.mark.parametrize("reason", [Reason.NOISY, Reason.DEVICE_LOST, Reason.THROTTLED, Reason.OUT_OF_TIME])
def test_what_the_lab_spoilt_says_nothing_with_its_reason(make: ModuleType, reason: Reason) -> None:
    found = compare([measured(make)], [measured(make, reason=reason, tps=20)])
    assert (found.cells[0].state, found.cells[0].words) == ("cannot tell", f"ok → {reason.code}")
    assert not found.regressions


@pytest.mark.parametrize(
    ("then", "now", "mark"),
    [
        ({"start_c": 30.0}, {"start_c": 38.5}, "began hotter: 30.0 → 38.5 °C, more than 5 °C apart"),
        ({"plugged": True}, {"plugged": False}, "plugged in → unplugged"),
        ({"throttled": False}, {"throttled": True}, "throttled now"),
    ],
)
def test_what_the_circumstances_explain_is_shown_and_not_called(
    make: ModuleType, then: dict[str, Any], now: dict[str, Any], mark: str
) -> None:
    found = compare([measured(make, thermal=then)], [measured(make, tps=45, thermal=now)])
    [cell] = found.cells
    assert cell.marks == (mark,)
    decode = cell.figure("decode_tps")
    assert decode is not None
    assert decode.change.verdict == "cannot tell"
    assert decode.change.words == f"cannot tell: slower, but {mark}"
    assert decode.change.ratio == pytest.approx(0.9)
    assert not found.regressions


def test_a_phone_that_began_hotter_and_is_faster_all_the_same_is_faster(make: ModuleType) -> None:
    found = compare([measured(make, thermal={"start_c": 30.0})], [measured(make, tps=60, thermal={"start_c": 40.0})])
    assert verdicts(found)["decode_tps"] == "faster"
    near = compare([measured(make, thermal={"start_c": 30.0})], [measured(make, tps=45, thermal={"start_c": 34.9})])
    assert near.cells[0].marks == ()
    assert near.regressions


def test_memory_does_not_depend_on_heat(make: ModuleType) -> None:
    new = measured(make, memory=300 * 2**20, thermal={"start_c": 45.0})
    assert verdicts(compare([measured(make)], [new]))["peak_rss_bytes"] == "slower"


def test_in_a_sustained_cell_throttling_is_the_result(make: ModuleType) -> None:
    base, new = make.sustained(throttled=False), make.sustained(throttled=True, sustained_ratio=0.4)
    [cell] = compare([base], [new]).cells
    assert not any("throttled" in mark for mark in cell.marks)
    ratio = cell.figure("sustained_ratio")
    assert ratio is not None
    assert ratio.change.verdict == "slower"


def test_a_figure_that_a_version_defines_otherwise_is_not_compared(make: ModuleType) -> None:
    new = measured(make, tps=45).model_copy(update={"harness_version": "0.3.0"})
    found = compare([measured(make)], [new], changed_in={"decode_tps": ["0.2.0"]})
    decode = found.cells[0].figure("decode_tps")
    assert decode is not None
    assert decode.change.words == "cannot tell: mnn-farm 0.2.0 defines it otherwise"
    assert verdicts(found)["prefill_tps"] == "slower"
    assert verdicts(compare([measured(make)], [new], changed_in={"decode_tps": ["0.4.0"]}))["decode_tps"] == "slower"


@pytest.mark.parametrize(
    ("right", "verdict"), [("18/20", "same"), ("3/20", "slower"), ("16/20", "cannot tell"), ("9/10", None)]
)
def test_scores_are_compared_where_the_same_questions_were_asked(
    make: ModuleType, right: str, verdict: str | None
) -> None:
    found = compare([measured(make, output={"golden": "18/20"})], [measured(make, output={"golden": right})])
    assert verdicts(found).get("golden") == verdict
    other = measured(make, output={"golden": right, "golden_set": "other"})
    assert "golden" not in verdicts(compare([measured(make, output={"golden": "18/20"})], [other]))


def why(base: list[CellRecord], new: list[CellRecord], **over: Any) -> list[tuple[str, str]]:
    found = compare(base, new, **over)
    assert found.cells == ()
    return [(each.side, each.why) for each in found.unmatched]


def test_other_settings_are_not_the_same_cell(make: ModuleType) -> None:
    assert why([measured(make, threads=1)], [measured(make, threads=4)]) == [
        ("new", "other settings in the base run: threads 1 there, 4 here"),
        ("base", "other settings in the new run: threads 4 there, 1 here"),
    ]


def test_another_prompt_is_not_the_same_cell(make: ModuleType) -> None:
    [said, _] = why([measured(make)], [measured(make, config={"prompt_hash": "q" * 64})])
    assert said[1] == "other settings in the base run: prompt or questions"


def test_another_model_is_refused_and_named_where_only_its_name_is_the_same(make: ModuleType) -> None:
    model = {"name": "tiny-llama", "hash": "n" * 64, "weight_bytes": 1, "quant_bits": 8}
    [said, _] = why([measured(make)], [measured(make, model="tiny-llama").model_copy(update={
        "model": measured(make).model.model_validate(model), "cell_id": "9" * 64})])  # fmt: skip
    assert said[1] == "another model: only its name is the same in the base run, its files are not (mmmmmmmm)"
    [said, _] = why([measured(make)], [measured(make).model_copy(update={
        "model": measured(make).model.model_validate({**model, "name": "big"}), "cell_id": "9" * 64})])  # fmt: skip
    assert said[1] == "this model was not measured on this phone in the base run"


def test_another_runner_and_another_context_are_refused(make: ModuleType) -> None:
    base = measured(make)
    runner = base.model_copy(update={"bundle": base.bundle.model_copy(update={"runner": "llm_bench"}), "cell_id": "9"})
    assert why([base], [runner])[0][1] == "it was run by farm_runner in the base run, which measures differently"
    app = base.model_copy(update={"phone": base.phone.model_copy(update={"context": "app"}), "cell_id": "9"})
    assert why([base], [app])[0][1] == "it ran as shell in the base run"


def test_another_phone_is_refused_unless_phones_of_one_model_are_to_be_compared(make: ModuleType) -> None:
    base, new = measured(make, "atlas"), measured(make, "birch", tps=45, phone=make.phone("birch", model="Model atlas"))
    assert why([base], [new])[0][1] == (
        "another phone of this model was measured in the base run; --across compares them"
    )
    [cell] = compare([base], [new], across=True).cells
    assert cell.marks == ("another phone of the same model (atlas → birch)",)
    assert cell.regression
    assert why([base], [measured(make, "birch")], across=True)[0][1] == "this phone was not measured in the base run"


def test_where_several_cells_could_be_it_none_is_taken(make: ModuleType) -> None:
    base = measured(make)
    twins = [other_build(base), other_build(base).model_copy(update={"cell_id": "8" * 64})]
    said = why(twins, [base])
    assert said[0][1] == "2 cells of a run could be it: they differ in build or phone alone"


def test_the_attempt_that_counts_is_compared(make: ModuleType) -> None:
    first, second = measured(make, tps=30), measured(make, tps=50, attempt=2)
    late = measured(make, reason=Reason.OUT_OF_TIME, attempt=3)
    [cell] = compare([first, second, late], [measured(make, tps=50)]).cells
    assert cell.base.attempt == 2
    assert not cell.regression


def test_the_worst_come_first(make: ModuleType) -> None:
    base = [measured(make, threads=n, tps=50) for n in (1, 2, 3, 4, 5)]
    new = [
        measured(make, threads=1, tps=60), measured(make, threads=2, tps=45), measured(make, threads=3, tps=30),
        measured(make, threads=4, reason=Reason.CRASH), measured(make, threads=5, reason=Reason.NOISY),
    ]  # fmt: skip
    assert [cell.new.config.threads for cell in compare(base, new).cells] == [4, 3, 2, 5, 1]
    assert headline(compare(base, new)) == "5 cells compared: 1 broken, 2 worse, 1 better, 1 not decided"


def test_how_many_wrong_calls_chance_alone_makes_is_said(make: ModuleType) -> None:
    base = [measured(make, threads=n) for n in range(1, 9)]
    new = [measured(make, threads=n, tps=45 if n == 1 else 50) for n in range(1, 9)]
    found = compare(base, new)
    assert found.by_chance == pytest.approx(8 * 5 * 0.0225)
    assert caveats(found) == [
        "of so many figures about 0.9 would be called worse by chance alone: --verify measures them again"
    ]


def test_history_tells_how_far_runs_lie_apart_and_keeps_what_that_explains_from_being_called(make: ModuleType) -> None:
    runs = [[measured(make, threads=n, tps=50 * move) for n in (1, 2)] for move in (1.0, 1.06, 0.95, 1.02)]
    between = between_of(runs)
    assert between["decode_tps"] == pytest.approx(0.046, abs=0.004)
    assert between["peak_rss_bytes"] == 0
    assert between_of(runs[:1]) == {}
    found = compare([measured(make, tps=50)], [measured(make, tps=46)], between=between)
    assert verdicts(found)["decode_tps"] == "cannot tell"


def test_the_decode_speed_of_two_records_can_be_judged_alone(make: ModuleType) -> None:
    assert changed(measured(make), measured(make, tps=45)).verdict == "slower"
    assert changed(measured(make), measured(make, reason=Reason.CRASH)).why == "one of the records is not ok"


def test_json_says_everything_and_markdown_is_no_markup_of_a_phones(make: ModuleType) -> None:
    evil = {**make.phone("atlas"), "name": "<b>|`x`\x1b[31m"}
    found = compare(
        [measured(make, phone=evil), measured(make, threads=7)], [measured(make, tps=45, phone=evil)], names=("a`", "b")
    )
    told = as_json(found)
    assert (told["schema"], told["regression"], told["base"], told["bound"]) == (1, True, "a`", 0.03)
    [cell] = told["cells"]
    assert cell["figures"][0]["verdict"] == "slower"
    assert cell["figures"][0]["ratio"] == pytest.approx(0.9)
    assert cell["raw"] == ["raw/0123456789ab/1/"] * 2
    assert told["not_compared"][0]["side"] == "base"
    text = as_markdown(found)
    assert "## 🔴 1 cell compared: 1 worse; 1 cell not compared" in text
    assert "&lt;b&gt;\\|\\`x\\`\\\\x1b\\[31m" in text
    assert "<b>" not in text
    assert "\x1b" not in text
    assert "**slower**" in text
    assert unmatched_lines(found)[0].startswith("not compared: atlas tiny-llama · CPU · 7 threads")


def test_of_many_cells_the_worst_are_shown_and_the_rest_is_counted(make: ModuleType) -> None:
    base = [measured(make, config={"generate_tokens": n}) for n in range(2, 132)]
    new = [measured(make, config={"generate_tokens": n}, tps=40 if n < 112 else 50) for n in range(2, 132)]
    found = compare(base, new)
    assert len(found.regressions) == 110
    assert "20 cells that did not get worse are only in --json" in caveats(found)
    assert as_markdown(found).count("| decode |") == 110


@pytest.mark.parametrize(
    ("cosine", "verdict"), [(0.9999, "same"), (0.99985, "same"), (0.999, "slower"), (0.9, "slower"), (0.99999, "same")]
)
def test_a_build_that_computes_a_model_less_exactly_is_worse_whatever_its_latency(
    make: ModuleType, cosine: float, verdict: str
) -> None:
    found = compare([make.tensor(cosine=0.9999)], [make.tensor(cosine=cosine, latency=10.0)])
    assert verdicts(found)["cosine"] == verdict
    assert bool(found.regressions) is (verdict == "slower")
    back = compare([make.tensor(cosine=cosine)], [make.tensor(cosine=0.9999)])
    assert verdicts(back)["cosine"] == {"slower": "faster", "same": "same"}[verdict]


def test_decisions_that_changed_count_by_their_number(make: ModuleType) -> None:
    base = make.tensor(same=1.0, samples=200)
    assert verdicts(compare([base], [make.tensor(same=1.0, samples=200)]))["same_top1"] == "same"
    assert verdicts(compare([base], [make.tensor(same=0.6, samples=200)]))["same_top1"] == "slower"
    few = compare([make.tensor(same=1.0, samples=5)], [make.tensor(same=0.8, samples=5)])
    assert verdicts(few)["same_top1"] == "cannot tell"


@pytest.mark.parametrize("over", [{"samples": 30}, {"config": {"prompt_hash": "other"}}])
def test_accuracy_over_other_samples_is_not_compared(make: ModuleType, over: dict[str, Any]) -> None:
    found = compare([make.tensor()], [make.tensor(cosine=0.5, **over)])
    assert not [cell for cell in found.cells if {"cosine", "same_top1"} & {figure.name for figure in cell.figures}]
