"""A worker killed, pytest stopped or killed, in the middle of runs on phones: what the phones and the records say."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

PHONES = ("high", "mid")


def test_a_killed_worker_is_replaced_its_run_is_ended_and_its_cell_is_a_new_attempt(
    bench: Any, bench_module: Any, tmp_path: Path
) -> None:
    running = bench.start(tmp_path / "run", orders=bench_module.SLOW)
    with bench.never_two_runners():
        running.wait_until_measuring(2)
        struck = running.in_their_middle()[0]
        running.worker_of(struck).kill()
        done = running.ended()
    for phone in bench.phones:
        assert done.verdicts(phone) == ["ok"] * bench_module.CELLS
    records = list(done.folder.records())
    [killed] = [record for record in records if record.reason is not None]
    attempts = sorted(record.attempt for record in records if record.cell_id == killed.cell_id)
    assert (attempts, len(records)) == ([1, 2], 2 * bench_module.CELLS + 1)
    assert killed.detail == (
        "the worker process that measured this cell was killed by SIGKILL: "
        "see what ended it (the kernel's log tells of memory that ran out) and finish with --resume"
    )
    assert killed.raw is not None
    assert done.folder.path / killed.raw == struck.parent
    assert not killed.final
    assert done.status == 0, done.text
    name = killed.phone.name
    assert f"{name}: a worker was killed by SIGKILL; the cell that it was in was run again by another" in done.text
    bench.assert_as_found()


def test_runs_that_are_told_to_stop_leave_their_phones_as_they_were(
    bench: Any, bench_module: Any, tmp_path: Path
) -> None:
    runs = [
        bench.start(tmp_path / str(number), devices=phone.transport_serial, orders=bench_module.LONG)
        for number, phone in enumerate(bench.phones)
    ]
    for running, phone in zip(runs, bench.phones, strict=True):
        running.wait_until_measuring()
        assert len(bench.runners_on(phone)) == 1
    interrupted, terminated = runs
    os.killpg(interrupted.pid, signal.SIGINT)  # Ctrl-C in a terminal
    os.kill(terminated.pid, signal.SIGTERM)
    for running in runs:
        done = running.ended()
        assert done.status == 2, done.text
        assert (done.folder.path / "report.html").exists()
        assert list(done.folder.records()) == []
        assert f"--run-dir {done.folder.path} --resume" in done.text
    bench.assert_as_found()


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
        assert done.verdicts(phone) == ["ok"] * bench_module.CELLS
        told = [finding.title for finding in done.of(phone)[0].findings if finding.code == "lease"]
        assert f"pid {running.pid} since " in told[0]
        assert told[0].startswith("taken over from ")
        assert told[0].endswith(", a process of this computer that is dead")
        assert told[1].startswith("an earlier run had left these changed, they are as before again: ")
        assert [finding for finding in done.of(phone)[1].findings if finding.code == "lease"] == []
    bench.assert_as_found()
