from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any, cast

import pytest

from harness.bench.cold import cache_grew, cold_order, cold_spec, loads_of, start_cold, wants_cold_start
from harness.bench.evidence import ColdStart
from harness.core.errors import PhoneLostError, ProbeError
from harness.core.reasons import Reason
from harness.payload.probe import RunSpec
from harness.payload.probe_files import Residency
from harness.plan.matrix import cells_of
from harness.runners.events import Generation, Load

SPEC = RunSpec(argv=("run",), work_dir="/base/7", deadline_s=60)
LOAD = Load(load_ms=900.0, backend_requested="cpu", tuning_ms=40.0)
FIRST = Generation(
    index=0, kind="warmup", prompt_tokens=8, generated_tokens=2, prefill_ms=80.0, ttft_ms=90.0, finish="length"
)
COLD = Residency(1000, 0)


class FakeProbe:
    """Drops the model from the cache as ``residency`` says, and runs what prints ``told``."""

    def __init__(self, residency: Any, log: Any = None) -> None:
        self.residency = residency
        self.log = log
        self.asked: list[str] = []

    def evict(self, folder: str, seconds: float) -> Residency:
        self.asked.append(folder)
        if isinstance(self.residency, Exception):
            raise self.residency
        return cast("Residency", self.residency)

    def run(self, spec: RunSpec) -> Any:
        self.asked.append(spec.work_dir)
        return self.log


def started(make: ModuleType, residency: Any, told: list[dict[str, Any]] | None = None) -> ColdStart:
    log = make.run(make.lines(make.events() if told is None else told))
    probe = FakeProbe(residency, log)
    order = make.order(model_dir="/models/toy")
    result = start_cold(cast("Any", probe), SPEC, order, "toy-1")
    assert probe.asked[0] == "/models/toy"
    return result


def figures(make: ModuleType, cold: ColdStart | None, **over: Any) -> tuple[Mapping[str, Any], dict[str, str]]:
    nulls: dict[str, str] = {}
    return loads_of(replace(make.evidence(**over), cold=cold), nulls), nulls


def test_the_first_cell_of_a_configuration_starts_cold_and_on_a_gpu_every_cell(make: ModuleType) -> None:
    plan = make.plan(cold_start=True, backends=["cpu", "opencl"], threads=[1, 2], prompt_tokens=[8, 16])
    starts = {cell.label for cell in cells_of(plan) if wants_cold_start(cell, plan)}
    assert starts == {"cpu-t1-low-p8-g32", "opencl-low-p8-g32", "opencl-low-p16-g32"}
    assert not any(wants_cold_start(cell, make.plan()) for cell in cells_of(plan))


def test_a_cold_start_shares_the_caches_of_its_cell_and_not_the_events() -> None:
    cold = cold_spec(SPEC, ("run", "--short"))
    assert (cold.argv, cold.work_dir, cold.cwd) == (("run", "--short"), "/base/7/cold-start", "/base/7")
    assert cold.deadline_s == 60


def test_a_cold_start_asks_nothing_and_makes_two_tokens_once(make: ModuleType) -> None:
    asked = make.plan(load_rounds=3, golden={"set": "mine", "ask": [{"question": "?", "expect": "."}]})
    once = cold_order(make.order(plan=asked))
    assert (once.cell.generate_tokens, once.plan.warmups, once.plan.repeats, once.plan.load_rounds) == (2, 1, 0, 1)
    assert (once.plan.ask, once.plan.golden.ask) == ([], [])


def test_a_model_that_comes_from_storage_gives_the_times_of_its_first_use(make: ModuleType) -> None:
    cold = started(make, COLD)
    assert cold.why_not == ""
    assert cold.figures == {"load_cold_ms": 300.0, "first_use_ms": 342.0, "tuning_ms": None}


@pytest.mark.parametrize(
    ("residency", "why"),
    [
        (Residency(1000, 64), "64 bytes of the model stayed in the phone's file cache"),
        (Residency(1000, None), "the phone does not tell what is in its file cache"),
        (
            Residency(1000, 0, {"/models/toy/a": "EACCES"}),
            "not all of the model's files could be dropped from the phone's file cache",
        ),
        (ProbeError("toy-1", "no such folder"), "the cold start failed: toy-1: no such folder"),
    ],
)
def test_a_start_that_is_not_proven_cold_is_no_figure(make: ModuleType, residency: Any, why: str) -> None:
    cold = started(make, residency)
    assert cold.why_not == why
    assert cold.figures == {}


def test_a_cold_start_that_breaks_leaves_the_verdict_to_the_run_itself(make: ModuleType) -> None:
    assert started(make, COLD, make.events()[:2]).why_not == "the cold start did not end well"
    failed = [
        *make.events()[:1],
        {"event": "error", "stage": "load", "message": "x"},
        {"event": "end", "status": "error"},
    ]
    assert started(make, COLD, failed).why_not == "the cold start did not end well"


def test_a_phone_that_is_lost_is_not_taken_for_a_start_that_failed(make: ModuleType) -> None:
    with pytest.raises(PhoneLostError):
        started(make, PhoneLostError("toy-1", "it went"))


def test_cold_and_warm_loads_stand_beside_each_other(make: ModuleType) -> None:
    found, nulls = figures(make, ColdStart(LOAD, FIRST), backend="opencl")
    assert found == {"load_cold_ms": 900.0, "first_use_ms": 990.0, "tuning_ms": 40.0, "load_ms": 300.0}
    assert nulls == {}


def test_what_was_not_measured_says_why(make: ModuleType) -> None:
    found, nulls = figures(make, None, the_plan=make.plan(cold_start=True))
    assert found == {"load_cold_ms": None, "first_use_ms": None, "tuning_ms": None, "load_ms": 300.0}
    assert nulls == {
        "load_cold_ms": "the first cell of this configuration has it",
        "first_use_ms": "the first cell of this configuration has it",
        "tuning_ms": "the CPU backend has no tuning step",
    }
    _, nulls = figures(make, None, the_plan=make.plan())
    assert nulls["load_cold_ms"] == "the plan asks for no cold start"
    _, nulls = figures(make, ColdStart(LOAD, FIRST, "the phone does not tell"))
    assert nulls["first_use_ms"] == "the phone does not tell"


def cached(before: int | None, after: int | None) -> Any:
    def bend(told: list[dict[str, Any]]) -> None:
        told[1]["cache_before_bytes"] = before
        told[-1]["cache_after_bytes"] = after

    return bend


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (
            5_000_000,
            9_000_000,
            "the engine's cache grew from 5000000 to 9000000 bytes in a warm run: it tunes itself again",
        ),
        (5_000_000, 5_000_100, ""),
        (0, 9_000_000, ""),  # that run made it
        (None, None, ""),
    ],
)
def test_a_cache_that_grows_in_a_warm_run_is_no_use(
    make: ModuleType, before: int | None, after: int | None, says: str
) -> None:
    assert cache_grew(make.evidence(bend=cached(before, after))).startswith(says)
    assert bool(cache_grew(make.evidence(bend=cached(before, after)))) is bool(says)


def test_a_cache_in_a_fresh_work_folder_is_of_another_model(make: ModuleType) -> None:
    evidence = make.evidence(bend=cached(4096, 4096))
    assert make.codes(evidence) == [Reason.STALE_CACHE.code]
    assert make.codes(replace(evidence, cold=ColdStart(LOAD, FIRST))) == []
