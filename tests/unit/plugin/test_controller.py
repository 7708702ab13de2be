from __future__ import annotations

import subprocess
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.core.errors import FarmError
from harness.core.reasons import Reason
from harness.plugin import controller as module
from harness.plugin.controller import Controller
from harness.store.schema import CellRecord


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The cells for which the controller writes a record in a worker's place, with what it says."""
    told: list[tuple[str, str]] = []

    def record_failure(cell: str, error: FarmError, *, begun: bool) -> CellRecord:
        assert begun
        told.append((cell, str(error)))
        return record_of(cell, error.reason)

    def session(*_: object) -> Any:
        return SimpleNamespace(record_failure=record_failure)

    monkeypatch.setattr(module, "PhoneSession", session)
    return told


def record_of(cell: str, reason: Reason | None) -> CellRecord:
    """The record of a cell, as far as it is looked at here."""
    phone = SimpleNamespace(name=cell[0], model=None, serial="S")
    fault = reason.fault if reason is not None else None
    made = SimpleNamespace(
        cell_id=cell,
        turn=(cell, 0),
        why=reason,
        reason=reason and reason.code,
        fault=fault,
        phone=phone,
        detail="",
        findings=(),
        raw=None,
    )
    return cast("CellRecord", made)


def report(worker: Any = None) -> Any:
    """What xdist reports of a test whose worker died."""
    return SimpleNamespace(node=worker or Worker(status=-9), outcome="failed", when="???", longrepr="crashed")


class Scheduler:
    """What is told of tests that are to be run again."""

    def __init__(self) -> None:
        self.again: list[str] = []

    def mark_test_pending(self, item: str) -> None:
        self.again.append(item)


def controller(*cells: str, records: list[CellRecord] | None = None, pair: str | None = None) -> Controller:
    """The controller of a run on phones a and b; cells are named ``a-1``. ``records`` is what its folder holds."""
    bound = [
        SimpleNamespace(phone=name[0], cell=name, cell_id=name, test_id=name, turn=(name, 0), pair=pair)
        for name in cells
    ]
    run = SimpleNamespace(
        cells=bound,
        request=SimpleNamespace(plan=SimpleNamespace(slo=SimpleNamespace(judge=False))),
        fleet=SimpleNamespace(phones=[SimpleNamespace(name="a"), SimpleNamespace(name="b")]),
        busy_phones=[name for name in ("a", "b") if any(cell.phone == name for cell in bound)],
        context=None,
        notes=("found this",),
        before=Counter(record.turn for record in records or []),
        folder=SimpleNamespace(
            path=None, records_of=lambda cell: [record for record in records or [] if record.cell_id == cell]
        ),
    )
    return Controller(cast("Any", run))


class Worker:
    """A worker of xdist whose process only remembers that it was told to end."""

    def __init__(self, *, with_process: bool = True, status: int | None = None) -> None:
        self.told: list[str] = []

        def wait(seconds: float) -> int:
            if status is None:
                raise subprocess.TimeoutExpired("worker", seconds)
            return status

        process = SimpleNamespace(terminate=lambda: self.told.append("end"), wait=wait) if with_process else None
        self.gateway = SimpleNamespace(_io=SimpleNamespace(popen=process))


def test_a_worker_that_dies_leaves_its_cell_to_the_controller(recorded: list[tuple[str, str]]) -> None:
    here, scheduler = controller("a-1", "b-1"), Scheduler()
    seen = report()
    here.pytest_handlecrashitem("t.py::test[b-1]", seen, scheduler)
    here.pytest_handlecrashitem("t.py::test[c-1]", report(), scheduler)
    assert [cell for cell, _ in recorded] == ["b-1"]
    assert scheduler.again == ["t.py::test[b-1]"]
    assert here.pytest_report_teststatus(seen) == ("rerun", "", "RERUN")
    assert seen.longrepr.startswith("harness_error (harness) on b")


