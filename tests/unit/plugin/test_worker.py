from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.bench.context import RunContext
from harness.bench.session import PhoneSession
from harness.core.errors import FarmError
from harness.core.reasons import Reason
from harness.payload.bundle import default_bundle
from harness.payload.folder import PayloadFolder
from harness.payload.models import ModelFolder
from harness.plan.matrix import Block, PlannedCell, cells_of
from harness.plan.model import Plan
from harness.plugin import worker as module
from harness.plugin.bound import BoundCell, WorkerRun
from harness.plugin.worker import Worker, too_late

NOW = datetime(2026, 3, 5, 22, 10, tzinfo=timezone.utc)
PLAN = Plan.model_validate({"models": ["toy"], "backends": ["cpu", "vulkan"], "threads": [1]})
CPU, VULKAN = cells_of(PLAN)
# 100 MB on a mid phone: 1.5 s to start, 0.33 s to load, six generations of 12.8 + 32 tokens at 10 ms
NEEDS_S = 1.5 + 1 / 3 + 6 * 44.8 * 0.01


def session(recorded: list[tuple[str, str]] | None = None) -> PhoneSession:
    """A session on a phone without Vulkan that only writes down what it is told."""
    told = recorded if recorded is not None else []

    def tell(what: str, cell: PlannedCell, why: Reason | None) -> Any:
        told.append((what, cell.label))
        return SimpleNamespace(why=why)

    models = {"toy": ModelFolder("toy", PayloadFolder(Path(), ()), 10**8, 4)}
    made = SimpleNamespace(
        context=RunContext("r1", Path(), PLAN, default_bundle(), models),
        phone=SimpleNamespace(
            name="p",
            tier="mid",
            facts=SimpleNamespace(
                abis=("arm64-v8a",),
                vulkan="",
                opencl="",
                ram_bytes=2**33,
                python_mnn="3",
                cpu_features=(),
                sdk=34,
                page_size=4096,
                nulls={},
                cpu_clusters=(),
                core_max_khz={},
            ),
        ),
        gone=None,
        run_cell=lambda cell: tell("run", cell, None),
        record_failure=lambda cell, error: tell(error.reason.code, cell, error.reason),
    )
    return cast("PhoneSession", made)


def late(seconds: float, cell: Any = CPU) -> FarmError | None:
    return too_late(cell, session(), NOW + timedelta(seconds=seconds), NOW)


def test_a_cell_is_started_only_if_it_should_be_done_in_time() -> None:
    assert late(NEEDS_S + 0.1) is None
    refused = late(NEEDS_S - 0.1)
    assert refused is not None
    assert refused.reason is Reason.OUT_OF_TIME


def test_turns_of_two_builds_are_begun_only_if_all_of_them_should_be_done_in_time() -> None:
    first, last = (replace(CPU, block=Block("p", "A", number, 4)) for number in (0, 3))
    assert late(4 * NEEDS_S - 0.1, first) is not None
    assert late(4 * NEEDS_S + 0.1, first) is None
    assert late(NEEDS_S + 0.1, last) is None


def test_the_refusal_says_how_long_it_takes_and_what_to_do() -> None:
    ends = f"{(NOW + timedelta(seconds=2)).astimezone():%H:%M:%S}"
    assert str(late(2)) == (
        f"this cell takes about 5 s and the run's time ends in 2 s, at {ends}: finish the run with --resume"
    )
    ended = f"{(NOW - timedelta(hours=1)).astimezone():%H:%M:%S}"
    assert str(late(-3600)) == f"the run's time ended at {ended}: finish the run with --resume"


def test_a_phone_that_was_given_up_says_so_and_not_that_it_is_late() -> None:
    gone = session()
    gone.gone = FarmError("lost")
    assert too_late(CPU, gone, NOW - timedelta(hours=1), NOW) is None


def test_a_run_without_an_end_and_a_cell_that_takes_no_time_are_never_late() -> None:
    assert too_late(CPU, session(), None, NOW) is None
    assert late(-3600, VULKAN) is None


