"""Known truth over time: a runner that becomes slower at a moment that was ordered, as a phone that throttles does.

Speed alone is judged here, since the phone's clocks have no part in it: this measures how exactly an onset is dated on
this phone, and how far the 99th percentile between tokens is off.
"""

from __future__ import annotations

from dataclasses import replace

from harness.bench.metrics import token_times
from harness.bench.throttle import throttling_of
from harness.bench.timeline import timeline_of
from harness.payload.probe_events import RunLog
from harness.runners.events import RunnerLog
from harness.selfcheck.result import Check, Finding
from harness.selfcheck.subject import Subject
from harness.selfcheck.truth import Figure, as_ordered

_TOKEN_MS, _FACTOR, _TOKENS = 5.0, 2.0, 20
_AFTER_S, _DURATION_S = 2.0, 4.0
_ONSET_S = 0.5
_RATIO = 0.1


def figures(run: RunLog, told: RunnerLog) -> list[Figure]:
    """Compare the ordered moment, ratio and percentile with what the harness makes of the run."""
    timeline = replace(timeline_of(run, told.generations, {}), states=())
    seen, tokens = throttling_of(timeline), token_times(told.of_kind("timed"))
    hello_ns = run.outputs[0].mono_ns if run.outputs else 0
    onset_s = _AFTER_S + timeline.since_s(hello_ns)
    slow_ms, ratio = _TOKEN_MS * _FACTOR, 1 / _FACTOR
    return [
        Figure("onset", "s", onset_s, seen.onset_s, onset_s - _ONSET_S, onset_s + _ONSET_S, digits=2),
        Figure("sustained ratio", "", ratio, seen.sustained_ratio, ratio - _RATIO, ratio + _RATIO, digits=2),
        # One token in a hundred may wake late, on a phone that sleeps deeply even by as much again.
        Figure(
            "inter-token p99", "ms", slow_ms, tokens.p99 if tokens is not None else None, 0.98 * slow_ms, 2 * slow_ms
        ),
    ]


def _slowdown(subject: Subject) -> Finding:
    orders = {"token_ms": _TOKEN_MS, "load_ms": 0, "slow_after_s": _AFTER_S, "slow_factor": _FACTOR}
    argv = [subject.runner, "--model", "none", "--threads", "1", "--warmups", "0", "--duration-s", f"{_DURATION_S:g}"]
    argv += ["--generate-tokens", str(_TOKENS)]
    argv += [word for key, value in orders.items() for word in ("--synthetic", f"{key}={value:g}")]
    return as_ordered(subject, "slowdown", argv, figures)


CHECKS = (
    Check(
        "known-slowdown",
        "a runner that becomes slower at a moment that was ordered is dated there",
        "the onset of throttling and the sustained speed are found in the same way",
        "let the phone rest and try --only known-slowdown again; if it stays, send us the parcel",
        _slowdown,
    ),
)