def test_a_cell_in_which_workers_die_is_run_again_once(recorded: list[tuple[str, str]]) -> None:
    records: list[CellRecord] = []
    here, scheduler = controller("a-1", records=records), Scheduler()
    here.pytest_handlecrashitem("t.py::test[a-1]", report(), scheduler)
    records.append(record_of("a-1", Reason.HARNESS_ERROR))  # what was written in the dead worker's place
    seen = report()
    here.pytest_handlecrashitem("t.py::test[a-1]", seen, scheduler)
    assert [cell for cell, _ in recorded] == ["a-1", "a-1"]
    assert scheduler.again == ["t.py::test[a-1]"]
    assert (seen.outcome, seen.when) == ("failed", "setup")


def test_a_turn_of_two_builds_is_not_run_again_out_of_its_row(recorded: list[tuple[str, str]]) -> None:
    scheduler, seen = Scheduler(), report()
    controller("a-1", pair="p").pytest_handlecrashitem("t.py::test[a-1]", seen, scheduler)
    assert (scheduler.again, seen.outcome) == ([], "failed")


@pytest.mark.parametrize(
    ("worker", "said"),
    [
        (Worker(status=-9), "was killed by SIGKILL"),
        (Worker(status=3), "ended with exit status 3"),
        (Worker(), "broke off"),
        (Worker(with_process=False), "broke off"),
    ],
    ids=["signal", "status", "lives on", "no process of ours"],
)
def test_its_record_says_how_the_worker_ended(recorded: list[tuple[str, str]], worker: Any, said: str) -> None:
    controller("a-1").pytest_handlecrashitem("t.py::test[a-1]", report(worker), Scheduler())
    [(_, text)] = recorded
    assert text.startswith(f"the worker process that measured this cell {said}: see what ended it")


@pytest.mark.parametrize(("reason", "outcome"), [(None, ("passed", "call")), (Reason.CRASH, ("failed", "setup"))])
def test_a_worker_that_dies_after_it_wrote_its_record_gets_no_second_one(
    recorded: list[tuple[str, str]], reason: Reason | None, outcome: tuple[str, str]
) -> None:
    records = [record_of("a-1", Reason.DEVICE_LOST)]  # of an earlier start
    here = controller("a-1", records=records)
    records.append(record_of("a-1", reason))
    seen = report()
    here.pytest_handlecrashitem("t.py::test[a-1]", seen, Scheduler())
    assert recorded == []
    assert (seen.outcome, seen.when) == outcome


def test_a_record_that_cannot_be_written_then_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise FarmError("results.jsonl cannot be written", reason=Reason.HOST_DISK_FULL)

    monkeypatch.setattr(module, "PhoneSession", lambda *_: SimpleNamespace(record_failure=full))
    seen = report()
    controller("a-1").pytest_handlecrashitem("t.py::test[a-1]", seen, Scheduler())
    assert seen.longrepr == "results.jsonl cannot be written"


def test_a_worker_that_was_told_to_stop_did_not_die(recorded: list[tuple[str, str]]) -> None:
    here = controller("a-1")
    worker = Worker()
    here.pytest_testnodedown(worker, None)
    here.pytest_testnodedown(worker, "keyboard-interrupt")
    here.pytest_handlecrashitem("t.py::test[a-1]", report(), Scheduler())
    assert recorded == []


def test_when_the_run_is_stopped_every_worker_is_told(recorded: list[tuple[str, str]]) -> None:
    here = controller("a-1", "b-1")
    workers = [Worker(), Worker(with_process=False), Worker()]
    for worker in workers:
        here.pytest_testnodeready(worker)
    here.pytest_keyboard_interrupt()
    assert [worker.told for worker in workers] == [["end"], [], ["end"]]
    here.pytest_handlecrashitem("t.py::test[a-1]", report(), Scheduler())
    assert recorded == []


def test_a_test_that_names_no_cell_goes_to_a_phone_that_has_something_to_do() -> None:
    here = controller("b-1")
    assert here.phone_of("t.py::test[b-1]") == "b"
    assert here.phone_of("t.py::test_other") == "b"


def test_what_was_found_in_the_folder_is_said_first() -> None:
    assert controller().pytest_report_header() == ["found this"]
