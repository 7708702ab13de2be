"""What got worse since a baseline, and what is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import against
from benchmarks.against import baseline_of, read_baseline, worse
from benchmarks.beside import OURS, Compared, Sample


def measured(ours: list[float], theirs: list[float], cpu: float = 1.0) -> list[Compared]:
    ways = {OURS: [Sample(value, cpu) for value in ours], "adb": [Sample(value, 1.0) for value in theirs]}
    return [Compared("push", ways)]


BEFORE = measured([1.0, 1.1, 1.2], [2.0, 2.0, 2.0])


def test_a_run_is_not_worse_than_itself_and_holds_no_path(tmp_path: Path) -> None:
    baseline = baseline_of(BEFORE)
    file = tmp_path / "baseline.json"
    file.write_text(json.dumps({"measures": {}, "baseline": baseline}))
    assert read_baseline(file) == baseline, "the whole answer of a run is a baseline, too"
    assert worse(BEFORE, baseline) == []
    assert set(baseline["measures"]["push"]) == {"adb", "cpu_ms"}


def test_a_ratio_that_lies_above_with_its_whole_interval_is_worse() -> None:
    [change] = worse(measured([1.6, 1.7, 1.6], [2.0, 2.0, 2.0]), baseline_of(BEFORE))
    assert (change.measure, change.figure, change.before.median, change.now.median) == ("push", "adb", 0.55, 0.8)
    assert change.sentence() == "WORSE: push, ÷ adb: 0.8 (0.8 to 0.85), before 0.55 (0.5 to 0.6)"


@pytest.mark.parametrize("ours", [[1.1, 1.2, 1.9], [0.1, 0.1, 0.1]])
def test_what_overlaps_or_got_better_is_not(ours: list[float]) -> None:
    assert worse(measured(ours, [2.0, 2.0, 2.0]), baseline_of(BEFORE)) == []


def test_processor_time_counts_on_the_same_processor_only(monkeypatch: pytest.MonkeyPatch) -> None:
    baseline = baseline_of(BEFORE)
    slower = measured([1.0, 1.1, 1.2], [2.0, 2.0, 2.0], cpu=5.0)
    assert [change.figure for change in worse(slower, baseline)] == ["cpu_ms"]
    monkeypatch.setattr(against, "processor", lambda: "another")
    assert worse(slower, baseline) == []


def test_a_measure_or_a_peer_that_was_not_there_before_is_not_compared() -> None:
    baseline = baseline_of(BEFORE)
    del baseline["measures"]["push"]["adb"]
    assert worse(measured([9.0] * 3, [1.0] * 3), baseline) == []
    assert worse(measured([9.0] * 3, [1.0] * 3), {**baseline, "measures": {}}) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no json", "Expecting value"),
        ("[]", "AttributeError"),
        ('{"schema": 7, "processor": "x", "measures": {}}', "schema 7, not 1"),
        ('{"schema": 1, "processor": "x", "measures": {"push": {"adb": {"median": 1}}}}', "KeyError: 'ci95'"),
    ],
)
def test_what_is_no_baseline_is_refused(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "baseline.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=why):
        read_baseline(file)


def test_the_baseline_that_comes_with_the_suite_can_be_read() -> None:
    path = Path(against.__file__).with_name("baseline.json")
    baseline = read_baseline(path)
    assert "overhead of a cell" in baseline["measures"]
    assert "/" not in "".join(baseline["measures"]), "no paths"
