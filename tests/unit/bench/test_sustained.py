from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from harness.bench.heat import counted, thermal_of
from harness.bench.record import metrics_of
from harness.bench.sustained import SustainedProgress, interval_ms
from harness.payload.probe_events import Output, Sample
from harness.phone.thermalservice import Status

MS = 1_000_000
SUSTAINED: dict[str, Any] = {"kind": "sustained", "duration_s": 20.0, "ask": [], "warmups": 1}


def soak(make: ModuleType, *, slow_from: int = 15, **over: Any) -> Any:
    """Twenty generations of a second each, of which those from ``slow_from`` on take twice as long."""
    told, at_ms = [*make.events()[:2], make.generation(0, "warmup", begun_ns=20 * MS)], 1000.0
    for index in range(1, 21):
        step_ms = 31.25 * (2 if index >= slow_from else 1)
        told.append(make.generation(index, "timed", step_ms=step_ms, begun_ns=int(at_ms * MS)))
        at_ms += 42.0 + 31 * step_ms
    told.append(make.events()[-1])
    samples = tuple(make.sample(mono_ns=n * 100 * MS, cap_khz=(None, None)) for n in range(int(at_ms / 100)))
    found = make.evidence(told, the_plan=make.plan(**SUSTAINED), samples=samples, wall_ms=at_ms + 500, told_ms=at_ms)
    return replace(found, **over)


def test_the_figures_of_a_sustained_cell_are_those_of_its_last_quarter(make: ModuleType) -> None:
    evidence = soak(make)
    assert [generation.index for generation in counted(evidence)] == [18, 19, 20]
    metrics = metrics_of(evidence, {})
    assert metrics is not None
    assert metrics.decode_tps is not None
    assert (metrics.decode_tps.median, metrics.decode_tps.n) == (pytest.approx(16.0), 3)


def test_of_a_burst_cell_every_timed_generation_counts(make: ModuleType) -> None:
    assert [generation.index for generation in counted(make.evidence())] == [1, 2]


def test_a_cell_that_was_cut_short_counts_its_last_generation(make: ModuleType) -> None:
    evidence = make.evidence(the_plan=make.plan(**SUSTAINED))
    assert len(counted(evidence)) >= 1
    assert counted(evidence)[-1].index == 2


def test_its_record_tells_burst_onset_sustained_speed_and_a_curve(make: ModuleType) -> None:
    nulls: dict[str, str] = {}
    evidence = soak(make, status_before=Status(0), status_after=Status(2))
    thermal = thermal_of(evidence, make.facts(core_max_khz={}), nulls)
    assert thermal is not None
    assert (thermal.throttled, thermal.status_max) == (True, 2)
    assert thermal.judged_by == "speed, heat, status"
    assert thermal.onset_s == pytest.approx(14 * 1.011, abs=0.3)
    assert thermal.sustained_ratio == pytest.approx(0.5, rel=0.02)
    assert 10 < len(thermal.curve) <= 120
    assert not {"onset_s", "burst_tps", "sustained_tps", "sustained_ratio", "status_max"} & set(nulls)


def test_throttling_is_the_result_of_a_sustained_cell_and_no_objection(make: ModuleType) -> None:
    assert make.codes(soak(make)) == []


def test_a_hot_start_is_one_all_the_same(make: ModuleType) -> None:
    assert make.codes(soak(make, started_hot="skin was at 44 °C")) == ["hot_start"]


def test_one_that_did_not_throttle_says_so_instead_of_an_onset(make: ModuleType) -> None:
    nulls: dict[str, str] = {}
    thermal = thermal_of(soak(make, slow_from=99), make.facts(), nulls)
    assert thermal is not None
    assert (thermal.throttled, thermal.onset_s, nulls["onset_s"]) == (False, None, "it did not throttle")
    assert thermal.sustained_ratio == pytest.approx(1.0, abs=0.01)


def test_a_status_that_nobody_could_tell_is_unknown_with_its_reason(make: ModuleType) -> None:
    nulls: dict[str, str] = {}
    silent = Status(None, "this Android has no such service")
    thermal = thermal_of(soak(make, status_before=silent, status_after=silent), make.facts(), nulls)
    assert thermal is not None
    assert (thermal.status_max, nulls["status_max"]) == (None, "this Android has no such service")


@pytest.mark.parametrize(("duration_s", "ms"), [(None, 100), (60.0, 100), (600.0, 100), (1800.0, 300), (86400.0, 500)])
def test_a_long_run_is_sampled_less_often(duration_s: float | None, ms: int) -> None:
    assert interval_ms(duration_s) == ms


def test_progress_is_told_by_time_once_the_warm_ups_are_over(make: ModuleType) -> None:
    said: list[str] = []
    chosen = make.plan(**SUSTAINED)
    progress = SustainedProgress(said.append, make.evidence(the_plan=chosen).cell, chosen)

    def at(second: float, data: bytes = b"") -> None:
        stamp = int(second * 1e9)
        tick: Sample = make.sample(mono_ns=stamp)
        progress(Output(0, stamp, stamp, 1, data) if data else tick)

    at(1, b'{"event": "load"}\n')
    at(30, b'{"event": "generation", "kind": "warmup"}\n')
    at(32)
    at(36, b'{"event": "generation"}\n{"event": "generation"}\n')
    at(37)
    at(99)
    label = "running toy cpu-t4-low-p8-g32"
    assert said == [f"{label}: 6 s of 20 s, 2 generations", f"{label}: 20 s of 20 s, 2 generations"]
