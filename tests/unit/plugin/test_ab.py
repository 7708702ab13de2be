"""A run of two builds by turns: its order, its ids, what is left of it, and what it tells in the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from harness.bench.context import RunContext
from harness.core.errors import ConfigError
from harness.core.reasons import Reason
from harness.payload.bundle import default_bundle
from harness.plugin.ab import compared, counting, lines_of, write_ab
from harness.plugin.bound import BoundCell
from harness.plugin.bundles import TwoBuilds
from harness.plugin.options import Again, Request
from harness.plugin.resume import Begun
from harness.plugin.run import Run, begin, describe_dry_run
from harness.store.resume import Choice
from harness.store.schema import AbBlock, CellRecord

OLD = default_bundle()
NEW = replace(OLD, manifest=OLD.manifest.model_copy(update={"name": "new", "extra_args": ["--new"]}))


@pytest.fixture(scope="module")
def of_resume(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    """Phones that exist only in the tests of resuming."""
    return load_module(Path(__file__).with_name("test_resume.py"))


@pytest.fixture(scope="module")
def make(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    return load_module(Path(__file__).parents[1] / "report" / "factory.py")


def request_of(of_resume: ModuleType, *, b: Any = NEW, rounds: int = 1) -> Request:
    request: Request = of_resume.REQUEST
    return replace(request, bundle=OLD, ab=TwoBuilds(OLD, b, rounds))


def start(of_resume: ModuleType, request: Request, folder: Path, *phones: str) -> Run:
    return begin(request, of_resume.fleet(*phones), folder / "run", folder, ["pytest", "--ab", "old,new"])


def record_of(make: ModuleType, run: Run, bound: BoundCell, reason: Reason | None = None, tps: float = 50.0) -> None:
    """Write the record of a turn."""
    block = bound.cell.block
    assert block is not None
    bundle = run.context.bundle_for(None, bound.cell)  # type: ignore[arg-type]
    made: CellRecord = make.record(
        bound.phone, threads=bound.cell.threads, reason=reason, tps=tps, cell_id=bound.cell_id, run_id="r",
        ab=AbBlock(pair=block.pair, arm=block.arm, block=block.number, blocks=block.of).model_dump(),
    )  # fmt: skip
    info = made.bundle.model_copy(update={"name": bundle.manifest.name, "hash": bundle.hash})
    phone = made.phone.model_copy(update={"id": f"id-of-{bound.phone}"})
    run.folder.append(made.model_copy(update={"bundle": info, "phone": phone}))


@pytest.fixture
def _any_phone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which bundle a phone can run is not asked here."""
    monkeypatch.setattr("harness.bench.context.target_of", lambda _: None)
    monkeypatch.setattr("harness.bench.context.best_bundle", lambda bundles, _: bundles[0])


def again(run: Run, *, unfinished: bool = True, rerun: tuple[str, ...] = ()) -> Begun:
    return Begun.open(Again(run.folder.path, unfinished, Choice.parse(rerun)))


def order(run: Run) -> list[str]:
    blocks = [(bound, bound.cell.block) for bound in run.cells]
    return [f"{bound.phone}{bound.cell.threads}{block.arm}" for bound, block in blocks if block is not None]


def test_the_turns_of_a_cell_follow_one_another_on_each_phone(of_resume: ModuleType, tmp_path: Path) -> None:
    run = start(of_resume, request_of(of_resume), tmp_path, "a", "b")
    assert order(run) == ["a1A", "b1A", "a1B", "b1B", "a1B", "b1B", "a1A", "b1A", "a2A", "b2A", "a2B", "b2B", "a2B",
                          "b2B", "a2A", "b2A"]  # fmt: skip
    assert len({bound.test_id for bound in run.cells}) == 16
    assert run.cells[0].test_id.endswith("-A1")
    assert len({bound.cell_id for bound in run.cells}) == 8
    assert len({bound.pair for bound in run.cells}) == 4
    head = run.folder.read_info()
    assert head.cells == 8
    assert head.bundle is not None
    assert head.ab is not None
    assert (head.bundle.name, head.ab.bundle.name, head.ab.rounds) == ("farm-runner-python", "new", 1)


