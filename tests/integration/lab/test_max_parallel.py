"""More phones than ``--max-parallel``, and pushes that share a link: who did what when, told by what was recorded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from harness.payload.push_slots import PushSlots, link_of

PHONES = ("high", "mid", "low")
# What no worker needs, and what each of many would take memory for.
HEAVY = {"adbutils", "jinja2", "pandas", "plotly", "requests", "rich", "typer", "elftools", "huggingface_hub"}
# Each cell tells which process measured it, and what that had imported then.
MINE = """
import os
import sys
from harness.plugin import judge
def test_mine(cell, cell_record):
    with open({file!r}, "a") as told:
        print(cell.phone, os.getpid(), *{heavy!r} & sys.modules.keys(), file=told)
    judge(cell_record)
"""


def test_two_places_serve_three_phones_and_a_killed_worker_is_replaced_before_the_third_phone_is_begun(
    bench: Any, bench_module: Any, tmp_path: Path
) -> None:
    mine, told = tmp_path / "test_mine.py", tmp_path / "told"
    mine.write_text(MINE.format(file=str(told), heavy=HEAVY))
    running = bench.start(tmp_path / "run", "--max-parallel", "2", str(mine), orders=bench_module.SLOW)
    running.wait_until_measuring(2)
    struck = running.in_their_middle()[0]
    worker = running.worker_of(struck)
    worker.kill()
    done = running.ended()
    assert done.status == 0, done.text
    assert [done.verdicts(phone) for phone in bench.phones] == [["ok"] * bench_module.CELLS] * 3
    records = list(done.folder.records())
    [killed] = [record for record in records if record.reason is not None]
    assert (killed.reason, done.folder.path / str(killed.raw)) == ("harness_error", struck.parent)
    again = [(record.cell_id, record.attempt) for record in records if record.attempt > 1]
    assert (again, len(records)) == ([(killed.cell_id, 2)], 3 * bench_module.CELLS + 1)
    # Two processes, and the one that came for the dead one; each phone had one, but for the two of the struck phone.
    by_phone: dict[str, set[str]] = {}
    for line in told.read_text().splitlines():
        phone, pid, *heavy = line.split()
        assert not heavy, "a worker imports little"
        by_phone.setdefault(phone, set()).add(pid)
    assert len(by_phone) == 3
    assert all(len(pids) == 1 for pids in by_phone.values())
    assert len(set.union(*by_phone.values())) == 2, "the dead worker was in its first cell and told nothing"
    assert str(worker.pid) not in set.union(*by_phone.values())
    whole = {
        phone.transport_serial: (min(begin for begin, _ in spans), max(end for _, end in spans))
        for phone, spans in zip(bench.phones, map(done.spans, bench.phones), strict=True)
    }
    assert max(sum(begin <= moment < end for begin, end in whole.values()) for moment, _ in whole.values()) == 2
    assert max(whole, key=lambda phone: whole[phone][0]) != killed.phone.name, "its phone goes before one not begun"
    bench.assert_as_found()


def test_pushes_over_one_link_wait_for_each_other_and_for_those_of_other_runs(
    bench: Any, bench_module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNN_FARM_STATE", bench.env["MNN_FARM_STATE"])
    phones = bench.phones[:2]
    two = ",".join(phone.transport_serial for phone in phones)
    model, log = bench.unseen_model("unseen", 8_000_000), tmp_path / "run" / "log.txt"
    with PushSlots(link_of(bench.phones[0])).one("a phone of another run", "its model", print) as slot:
        assert slot.take_now()
        running = bench.start(tmp_path / "run", "--model", str(model), devices=two)
        waits = ": a phone of another run (its model) pushes over the same adb server "
        running.wait_for("all to wait", lambda: log.exists() and log.read_text().count(waits) == 2)
        assert "] pushing " not in log.read_text()
    done = running.ended()
    assert done.status == 0, done.text
    assert [done.verdicts(phone) for phone in phones] == [["ok"] * bench_module.CELLS] * 2
    events = re.findall(
        r"push_slots: \[(\S+)\] push slot 1 of adb server \S+ (taken|given back)$", log.read_text(), re.M
    )
    assert {who for who, _ in events} == {phone.transport_serial for phone in phones}
    for (who, what), (who_then, what_then) in zip(events[::2], events[1::2], strict=True):
        assert (what, what_then) == ("taken", "given back")
        assert who == who_then
    bench.assert_as_found()
