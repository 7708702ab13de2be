from __future__ import annotations

import json

from harness.payload.probe_events import Output, RunLog
from harness.runners.events import parse_runner_output
from harness.selfcheck.slowdown import figures

_MS = 1_000_000


def slowed(after_ms: int, factor: float) -> RunLog:
    """A run of generations of twenty tokens, 5 ms each until ``after_ms``, as the synthetic runner tells it."""
    log, at_ms = RunLog(), 10.0
    log.add(Output(0, 5 * _MS, 5 * _MS, 1, b'{"event": "hello", "runner": "synthetic", "engine": "synthetic"}\n'))
    for index in range(30):
        begun_ms, times = at_ms, []
        for _ in range(20):
            times.append(5.0 * (factor if at_ms >= after_ms else 1.0))
            at_ms += times[-1]
        told = {
            "event": "generation", "index": index, "kind": "timed", "prompt_tokens": 8, "generated_tokens": 20,
            "begun_ns": int(begun_ms * _MS), "prefill_ms": 1.0, "ttft_ms": times[0], "token_ms": times[1:],
            "finish": "length",
        }  # fmt: skip
        log.add(Output(index, int(at_ms * _MS), 0, 1, json.dumps(told).encode() + b"\n"))
    return log


def test_an_ordered_slowdown_comes_back() -> None:
    log = slowed(2005, 2.0)
    seen = figures(log, parse_runner_output(log.stdout))
    assert [figure.agrees for figure in seen] == [True, True, True], [str(figure) for figure in seen]
    assert [figure.name for figure in seen] == ["onset", "sustained ratio", "inter-token p99"]


def test_one_that_came_at_another_time_or_not_at_all_does_not_agree() -> None:
    late, never = slowed(3500, 2.0), slowed(2005, 1.0)
    assert not figures(late, parse_runner_output(late.stdout))[0].agrees
    assert [figure.agrees for figure in figures(never, parse_runner_output(never.stdout))] == [False, False, False]


def test_a_run_that_told_nothing_agrees_with_nothing() -> None:
    assert not any(figure.agrees for figure in figures(RunLog(), parse_runner_output(b"")))
