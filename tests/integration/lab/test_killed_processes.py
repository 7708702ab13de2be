"""A worker killed, pytest stopped or killed, in the middle of runs on phones: what the phones and the records say."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PHONES = ("high", "mid")


def test_a_killed_worker_costs_its_cell_and_its_run_is_ended_before_the_next(
    bench: Any, bench_module: Any, tmp_path: Path
) -> None:
    running = bench.start(tmp_path / "run", orders=bench_module.SLOW)
    with bench.never_two_runners():
        running.wait_until_measuring(2)
        struck = running.in_their_middle()[0]
        running.worker_of(struck).kill()
        done = running.ended()
    victim = next(phone for phone in bench.phones if any(record.reason for record in done.of(phone)))
    [other] = [phone for phone in bench.phones if phone is not victim]
    assert done.verdicts(victim) == ["harness_error", "ok"]
    assert done.verdicts(other) == ["ok"] * 2
    assert len(list(done.folder.records())) == 4
    killed = done.of(victim)[0]
    assert killed.detail == (
        "the worker process that measured this cell was killed by SIGKILL: "
        "see what ended it (the kernel's log tells of memory that ran out) and finish with --resume"
    )
    assert killed.raw is not None
    assert done.folder.path / killed.raw == struck.parent
    assert not killed.final
    assert done.status == 1, done.text
    assert killed.detail in done.text
    bench.assert_as_found()


@pytest.mark.parametrize(
    ("number", "send"), [(signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill)], ids=["Ctrl-C", "SIGTERM"]
)
def test_a_run_that_is_told_to_stop_leaves_its_phones_as_they_were(
    bench: Any, bench_module: Any, tmp_path: Path, number: signal.Signals, send: Callable[[int, int], None]
) -> None:
    running = bench.start(tmp_path / "run", orders=bench_module.LONG)
    running.wait_until_measuring(2)
    assert all(len(bench.runners_on(phone)) == 1 for phone in bench.phones)
    send(running.pid, number)
    done = running.ended()
    assert done.status == 2, done.text
    bench.assert_as_found()
    assert (done.folder.path / "report.html").exists()
    assert list(done.folder.records()) == []
    assert f"--run-dir {done.folder.path} --resume" in done.text


def test_after_kill_9_the_next_run_takes_the_phones_over_at_once(bench: Any, bench_module: Any, tmp_path: Path) -> None:
    running = bench.start(tmp_path / "killed", orders=bench_module.LONG)
    running.wait_until_measuring(2)
    running.kill()
    assert all(len(bench.runners_on(phone)) == 1 for phone in bench.phones), "nobody is left to end what runs there"
    assert all(bench.settings_of(phone) != before for phone, before in zip(bench.phones, bench.settings, strict=True))
    with bench.never_two_runners():
        done = bench.run(tmp_path / "next")
    assert done.status == 0, done.text
    for phone in bench.phones:
        assert done.verdicts(phone) == ["ok"] * 2
        told = [finding.title for finding in done.of(phone)[0].findings if finding.code == "lease"]
        assert f"pid {running.pid} since " in told[0]
        assert told[0].startswith("taken over from ")
        assert told[0].endswith(", a process of this computer that is dead")
        assert told[1].startswith("an earlier run had left these changed, they are as before again: ")
        assert [finding for finding in done.of(phone)[1].findings if finding.code == "lease"] == []
    bench.assert_as_found()
