from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.plugin import controller as module
from harness.plugin.controller import Controller


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The cells for which the controller writes a record in a worker's place, with the reasons."""
    told: list[tuple[str, str]] = []

    def session(*_: object) -> Any:
        return SimpleNamespace(record_failure=lambda cell, error: told.append((cell, error.reason.code)))

    monkeypatch.setattr(module, "PhoneSession", session)
    return told


def controller(*cells: str) -> Controller:
    """The controller of a run on phones a and b; cells are named ``a-1``."""
    bound = [SimpleNamespace(phone=name[0], cell=name, cell_id=name, test_id=name) for name in cells]
    run = SimpleNamespace(
        cells=bound,
        fleet=SimpleNamespace(phones=[SimpleNamespace(name="a"), SimpleNamespace(name="b")]),
        busy_phones=[name for name in ("a", "b") if any(cell.phone == name for cell in bound)],
        context=None,
        notes=("found this",),
        folder=SimpleNamespace(path=None, latest=list),
    )
    return Controller(cast("Any", run))


class Worker:
    """A worker of xdist whose process only remembers that it was told to end."""

    def __init__(self, *, with_process: bool = True) -> None:
        self.told: list[str] = []
        process = SimpleNamespace(terminate=lambda: self.told.append("end")) if with_process else None
        self.gateway = SimpleNamespace(_io=SimpleNamespace(popen=process))


def test_a_worker_that_dies_leaves_its_cell_to_the_controller(recorded: list[tuple[str, str]]) -> None:
    here = controller("a-1", "b-1")
    here.pytest_handlecrashitem("t.py::test[b-1]", None, None)
    here.pytest_handlecrashitem("t.py::test[c-1]", None, None)
    assert recorded == [("b-1", "harness_error")]


def test_a_worker_that_was_told_to_stop_did_not_die(recorded: list[tuple[str, str]]) -> None:
    here = controller("a-1")
    worker = Worker()
    here.pytest_testnodedown(worker, None)
    here.pytest_testnodedown(worker, "keyboard-interrupt")
    here.pytest_handlecrashitem("t.py::test[a-1]", None, None)
    assert recorded == []


def test_when_the_run_is_stopped_every_worker_is_told(recorded: list[tuple[str, str]]) -> None:
    here = controller("a-1", "b-1")
    workers = [Worker(), Worker(with_process=False), Worker()]
    for worker in workers:
        here.pytest_testnodeready(worker)
    here.pytest_keyboard_interrupt()
    assert [worker.told for worker in workers] == [["end"], [], ["end"]]
    here.pytest_handlecrashitem("t.py::test[a-1]", None, None)
    assert recorded == []


def test_a_test_that_names_no_cell_goes_to_a_phone_that_has_something_to_do() -> None:
    here = controller("b-1")
    assert here.phone_of("t.py::test[b-1]") == "b"
    assert here.phone_of("t.py::test_other") == "b"


def test_what_was_found_in_the_folder_is_said_first() -> None:
    assert controller().pytest_report_header() == ["found this"]
