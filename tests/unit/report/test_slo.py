from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from harness.core.reasons import Reason
from harness.plan.tiers import Slo, TierRules
from harness.report.slo import Missed, figures_of, judge, missed, missed_of

GIB = 2**30


def slo(**promises: Any) -> Slo:
    return Slo.model_validate({"prompt_tokens": 64, **promises})


def with_ram(record: Any, ram_bytes: int | None) -> Any:
    return record.model_copy(update={"phone": record.phone.model_copy(update={"ram_bytes": ram_bytes})})


@pytest.mark.parametrize(
    ("promises", "names"),
    [
        ({"ttft_ms": 201.0}, []),
        ({"ttft_ms": 200.9}, ["ttft_ms"]),
        ({"decode_tps": 48.0}, []),
        ({"decode_tps": 48.1}, ["decode_tps"]),
        ({"min_available_bytes": 3 * GIB}, []),
        ({"min_available_bytes": 3 * GIB + 1}, ["min_available_bytes"]),
        ({"ttft_ms": 1.0, "decode_tps": 999.0}, ["ttft_ms", "decode_tps"]),
        ({}, []),
    ],
)
def test_a_bound_that_is_just_reached_is_kept(make: ModuleType, promises: dict[str, Any], names: list[str]) -> None:
    assert [each.name for each in missed(make.record(), slo(**promises))] == names


def test_what_is_missed_says_what_was_wanted_and_what_was_got(make: ModuleType) -> None:
    [line] = missed(make.record(tps=8.0), slo(decode_tps=10.0))
    assert line == Missed("decode_tps", 10.0, 8.0)
    assert line.words == "decode speed 8.00 tok/s; at least 10.0 tok/s is promised"


def test_the_latency_is_the_p90_and_of_too_few_samples_the_slowest_which_it_says(make: ModuleType) -> None:
    few = make.record()
    assert missed(few, slo(ttft_ms=190.0))[0].words == (
        "time to first token 201 ms (slowest of 5, too few for a p90); at most 190 ms is promised"
    )
    latency = few.metrics.ttft_ms.model_copy(update={"p90": 188.0, "n": 30})
    many = few.model_copy(update={"metrics": few.metrics.model_copy(update={"ttft_ms": latency})})
    assert missed(many, slo(ttft_ms=190.0)) == ()
    assert missed(many, slo(ttft_ms=180.0))[0].words.startswith("time to first token 188 ms (p90 of 30)")


def test_the_peak_is_a_share_of_the_phones_own_memory(make: ModuleType) -> None:
    record = make.record()
    assert missed(with_ram(record, GIB), slo(ram_share_max=0.2)) == ()
    [line] = missed(with_ram(record, GIB), slo(ram_share_max=0.19))
    assert (line.name, line.got) == ("ram_share_max", 196 / 1024)
    assert "19.1 % (196 MiB of 1.00 GiB); at most 19.0 %" in line.words


def test_what_is_not_known_is_neither_kept_nor_missed_and_has_its_reason(make: ModuleType) -> None:
    record = make.record(config={"kind": "sustained", "duration_s": 60.0})
    found = judge(figures_of(record), slo(sustained_ratio=0.5, ram_share_max=0.3, golden=0.5, ttft_ms=1.0))
    assert (found.met, found.missed) == ((), ())
    assert [(each.name, each.got) for each in found.unknown] == [
        ("sustained_ratio", None), ("ram_share_max", None), ("golden", None)
    ]  # fmt: skip
    assert found.unknown[0].words == (
        "sustained over burst speed not known (only in sustained cells); at least 0.50 is promised"
    )
    assert not found.kept


def test_a_soak_is_held_to_its_ratio_and_not_to_burst_speed(make: ModuleType) -> None:
    soak = make.sustained()
    assert [each.name for each in missed(soak, slo(sustained_ratio=0.7, decode_tps=999.0, ttft_ms=1.0))] == [
        "sustained_ratio"
    ]
    assert missed(soak, slo(sustained_ratio=0.6)) == ()


@pytest.mark.parametrize(("golden", "golden_set", "names"), [
    ("20/50", "general 0a", ["golden"]), ("25/50", "general 0a", []), ("0/1", None, []),
])  # fmt: skip
def test_a_few_questions_of_a_plan_are_no_golden_set(
    make: ModuleType, golden: str, golden_set: str | None, names: list[str]
) -> None:
    record = make.record()
    output = record.output.model_copy(update={"golden": golden, "golden_set": golden_set})
    asked = record.model_copy(update={"output": output})
    assert [each.name for each in missed(asked, slo(golden=0.5))] == names


@pytest.mark.parametrize("over", [
    {"config": {"prompt_tokens": 32}}, {"config": {"context_tokens": 1024}}, {"reason": Reason.NOISY},
    {"bundle": {"name": "s", "hash": "b" * 64, "engine": "synthetic", "engine_version": "1", "runner": "farm_runner"}},
])  # fmt: skip
def test_only_ok_cells_of_a_real_engine_at_the_promised_length_are_held_to_it(
    make: ModuleType, over: dict[str, Any]
) -> None:
    assert missed(make.record(), slo(decode_tps=999.0)) != ()
    assert missed(make.record(**over), slo(decode_tps=999.0)) == ()


def test_a_cell_is_held_to_its_own_tier(make: ModuleType) -> None:
    rules = TierRules.model_validate(
        {"rules": [{"tier": "low", "when": {}}], "slo": {"high": {"prompt_tokens": 64, "decode_tps": 50.0}}}
    )
    assert [each.name for each in missed_of(make.record(tps=48), rules)] == ["decode_tps"]
    low = make.record(tps=48, phone=make.phone(tier="low"))
    assert missed_of(low, rules) == ()