@pytest.mark.parametrize(("seconds", "became"), [(3600, "run"), (-1, "out_of_time")])
def test_a_late_cell_has_its_record_and_is_not_run(
    monkeypatch: pytest.MonkeyPatch, seconds: float, became: str
) -> None:
    told: list[tuple[str, str]] = []
    here = session(told)
    monkeypatch.setattr(module, "PhoneSession", lambda *_: here)
    stop_at = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    run = WorkerRun(cast("Any", here.context), {"p": here.phone}, (), (), stop_at)
    Worker(run).measure(BoundCell("p", CPU, "id", "name"))
    assert told == [(became, CPU.label)]


def test_what_a_worker_wrote_before_it_died_is_not_measured_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[str, str]] = []
    here = session(told)
    monkeypatch.setattr(module, "PhoneSession", lambda *_: here)
    bound = BoundCell("p", CPU, "id", "name")
    written: list[Any] = [SimpleNamespace(turn=bound.turn, why=None)]
    monkeypatch.setattr(module, "RunFolder", lambda _: SimpleNamespace(records_of=lambda _: written))

    def measured(before: int) -> Any:
        told.clear()
        run = WorkerRun(cast("Any", here.context), {"p": here.phone}, (), (), before={bound.turn: before})
        return Worker(run).measure(bound)

    assert measured(before=0) is written[0]
    assert told == []
    measured(before=1)  # of an earlier start: this one was told to do it again
    assert told == [("run", CPU.label)]
    written.append(SimpleNamespace(turn=bound.turn, why=Reason.HARNESS_ERROR))
    measured(before=1)  # the attempt that the dead worker had begun
    assert told == [("run", CPU.label)]
    written.append(SimpleNamespace(turn=("id", 1), why=None))  # another turn of the same build
    measured(before=1)
    assert told == [("run", CPU.label)]


@pytest.mark.parametrize(("phone_after_phone", "left"), [(True, ["p"]), (False, [])])
def test_where_phones_wait_one_is_left_before_the_next_is_begun(
    monkeypatch: pytest.MonkeyPatch, phone_after_phone: bool, left: list[str]
) -> None:
    closed: list[str] = []

    def made(phone: Any, *_: object) -> Any:
        here = cast("Any", session())
        here.close = lambda: closed.append(phone)
        return here

    monkeypatch.setattr(module, "PhoneSession", made)
    phones: Any = {"p": "p", "q": "q"}
    worker = Worker(WorkerRun(session().context, phones, (), (), phone_after_phone=phone_after_phone))
    worker.measure(BoundCell("p", CPU, "id", "name"))
    worker.measure(BoundCell("q", CPU, "id", "name"))
    assert closed == left
    worker.close()
    assert sorted(closed) == ["p", "q"]


def full(*_: object) -> None:
    raise FarmError("results.jsonl cannot be written", remedy="make room", reason=Reason.HOST_DISK_FULL)


@pytest.mark.parametrize(
    ("end", "stopped"),
    [
        (lambda _: SimpleNamespace(why=None), ""),
        (lambda _: SimpleNamespace(why=Reason.DEVICE_LOST), ""),
        (
            lambda _: SimpleNamespace(why=Reason.HOST_DISK_FULL),
            "no further cell is begun: this computer's disk is full; make room where /runs/1 lies and run again",
        ),
        (full, "no further cell is begun: results.jsonl cannot be written: make room"),
    ],
    ids=["ok", "another reason", "a full disk that took the record", "one that did not"],
)
def test_a_full_disk_of_this_computer_is_the_end_of_the_run(
    monkeypatch: pytest.MonkeyPatch, end: Any, stopped: str
) -> None:
    here = cast("Any", session())
    here.run_cell, here.context = end, replace(here.context, run_dir=Path("/runs/1"))
    monkeypatch.setattr(module, "PhoneSession", lambda *_: here)
    worker = Worker(WorkerRun(here.context, {"p": here.phone}, (), ()))
    with contextlib.suppress(FarmError):
        worker.measure(BoundCell("p", CPU, "id", "name"))
    assert worker.stopped == stopped