@pytest.mark.usefixtures("_any_phone")
def test_a_turn_is_run_with_the_build_whose_turn_it_is(of_resume: ModuleType, tmp_path: Path) -> None:
    run = start(of_resume, request_of(of_resume), tmp_path, "a")
    context: RunContext = run.context
    facts: Any = None
    names = [context.bundle_for(facts, bound.cell).manifest.name for bound in run.cells[:4]]
    assert names == ["farm-runner-python", "new", "new", "farm-runner-python"]


def test_the_same_build_twice_has_one_id_and_turns_of_its_own(of_resume: ModuleType, tmp_path: Path) -> None:
    run = start(of_resume, request_of(of_resume, b=OLD), tmp_path, "a")
    assert len({bound.cell_id for bound in run.cells}) == run.folder.read_info().cells == 2
    assert len({bound.turn for bound in run.cells}) == len({bound.test_id for bound in run.cells}) == 8


@pytest.mark.usefixtures("_any_phone")
def test_turns_are_only_done_again_all_together(of_resume: ModuleType, make: ModuleType, tmp_path: Path) -> None:
    request = request_of(of_resume)
    run = start(of_resume, request, tmp_path, "a")
    for bound in run.cells[:7]:
        record_of(make, run, bound, Reason.NOISY if bound.turn[1] == 2 and bound.cell.threads == 2 else None)
    assert run.unfinished(counting(run.folder.records())) == 1
    begun = again(run)
    assert begun.not_here(request, of_resume.fleet("b").phones) == {"a": 1}
    begun.check(request)
    assert order(begun.go_on(request, of_resume.fleet("a"), [])) == ["a2A", "a2B", "a2B", "a2A"]
    for bound in run.cells[4:]:
        record_of(make, run, bound)
    assert order(again(run).go_on(request, of_resume.fleet("a"), [])) == []
    assert run.unfinished(counting(run.folder.records())) == 0
    only = again(run, unfinished=False, rerun=("verdict=ok",)).go_on(request, of_resume.fleet("a"), [])
    assert len(order(only)) == 8
    shown = list(describe_dry_run(request, of_resume.fleet("a").phones, again(run).is_left))
    assert sum(line.endswith("done before") for line in shown) == 8


def test_another_second_build_is_refused(of_resume: ModuleType, tmp_path: Path) -> None:
    run = start(of_resume, request_of(of_resume), tmp_path, "a")
    with pytest.raises(ConfigError, match="bundle farm-runner-python is not what this run was begun with"):
        again(run).check(request_of(of_resume, b=OLD))


@pytest.mark.usefixtures("_any_phone")
def test_in_the_end_it_tells_what_the_second_build_changed(
    of_resume: ModuleType, make: ModuleType, tmp_path: Path
) -> None:
    request = request_of(of_resume, rounds=2)
    run = start(of_resume, request, tmp_path, "a")
    for bound in run.cells[:8]:
        arm, number = (bound.cell.block.arm, bound.cell.block.number) if bound.cell.block is not None else ("", 0)
        record_of(make, run, bound, tps=(50.0 if arm == "A" else 40.0) * (1 - number / 100))
    assert request.ab is not None
    comparison = compared(request.ab, run.folder.records())
    told = json.loads(write_ab(tmp_path, comparison).read_text())
    assert told["regression"] is True
    assert told["cells"][0]["figures"][0]["ratio"] == pytest.approx(0.8, abs=0.001)
    lines = lines_of(comparison, Console(width=160, highlight=False))
    assert lines[0].startswith(f"A: farm-runner-python ({OLD.hash[:8]}) → B: new ({NEW.hash[:8]})")
    assert any("slower" in line and "-20.0 %" in line for line in lines)
    assert lines[-1] == "1 cell compared: 1 worse"
    same = compared(replace(request.ab, b=OLD), run.folder.records())
    assert same.notes == ("both builds are the same files: any change that is called here is a wrong call",)
