"""Runs that the probe ended: whose fault that is."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from harness.bench.endings import account_is_complete, ended_by_itself
from harness.bench.evidence import Evidence
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


KILL_LINE = (
    b"06-01 10:00:00.1 411 411 I lowmemorykiller: Kill 'farm_runner' (7), uid 2000, oom_score_adj 0 to free 9kB rss"
)


def test_a_kill_that_the_phones_log_tells_of_is_for_want_of_memory(make: ModuleType) -> None:
    killed = make.evidence(b"", exit_code=None, signal=9)
    told = replace(killed, phone_log=b"noise\n" + KILL_LINE + b"\n")
    [objection] = ended_by_itself(told)
    assert (objection.reason, objection.evidence) == (Reason.OUT_OF_MEMORY, KILL_LINE.decode())
    other = replace(killed, phone_log=KILL_LINE.replace(b"(7)", b"(8)"))
    assert [one.reason for one in ended_by_itself(other)] == [Reason.CRASH]
    crashed = replace(make.evidence(b"", exit_code=None, signal=11), phone_log=KILL_LINE)
    assert [one.reason for one in ended_by_itself(crashed)] == [Reason.CRASH]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("ENOSPC", Reason.NO_SPACE),
        ("EROFS", Reason.READ_ONLY),
        ("EIO", Reason.HARNESS_ERROR),
        (None, Reason.HARNESS_ERROR),
    ],
)
def test_events_that_the_phone_could_not_keep_are_its_storages_fault(
    make: ModuleType, error: str | None, reason: Reason
) -> None:
    [objection] = account_is_complete(make.evidence(lost=3, file_error=error))
    assert objection.reason is reason
    assert "events arrived" in objection.detail


def test_a_phone_that_stood_still_is_suspended_whatever_the_runner_told(make: ModuleType) -> None:
    def at(*times_s: float) -> tuple[Any, ...]:
        return tuple(make.sample(mono_ns=int(time * 1e9), boot_ns=int(time * 1e9)) for time in times_s)

    steady, stood = make.evidence(samples=at(0.1, 0.2, 1.5)), make.evidence(samples=at(0.1, 0.2, 2.5))
    assert make.codes(steady) == []
    assert make.codes(stood) == ["suspended"]
    assert make.codes(replace(steady, stood_still=True)) == ["suspended"]
