"""Runs that the probe ended: whose fault that is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.bench.validity import Evidence, ended_by_itself
from harness.core.reasons import Reason
from harness.payload.probe_events import End, RunLog, Trip
from harness.plan.matrix import cells_of
from harness.plan.model import Plan
from harness.runners.events import RunnerLog

END = End(
    seq=9,
    mono_ns=1,
    boot_ns=1,
    exit_code=None,
    signal=15,
    why="exit",
    errno=None,
    maxrss_bytes=1,
    utime_ms=0,
    stime_ms=0,
    minflt=0,
    majflt=0,
    survivors=0,
    probe_cpu_ms=1,
    samples=1,
    file_error=None,
)


def evidence(end: End) -> Evidence:
    plan = Plan(models=["m"], backends=["cpu"], threads=[1])
    log = RunLog()
    log.add(end)
    return Evidence(cells_of(plan)[0], plan, log, RunnerLog(), weight_bytes=1, ram_bytes=None)


@pytest.mark.parametrize(
    ("end", "reason", "said"),
    [
        (replace(END, why="silence"), Reason.HANG, "no output for 300 s"),
        (replace(END, why="trip", trip=Trip(3, "skin", 47_000)), Reason.THERMAL_TRIP, "zone skin read 47000"),
        (replace(END, why="lease_lost"), Reason.LEASE_LOST, "the lease on the phone was lost"),
        (replace(END, why="hangup"), Reason.ADB_ERROR, "ended from outside (hangup)"),
    ],
    ids=lambda value: value.why if isinstance(value, End) else "",
)
def test_why_the_probe_ended_a_run_decides_the_reason(end: End, reason: Reason, said: str) -> None:
    [objection] = ended_by_itself(evidence(end))
    assert objection.reason is reason
    assert said in objection.detail
