from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

from harness.bench.said import output_of, wilson, write_answers


@pytest.mark.parametrize(
    ("right", "count", "low", "high"),
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3; and the two ends
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (5, 5, 0.5655, 1),
    ],
)
def test_the_interval_of_a_share_is_wilsons(right: int, count: int, low: float, high: float) -> None:
    assert wilson(right, count) == pytest.approx((low, high), abs=5e-5)


def test_every_answer_is_kept_in_full(make: ModuleType, tmp_path: Path) -> None:
    evidence = make.evidence()
    write_answers(evidence, evidence.plan, tmp_path / "answers.jsonl")
    [line] = (tmp_path / "answers.jsonl").read_text().splitlines()
    assert json.loads(line) == {"question": "Capital of Peru?", "text": "Lima.", "expect": "lima", "right": True}


def test_the_first_tokens_largest_logits_stand_beside_the_text(make: ModuleType) -> None:
    told = make.events()
    first = next(event for event in told if event.get("kind") == "timed")
    first["first_logits"] = [[100, 17.25], [7, 17.0]]
    evidence = make.evidence(told)
    nulls: dict[str, str] = {}
    said = output_of(evidence, evidence.plan, nulls)
    assert said is not None
    assert said.first_logits == ((100, 17.25), (7, 17.0))
    assert "first_logits" not in nulls


def test_a_runner_without_logits_is_told_as_such(make: ModuleType) -> None:
    evidence = make.evidence()
    nulls: dict[str, str] = {}
    said = output_of(evidence, evidence.plan, nulls)
    assert said is not None
    assert (said.first_logits, nulls["first_logits"]) == (None, "the runner tells no logits")
