"""The page's section on method says what the code does: its figures are held against the code's own."""

from __future__ import annotations

from types import ModuleType

import pytest

from harness.bench import metrics, throttle, validity
from harness.report import picker
from harness.report.html import report_html


@pytest.fixture(scope="module")
def method(make: ModuleType, parse) -> str:
    return parse(report_html(make.info(), [make.record()])).one("section", id="method").text


def test_the_numbers_in_it_are_those_of_the_code(method: str) -> None:
    assert f"p90 needs {metrics.P90_SAMPLES} of them" in method
    assert f"{metrics._RESAMPLES // 1000} {metrics._RESAMPLES % 1000:03} resamples with a fixed seed" in method
    assert (
        f"more than {metrics._OUTLIER_SCORE} robust deviations (and {metrics._OUTLIER_LEAST:.0%}".replace("%", " %")
        in method
    )
    assert {3: "three", 5: "five"}[metrics.OUTLIER_SAMPLES] + " on. It counts all the same" in method
    assert throttle._QUARTER == 0.25
    assert "in the first quarter of the time where it did not" in method
    assert f"from {validity._FEW_WEIGHTS_BYTES >> 20} MiB of weights on" in method
    assert "from " + ", ".join(f"{step:.0%}".replace("%", " %") for step in picker._STEPS) + " and below" in method


def test_an_interval_needs_three_values_as_it_says(method: str) -> None:
    assert "from three timed generations on" in method
    assert metrics.speed([1.0, 2.0]).ci95 is None
    assert metrics.speed([1.0, 2.0, 3.0]).ci95 is not None


def test_every_rule_that_makes_an_ok_is_told(method: str) -> None:
    told = {
        "ended_by_itself": "ended by itself",
        "account_is_complete": "its account is complete",
        "tool_output_is_believed": "MNN's own tools",
        "backend_was_used": "The backend that was asked for ran",
        "runner_had_no_error": "Neither runner, linker nor engine reported an error",
        "engine_reported_no_error": "Neither runner, linker nor engine reported an error",
        "runner_said_something": "can be read",
        "ran_as_asked": "threads, precision and memory mode of the cell",
        "caches_are_ours": "no cache of another model or build",
        "weights_were_loaded": "holds its weights",
        "tokens_were_generated": "as many tokens as were asked for",
        "speed_is_possible": "physically possible",
        "decode_is_below_the_roof": "not faster than the phone's memory can be read",
        "output_is_language": "The text is language",
        "output_matches_reference": "agrees with the reference",
        "phone_was_steady": "started cool, did not sleep",
        "memory_was_free": "wait for memory",
        "affinity_held": "stayed on the cores",
        "repeats_agree": "spread no more than the plan's cv_limit",
    }
    assert [rule.__name__ for rule in validity.RULES] == list(told)
    assert [words for words in told.values() if words not in method] == []
