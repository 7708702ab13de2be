from __future__ import annotations

import os
import pickle
from pathlib import Path
from types import ModuleType

import pytest

from harness.core.errors import ConfigError
from harness.core.reasons import Reason
from harness.report.news_against import Baseline, baseline_of, check_word, find_against
from harness.store.schema import CellRecord


class Runs:
    """Run folders side by side; names sort as they began."""

    def __init__(self, make: ModuleType, root: Path) -> None:
        self.make, self.root = make, root

    def add(self, name: str, *records: CellRecord, day: int = 1) -> Path:
        head = self.make.info(run_id=f"run-{name}", started=f"2026-01-{day:02}T00:00:00Z")
        return self.make.run_folder(self.root / name, head, list(records))


@pytest.fixture
def runs(make: ModuleType, tmp_path: Path) -> Runs:
    return Runs(make, tmp_path)


def found(run_dir: Path, *cells: CellRecord, word: str = "last") -> str | None:
    against, _ = find_against(word, run_dir, {cell.cell_id for cell in cells})
    return None if against is None else against.run_id


def test_last_is_the_newest_that_began_earlier(make: ModuleType, runs: Runs) -> None:
    cell = make.record()
    runs.add("b", cell, day=2)
    runs.add("a", cell, day=3)
    runs.add("later", cell, day=9)
    assert found(runs.add("now", day=5), cell) == "run-a"


def test_a_run_without_a_common_cell_is_passed_over(make: ModuleType, runs: Runs) -> None:
    cell = make.record()
    runs.add("mine", cell, day=1)
    runs.add("others", make.record("birch"), day=2)
    runs.add("empty", day=3)
    assert found(runs.add("now", day=5), cell) == "run-mine"
    assert found(runs.root / "now", make.record("cedar")) is None


def test_a_run_whose_common_cells_all_wait_for_resume_is_passed_over(make: ModuleType, runs: Runs) -> None:
    cell = make.record()
    runs.add("mine", make.record(reason=Reason.CRASH), day=1)
    runs.add("lost", make.record(reason=Reason.DEVICE_LOST), day=2)
    assert found(runs.add("now", day=5), cell) == "run-mine"


def test_a_broken_folder_beside_is_a_note_and_no_error(make: ModuleType, runs: Runs) -> None:
    cell = make.record()
    runs.add("good", cell, day=1)
    (runs.root / "broken").mkdir()
    (runs.root / "broken" / "run.json").write_text('{"run_id": 3}')
    (runs.root / "no-run").mkdir()
    torn = runs.add("torn", cell, day=2) / "results.jsonl"
    torn.write_bytes(torn.read_bytes()[:-40])
    against, notes = find_against("last", runs.add("now", day=5), {cell.cell_id})
    assert against is not None
    assert against.run_id == "run-good"
    assert notes == ["not compared with broken: its run.json cannot be read (ValueError)"]


def test_only_the_newest_fifty_folders_are_looked_at(make: ModuleType, runs: Runs) -> None:
    cell = make.record()
    old = runs.add("old", cell, day=1)
    os.utime(old / "run.json", (1, 1))
    now = runs.add("now", day=5)
    assert found(now, cell) == "run-old"
    for number in range(50):
        runs.add(f"x{number}", day=2)
    assert found(now, cell) is None


def test_a_run_can_be_named_by_folder_or_by_its_name_beside(make: ModuleType, runs: Runs) -> None:
    cell = make.record()
    mine = runs.add("mine", cell, day=8)
    now = runs.add("now", day=5)
    assert found(now, word=str(mine)) == found(now, word="mine") == "run-mine"
    assert found(now, cell, word="none") is None


def test_what_names_no_run_is_refused_before_anything_begins(runs: Runs) -> None:
    check_word("last", runs.root)
    check_word("none", runs.root)
    with pytest.raises(ConfigError, match=r"--against gone: that is no run folder .* or last .* or none"):
        check_word("gone", runs.root)


def test_a_run_is_not_compared_with_itself(runs: Runs) -> None:
    now = runs.add("now")
    with pytest.raises(ConfigError, match="this run's own folder"):
        find_against(str(now), now, ())


def test_a_worker_gets_what_was_ok_and_finds_another_builds_cell(make: ModuleType, runs: Runs) -> None:
    bundle = {**make.record().bundle.model_dump(), "hash": "c" * 64}
    cells = [make.record(), make.record(backend="opencl", cell_id="old", bundle=bundle)]
    runs.add("mine", *cells, make.record(threads=2, reason=Reason.CRASH))
    against, _ = find_against("mine", runs.add("now", day=5), ())
    baseline = baseline_of(against, {cells[0].cell_id}, shared=())
    assert pickle.loads(pickle.dumps(baseline)) == baseline  # noqa: S301
    assert list(baseline.by_id) == [cells[0].cell_id]
    lost = make.record(backend="opencl", reason=Reason.BACKEND_NOT_BUILT)
    assert baseline.regression(lost) == ("backend_not_built", "was ok, is unsupported now (in run run-mine)")
    assert baseline.regression(make.record()) is None
    assert baseline.regression(make.record(threads=2, reason=Reason.BACKEND_NOT_BUILT)) is None


def test_without_a_run_to_compare_with_nothing_is_red(make: ModuleType) -> None:
    assert baseline_of(None, (), ()) == Baseline()
    assert Baseline().regression(make.record(reason=Reason.BACKEND_NOT_BUILT)) is None


def test_speeds_of_phones_that_share_a_computer_are_not_handed_on(make: ModuleType, runs: Runs) -> None:
    cell = make.record()
    runs.add("mine", cell)
    against, _ = find_against("mine", runs.add("now", day=5), ())
    for shared, judged in (((), True), ((cell.phone.id,), False)):
        standing = baseline_of(against, {cell.cell_id}, shared).by_id[cell.cell_id]
        assert (standing.timings is not None) is judged
