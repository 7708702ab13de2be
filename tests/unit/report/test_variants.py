"""The variants of a model side by side, and which of them to ship."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import jsonschema
import pytest

from harness.core.reasons import Reason
from harness.core.resources import data_root
from harness.plan.tiers import TierRules
from harness.report.slo import missed_of
from harness.report.tiers import lines_of, tiers_json, tiers_of
from harness.report.tiers_json import document
from harness.report.variants import models_of, setting_of
from harness.store.schema import CellRecord

GIB = 2**30
SLO = {"latency_ms": 50.0, "cosine": 0.98, "same_positions": 0.98, "ram_share_max": 0.2}
RULES = TierRules.model_validate(
    {"rules": [{"tier": "low", "when": {}}], "tensor_slo": dict.fromkeys(("high", "mid", "low"), SLO)}
)


def on(record: CellRecord, *, ram: int = 8 * GIB, **phone: Any) -> CellRecord:
    return record.model_copy(update={"phone": record.phone.model_copy(update={"ram_bytes": ram, **phone})})


def three(make: ModuleType, name: str = "atlas", **over: Any) -> list[CellRecord]:
    """The OCR model in three variants, as issue 10 measured them, with four threads."""
    figures = {"fp32": (1.0, 1.0), "fp16": (0.99987, 0.997), "int8": (0.984, 0.992)}
    return [
        on(make.tensor(name, stored, threads=4, cosine=cosine, same=same, **over))
        for stored, (cosine, same) in figures.items()
    ]


def shipped(make: ModuleType, records: Sequence[CellRecord], rules: TierRules = RULES) -> dict[str, Any]:
    """What ``tiers.json`` says of the one model of the tier high."""
    high = json.loads(tiers_json(tiers_of(make.info(), records, rules)))["tiers"][0]
    [found] = high["variants"]
    return found


def test_variants_of_one_source_stand_side_by_side_the_most_exact_first(make: ModuleType) -> None:
    other = make.tensor(model="cls", source=None)
    first, second = models_of([*reversed(three(make)), make.record(), other])
    assert (first.name, [side.variant.stored for side in first.sides]) == ("ocr-fp32", ["fp32", "fp16", "int8"])
    assert (second.source, second.name) == (other.model.hash, "cls-fp32")


def test_of_a_variant_the_fastest_proven_setting_counts_and_of_a_tier_the_worst_phone(make: ModuleType) -> None:
    cells = [
        make.tensor("atlas", threads=1, latency=40.0),
        make.tensor("atlas", threads=4, latency=12.0, peak=50 * 2**20),
        make.tensor("atlas", backend="opencl", threads=68, latency=3.0, reason=Reason.OUTPUT_WRONG, detail="far off"),
        make.tensor("birch", threads=4, latency=9.0, peak=80 * 2**20, cosine=0.9),
    ]
    [model] = models_of(cells)
    [side] = model.sides
    [high] = side.tiers
    assert (high.tier, high.phones, high.measured) == ("high", 2, 2)
    assert (high.slowest, high.largest, high.least) == (cells[1], cells[3], cells[3])
    assert setting_of(high.slowest) == "CPU low / low, 4 threads"
    [refused] = side.phones[0].refused
    assert (refused.setting, refused.code, refused.detail) == ("OpenCL low / low, mode 68", "output_wrong", "far off")


def test_a_variant_without_a_result_has_no_tier(make: ModuleType) -> None:
    [model] = models_of([make.tensor(reason=Reason.CRASH)])
    assert (model.sides[0].tiers, model.sides[0].phones[0].best) == ((), None)


def test_the_smallest_variant_that_keeps_the_promises_is_shipped(make: ModuleType) -> None:
    found = shipped(make, [*three(make), on(make.tensor(stored="int4", threads=4, cosine=0.81, same=0.7))])
    assert (found["name"], found["source"]) == ("ocr-fp32", "5" * 64)
    assert (found["recommended"]["stored"], found["recommended"]["threads"]) == ("int8", 4)
    assert found["expected"] == {
        "latency_ms_worst_phone": 25.0, "peak_rss_bytes": 90 * 2**20, "min_available_bytes": 3 * GIB, "max_c": 41.25,
        "cosine": 0.984, "same_positions": 0.992, "same_top1": pytest.approx(0.952), "max_error": 0.16,
        "real_inputs": True, "proven_on": 1, "tried_on": 1,
    }  # fmt: skip
    assert [each["configuration"]["stored"] for each in found["runners_up"]] == ["fp16", "fp32"]
    [out] = found["ruled_out"]
    assert (out["stored"], out["by"]) == ("int4", ["cosine", "same_positions"])
    assert out["because"].startswith("on Model atlas: cosine similarity 0.810 (over 25 real inputs); at least 0.980 is")


def test_a_more_exact_promise_ships_a_larger_variant(make: ModuleType) -> None:
    rules = RULES.model_copy(
        update={"tensor_slo": {"high": RULES.tensor_slo["high"].model_copy(update={"cosine": 0.999})}}
    )
    assert shipped(make, three(make), rules)["recommended"]["stored"] == "fp16"


def test_among_settings_of_a_variant_the_fastest_on_the_slowest_phone_is_taken(make: ModuleType) -> None:
    cells = [
        on(make.tensor(name, threads=threads, latency=latency))
        for name, threads, latency in (("atlas", 1, 8.0), ("birch", 1, 30.0), ("atlas", 4, 12.0), ("birch", 4, 20.0))
    ]
    found = shipped(make, cells)
    assert (found["recommended"]["threads"], found["expected"]["latency_ms_worst_phone"]) == (4, 25.0)
    assert found["others"] == 1


def test_what_misses_on_any_phone_of_the_tier_is_ruled_out(make: ModuleType) -> None:
    slow = on(make.tensor("birch", "int8", threads=4, latency=70.0, n=30, cosine=0.984))
    found = shipped(make, [*three(make), slow])
    assert found["recommended"]["stored"] == "fp16"
    [out] = found["ruled_out"]
    assert out["because"] == "on Model birch: latency 77.0 ms (p90 of 30); at most 50.0 ms is promised"


def test_a_wrong_output_rules_a_setting_out_and_a_phone_that_refuses_is_an_exception(make: ModuleType) -> None:
    names = ("atlas", "birch", "cedar")
    gpu = {"backend": "vulkan", "threads": 1}
    cells = [on(make.tensor(name, "int8", latency=5.0, cosine=0.984, **gpu)) for name in names[:2]]
    cells.append(on(make.tensor("cedar", "int8", reason=Reason.OUTPUT_WRONG, detail="cosine 0.2", **gpu)))
    cells += [on(make.tensor(name, "int8", latency=9.0, cosine=0.984)) for name in names]
    report = tiers_of(make.info(*names), cells, RULES)
    [found] = report.tiers[0].variants
    assert found.recommended is not None
    assert found.recommended.configuration.backend == "vulkan"
    [exception] = found.exceptions
    assert (exception.phone_id, exception.because) == (
        "id-of-cedar", "output_wrong: the text, or an output, differs from the reference (cosine 0.2)"
    )  # fmt: skip
    assert exception.instead is not None
    assert exception.instead.configuration.backend == "cpu"


def test_accuracy_over_random_inputs_proves_nothing_of_a_model_with_fewer_bits(make: ModuleType) -> None:
    found = shipped(make, [on(make.tensor(stored="int8", real=False))])
    assert found["recommended"] is None
    assert found["provisional"]["configuration"]["stored"] == "int8"
    assert found["because"].endswith(
        "not known: cosine similarity and share of decisions that stay the same (measured over random inputs, which "
        "says little: add real ones (models convert --samples DIR))"
    )


def test_outputs_that_agree_everywhere_need_no_real_inputs(make: ModuleType) -> None:
    assert shipped(make, [on(make.tensor(real=False, agreeing=1.0))])["recommended"]["stored"] == "fp32"


def test_nothing_is_promised_of_decisions_that_outputs_do_not_make(make: ModuleType) -> None:
    assert shipped(make, [on(make.tensor(same=None))])["recommended"] is not None


def test_where_nothing_meets_the_promises_it_is_said_what_to_do(make: ModuleType) -> None:
    found = shipped(make, [on(make.tensor(latency=80.0))])
    assert (found["recommended"], found["expected"]) == (None, None)
    assert found["because"] == (
        "no variant met the SLO: convert it with other weights, take a smaller model, or use the server (closest: "
        "ocr-fp32, CPU low / low, 1 thread: latency 100 ms (slowest of 5, too few for a p90); at most 50.0 ms is "
        "promised)"
    )


def test_a_variant_that_never_ended_well_is_not_shipped_even_where_nothing_is_promised(make: ModuleType) -> None:
    rules = RULES.model_copy(update={"tensor_slo": {"high": type(RULES.tensor_slo["high"]).model_validate({})}})
    found = shipped(make, [on(make.tensor(reason=Reason.THROTTLED, measured=False))], rules)
    assert found["recommended"] is None


def test_the_document_follows_its_schema_and_language_models_are_as_before(make: ModuleType) -> None:
    schema = json.loads((data_root() / "profiles" / "tiers.schema.json").read_text("utf-8"))
    report = tiers_of(make.info(), [*three(make), on(make.tensor("birch", reason=Reason.CRASH)), make.record()], RULES)
    written = json.loads(tiers_json(report))
    jsonschema.validate(written, schema)
    assert written["tensor_slo"]["high"]["latency_ms"] == 50.0
    # A document of an older writer has neither key, and is as good.
    del written["tensor_slo"]
    for tier in written["tiers"]:
        del tier["variants"]
    jsonschema.validate(written, schema)
    without = document(tiers_of(make.info(), [make.record()], RULES))
    assert [tier.variants for tier in without.tiers] == [[], [], []]


def test_a_line_for_a_terminal_says_what_to_ship(make: ModuleType) -> None:
    assert lines_of(tiers_of(make.info(), three(make), RULES)) == [
        "tier high, ocr-fp32: ship int8, ocr-int8, CPU low / low, 4 threads, 25.0 ms, 99.2 % of decisions kept, proven "
        "on 1 of 2 phones"
    ]
    [line] = lines_of(tiers_of(make.info(), [on(make.tensor(latency=80.0))], RULES))
    assert line.startswith("tier high, ocr-fp32: no variant recommended: no variant met the SLO")


def test_cells_of_which_nothing_is_promised_are_left_out(make: ModuleType) -> None:
    rules = RULES.model_copy(update={"tensor_slo": {}})
    report = tiers_of(make.info(), three(make), rules)
    assert report.left_out == ("3 tensor cells: the rules promise nothing of them: add [tensor_slo.TIER]",)
    assert all(tier.variants == () for tier in report.tiers)


def test_an_ok_cell_that_misses_its_tiers_tensor_slo_says_what(make: ModuleType) -> None:
    [line] = missed_of(on(make.tensor(latency=60.0)), RULES)
    assert line.words == "latency 75.0 ms (slowest of 5, too few for a p90); at most 50.0 ms is promised"
    assert missed_of(on(make.tensor(peak=GIB), ram=2 * GIB), RULES)[0].name == "ram_share_max"
    assert missed_of(on(make.tensor()), RULES) == ()
    assert missed_of(make.record(tps=0.1), RULES) == ()
