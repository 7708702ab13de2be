"""Rounds, ratios and what counts in them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.beside import OURS, Compared, Middle, Sample, side_by_side, take


def compared(ours: list[float], theirs: list[float]) -> Compared:
    return Compared("work", {OURS: [Sample(value, 1.0) for value in ours], "adb": [Sample(v, 1.0) for v in theirs]})


def test_every_round_does_the_work_in_each_way_and_another_one_begins() -> None:
    done: list[str] = []
    ways = {name: (lambda name=name: done.append(name)) for name in (OURS, "adb", "mobly")}
    measured = side_by_side("work", ways, 3, before=lambda: done.append("-"), cannot={"adbutils": "it has none"})
    rounds = "".join(name[0] for name in done if name != "-")
    assert rounds == "oamamomoaoam", "the first round is done and not counted"
    assert done.count("-") == len(rounds)
    assert {name: len(samples) for name, samples in measured.ways.items()} == {OURS: 3, "adb": 3, "mobly": 3}
    assert (measured.peers, measured.as_dict()["cannot"]) == (["adb", "mobly"], {"adbutils": "it has none"})


def test_a_ratio_is_the_middle_one_of_the_rounds_whatever_the_rounds_took() -> None:
    measured = compared([1.0, 20.0, 3.0], [2.0, 10.0, 6.0])
    assert measured.ratio("adb").median == 0.5, "the slow round is as slow for both"
    assert (measured.ratio("adb").low, measured.ratio("adb").high) == (0.5, 2.0)
    assert measured.ours.median == 3.0


def test_what_a_way_returns_counts_instead_of_its_wall_time() -> None:
    assert take(lambda: 12.5).value == 12.5
    assert 0 <= take(lambda: None).value < 10_000


def test_processor_time_of_programs_that_were_waited_for_counts() -> None:
    burn = "import time\nwhile time.process_time() < 0.05: pass"
    assert take(lambda: subprocess.run([sys.executable, "-c", burn], check=True) and None).cpu_ms >= 50


def test_the_answer_has_medians_intervals_and_ratios_of_every_way() -> None:
    told = compared([1.0, 1.0, 1.0], [4.0, 4.0, 4.0]).as_dict()
    assert told["ratios"] == {"adb": {"median": 0.25, "ci95": [0.25, 0.25]}}
    assert told["ways"]["adb"]["ms"] == {"median": 4.0, "ci95": [4.0, 4.0]}
    assert (told["rounds"], told["unit"]) == (3, "ms")


def test_an_interval_lies_around_its_median() -> None:
    middle = Middle.of([1.0, 2.0, 3.0, 4.0, 100.0])
    assert middle.low <= middle.median == 3.0 <= middle.high


def test_rounds_that_are_not_paired_are_no_measure() -> None:
    with pytest.raises(ValueError, match="shorter"):
        compared([1.0, 2.0], [1.0]).ratio("adb")
