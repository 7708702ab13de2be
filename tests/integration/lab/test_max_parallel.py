"""More phones than ``--max-parallel``, and pushes that share a link: who did what when, told by what was recorded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from harness.payload.push_slots import PushSlots, link_of

PHONES = ("high", "mid", "low")
# Each cell tells which process measured it.
MINE = """
import os
from harness.plugin import judge
def test_mine(cell, cell_record):
    with open({file!r}, "a") as told:
        told.write(f"{{cell.phone}} {{os.getpid()}}\\n")
    judge(cell_record)
"""


def test_two_places_serve_three_phones_with_two_processes_and_never_more_at_once(
    bench: Any, bench_module: Any, tmp_path: Path
) -> None:
    mine, told = tmp_path / "test_mine.py", tmp_path / "told"
    mine.write_text(MINE.format(file=str(told)))
    done = bench.run(tmp_path / "run", "--max-parallel", "2", str(mine))
    assert done.status == 0, done.text
    assert [done.verdicts(phone) for phone in bench.phones] == [["ok"] * bench_module.CELLS] * 3
    by_phone: dict[str, set[str]] = {}
    for line in told.read_text().splitlines():
        phone, pid = line.split()
        by_phone.setdefault(phone, set()).add(pid)
    assert len(by_phone) == 3
    assert all(len(pids) == 1 for pids in by_phone.values())
    assert len(set.union(*by_phone.values())) == 2
    whole = [
        (min(begin for begin, _ in spans), max(end for _, end in spans)) for spans in map(done.spans, bench.phones)
    ]
    at_once = [sum(begin <= moment < end for begin, end in whole) for moment, _ in whole]
    assert max(at_once) <= 2
    bench.assert_as_found()


def test_with_one_place_a_killed_worker_is_replaced_before_the_next_phone_is_begun(
    bench: Any, bench_module: Any, tmp_path: Path
) -> None:
    first, second, _ = bench.phones
    devices = f"{first.transport_serial},{second.transport_serial}"
    orders = bench_module.SLOW
    running = bench.start(tmp_path / "run", "--max-parallel", "1", devices=devices, orders=orders)
    running.wait_until_measuring(1)
    running.worker_of(running.in_their_middle()[0]).kill()
    done = running.ended()
    assert done.status == 0, done.text
    told = [(record.phone.name, record.attempt, record.reason) for record in done.folder.records()]
    struck, other = told[0][0], told[-1][0]
    assert {struck, other} == {first.transport_serial, second.transport_serial}
    assert told == [
        (struck, 1, "harness_error"),
        (struck, 2, None),
        (struck, 1, None),
        (other, 1, None),
        (other, 1, None),
    ]
    bench.assert_as_found()


def test_pushes_over_one_link_wait_for_each_other_and_for_those_of_other_runs(
    bench: Any, bench_module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNN_FARM_STATE", bench.env["MNN_FARM_STATE"])
    model, log = bench.unseen_model("unseen", 8_000_000), tmp_path / "run" / "log.txt"
    with PushSlots(link_of(bench.phones[0])).one("a phone of another run", "its model", print) as slot:
        assert slot.take_now()
        running = bench.start(tmp_path / "run", "--model", str(model))
        waits = ": a phone of another run (its model) pushes over the same adb server "
        running.wait_for("all to wait", lambda: log.exists() and log.read_text().count(waits) == len(PHONES))
        assert "] pushing " not in log.read_text()
    done = running.ended()
    assert done.status == 0, done.text
    assert [done.verdicts(phone) for phone in bench.phones] == [["ok"] * bench_module.CELLS] * 3
    events = re.findall(
        r"push_slots: \[(\S+)\] push slot 1 of adb server \S+ (taken|given back)$", log.read_text(), re.M
    )
    assert len(events) >= 2 * len(PHONES)
    for (who, what), (who_then, what_then) in zip(events[::2], events[1::2], strict=True):
        assert (what, what_then) == ("taken", "given back")
        assert who == who_then
    bench.assert_as_found()
