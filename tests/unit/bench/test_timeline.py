from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.bench import timeline as module
from harness.bench.sensed import State
from harness.bench.timeline import MOST_POINTS, Timeline, Token, curve_of, timeline_of, write_tokens
from harness.payload.probe_events import RunLog
from harness.runners.events import parse_runner_output

MS = 1_000_000
TOPS = {0: 2_000_000, 1: 2_400_000}


def told(make: ModuleType, *generations: dict[str, Any], **of_run: Any) -> tuple[RunLog, Any]:
    stdout = make.lines(list(generations))
    return make.run(stdout, **of_run), parse_runner_output(stdout).generations


def test_every_token_has_its_moment_by_the_runners_word(make: ModuleType) -> None:
    run, generations = told(make, make.generation(1, "timed", tokens=3, step_ms=20.0, begun_ns=100 * MS))
    found = timeline_of(run, generations, TOPS)
    assert found.begun_ns == 100 * MS
    assert [(t.position, t.at_ns // MS, t.took_ms) for t in found.tokens] == [
        (0, 142, 42.0),
        (1, 162, 20),
        (2, 182, 20),
    ]
    assert found.since_s(found.tokens[-1].at_ns) == pytest.approx(0.082)


@pytest.mark.parametrize("told_ns", [None, 0, 10**15], ids=["silent", "before the run", "after it"])
def test_where_it_tells_no_possible_moment_the_probes_stamp_of_the_line_is_the_end(
    make: ModuleType, told_ns: int | None
) -> None:
    run, generations = told(make, make.generation(1, "timed", tokens=3, step_ms=20.0, begun_ns=told_ns))
    assert timeline_of(run, generations, TOPS).tokens[-1].at_ns == pytest.approx(run.outputs[0].mono_ns, abs=MS)


@pytest.mark.parametrize("lie", [float("nan"), float("inf"), -1.0, 0.0, 1e300])
def test_a_generation_with_impossible_times_has_no_tokens(make: ModuleType, lie: float) -> None:
    good = make.generation(1, "timed", tokens=3, begun_ns=100 * MS)
    bad = make.generation(2, "timed", tokens=3, begun_ns=900 * MS, token_ms=[20.0, lie])
    run, generations = told(make, good, bad)
    assert {token.generation for token in timeline_of(run, generations, TOPS).tokens} == {1}


def test_a_token_is_joined_with_the_last_sample_before_it(make: ModuleType) -> None:
    samples = (
        make.sample(mono_ns=90 * MS, milli_c=(50_000, 31_000)),
        make.sample(mono_ns=150 * MS, milli_c=(None, None), cap_khz=(2_000_000, 1_200_000), cur_khz=(None, 600_000)),
    )
    said = make.generation(1, "timed", tokens=3, step_ms=20.0, begun_ns=100 * MS)
    run, generations = told(make, said, samples=samples)
    first, second, third = timeline_of(run, generations, TOPS).tokens
    assert first.state == State(90 * MS, {"cpu": 50.0, "skin": 31.0}, 31.0, 1.0, 1.0)
    assert second.state == State(150 * MS, {"cpu": 50.0, "skin": 31.0}, 31.0, 0.5, 0.25), "zones have their last value"
    assert third.state == second.state


def test_a_token_before_the_first_sample_has_no_state(make: ModuleType) -> None:
    said = make.generation(1, "timed", tokens=2, begun_ns=10 * MS)
    run, generations = told(make, said, samples=(make.sample(mono_ns=900 * MS),))
    assert [token.state for token in timeline_of(run, generations, TOPS).tokens] == [None, None]


def test_the_file_has_one_row_a_token_and_leaves_empty_what_is_unknown(make: ModuleType, tmp_path: Path) -> None:
    run, generations = told(
        make,
        make.generation(0, "warmup", tokens=2, begun_ns=20 * MS),
        make.generation(1, "timed", tokens=2, begun_ns=100 * MS),
        samples=(make.sample(mono_ns=90 * MS),),
    )
    write_tokens(tmp_path / "tokens.csv", timeline_of(run, generations, TOPS))
    with (tmp_path / "tokens.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["t_s"] for row in rows] == ["-0.038000", "-0.018000", "0.042000", "0.062000"]
    assert rows[0]["cap_ratio"] == rows[0]["skin_c"] == ""
    assert rows[3] == {
        "t_s": "0.062000", "generation": "1", "kind": "timed", "token": "1", "took_ms": "20.000", "skin_c": "29.00",
        "battery_c": "", "cpu_c": "31.00", "gpu_c": "", "cap_ratio": "1.0000", "clock_ratio": "1.0000",
    }  # fmt: skip


def test_a_long_run_is_thinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 100)
    tokens = tuple(Token(1, "timed", n, n * MS, 1.0, None) for n in range(250))
    write_tokens(tmp_path / "tokens.csv", Timeline(tokens, (), 0))
    assert len((tmp_path / "tokens.csv").read_text().splitlines()) == 1 + 84


def made(generations: int, tokens: int, step_ms: float = 10.0) -> Timeline:
    moments = []
    for number in range(generations):
        begun_ms = number * tokens * step_ms
        moments += [
            Token(number, "timed", n, int((begun_ms + (n + 1) * step_ms) * MS), step_ms, State(0, {}, 30.0 + number))
            for n in range(tokens)
        ]
    return Timeline(tuple(moments), (), 0)


def test_a_curve_of_many_generations_is_made_of_whole_ones() -> None:
    curve = curve_of(made(240, 8))
    assert len(curve) == MOST_POINTS
    assert [point.celsius for point in curve[:2]] == [30.5, 32.5]
    assert all(point.decode_tps == pytest.approx(100.0) for point in curve)


def test_a_curve_of_few_long_generations_is_cut_by_time() -> None:
    curve = curve_of(made(2, 500))
    assert 100 <= len(curve) <= MOST_POINTS
    assert [point.t_s for point in curve] == sorted(point.t_s for point in curve)


def test_without_timed_tokens_there_is_no_curve(make: ModuleType) -> None:
    run, generations = told(make, make.generation(0, "warmup", begun_ns=20 * MS))
    assert curve_of(timeline_of(run, generations, TOPS)) == ()
    assert curve_of(replace(made(1, 1))) == ()
