from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from harness.bench.bandwidth import Bandwidth
from harness.bench.evidence import Evidence
from harness.bench.limits import Limits
from harness.bench.roofline import decode_is_below_the_roof, roofline_of

GB = 10**9


def cell(make: ModuleType, gb_per_s: float = 25.0, backend: str = "cpu", **over: Any) -> Evidence:
    """The honest cell, 50 tok/s, with 1 GB of weights read per token: 50 GB a second. The caches hold nothing known."""
    limits = {"read_per_token_bytes": GB, "cache_bytes": 0, "bandwidth": Bandwidth({1: 1.0, 4: gb_per_s}), **over}
    return replace(make.evidence(backend=backend), limits=Limits(**limits))


def ratio(evidence: Evidence, tps: float | None = 50.0) -> tuple[Any, Any, dict[str, str]]:
    nulls = {"roofline_ratio": "not measured"}
    told = roofline_of(evidence, tps, nulls)
    return told["roofline_ratio"], told["bandwidth_gb_per_s"], nulls


def test_decoding_faster_than_memory_can_be_read_is_not_possible(make: ModuleType) -> None:
    [objection] = decode_is_below_the_roof(cell(make))
    assert objection.reason.code == "implausible_speed"
    # 25 GB/s with a slack of 15 %, for 830 MB less 34 MB that caches may hold
    assert objection.detail == (
        "decoding at 50.0 tok/s would read 50.0 GB of weights a second; the phone's memory gives 25.0 GB/s, which "
        "allows 36.1 tok/s, caches and slack included"
    )
    assert make.codes(cell(make)) == ["implausible_speed"]


def test_below_the_roof_the_share_that_was_reached_is_told(make: ModuleType) -> None:
    evidence = cell(make, gb_per_s=80.0)
    assert make.codes(evidence) == []
    assert ratio(evidence) == (0.625, 80.0, {})


def test_the_plans_slack_decides_what_is_too_much(make: ModuleType) -> None:
    wide = make.plan(roofline={"slack": 2.0})
    assert list(decode_is_below_the_roof(replace(cell(make), plan=wide))) == []


def test_a_gpu_may_reach_more_of_the_memory_than_cores_do(make: ModuleType) -> None:
    assert list(decode_is_below_the_roof(cell(make, backend="opencl"))) == []
    assert len(list(decode_is_below_the_roof(cell(make, gb_per_s=12.0, backend="opencl")))) == 1


@pytest.mark.parametrize(
    ("over", "why"),
    [
        ({"read_per_token_bytes": None, "read_why": "it is a mixture of experts"}, "it is a mixture of experts"),
        ({"speculative": "lookahead"}, "the model decodes speculatively (lookahead)"),
        ({"bandwidth": Bandwidth(why="no memory to read")}, "no memory to read"),
        ({"read_per_token_bytes": 40 << 20, "cache_bytes": 8 << 20}, "may fit in the caches (40.0 MiB are granted)"),
        (
            {"read_per_token_bytes": 60 << 20, "cache_bytes": None},
            "may fit in the caches (64.0 MiB are granted; the phone does not tell its caches)",
        ),
    ],
)
def test_what_cannot_be_judged_is_not_and_says_why(make: ModuleType, over: dict[str, Any], why: str) -> None:
    evidence = cell(make, **{"gb_per_s": 0.1, **over})
    assert list(decode_is_below_the_roof(evidence)) == []
    told, _, nulls = ratio(evidence)
    assert told is None
    assert why in nulls["roofline_ratio"]


def test_a_plan_that_does_not_measure_says_so(make: ModuleType) -> None:
    evidence = replace(cell(make, bandwidth=Bandwidth()), plan=make.plan(roofline={"measure": False}))
    assert ratio(evidence)[2] == dict.fromkeys(
        ("roofline_ratio", "bandwidth_gb_per_s"), "the plan does not measure the phone's memory bandwidth"
    )


def test_the_bandwidth_is_told_also_where_nothing_is_judged_by_it(make: ModuleType) -> None:
    assert ratio(cell(make, read_per_token_bytes=1000))[1] == 25.0
    assert ratio(cell(make), tps=None)[2] == {"roofline_ratio": "no generation was long enough"}
