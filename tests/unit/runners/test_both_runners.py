"""What all runners do with the options that say how much to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., "list[dict[str, Any]]"]
AMOUNT = ("--prompt-tokens", "8", "--generate-tokens", "6")


@pytest.fixture
def run(runner: Any, tiny: Path, tmp_path: Path) -> Run:
    def ran(*options: str, code: int = 0) -> list[dict[str, Any]]:
        done = runner.run(tiny, tmp_path, *AMOUNT, *options)
        assert done.exit_code == code, done.stderr
        return done.events or [{"stderr": done.stderr}]

    return ran


def of(events: list[dict[str, Any]], **fields: Any) -> list[dict[str, Any]]:
    return [event for event in events if all(event.get(key) == value for key, value in fields.items())]


def test_it_loads_as_often_as_asked_and_tells_each_time(run: Run) -> None:
    loads = of(run("--load-rounds", "3", "--warmups", "0", "--repeats", "1"), event="load")
    assert [load["round"] for load in loads] == [0, 1, 2]
    assert all(load["rss_before_bytes"] > 0 and load["rss_bytes"] > 0 for load in loads)
    begun = [load["begun_ns"] for load in loads]
    assert begun == sorted(begun)


def test_every_generation_tells_when_it_began_by_the_monotonic_clock(run: Run) -> None:
    before = time.monotonic_ns()
    made = of(run("--warmups", "1", "--repeats", "2"), event="generation")
    begun, after = [one["begun_ns"] for one in made], time.monotonic_ns()
    ends = [one["begun_ns"] + 1e6 * (one["ttft_ms"] + sum(one["token_ms"])) for one in made]
    assert before < begun[0]
    assert all(end <= following for end, following in zip(ends, [*begun[1:], after], strict=True))
    assert all(one["rss_bytes"] > 0 for one in made)


def test_with_a_duration_it_generates_until_that_time_has_passed(run: Run) -> None:
    timed = of(run("--warmups", "1", "--repeats", "1", "--duration-s", "0.4"), kind="timed")
    ends_s = [
        (one["begun_ns"] - timed[0]["begun_ns"]) / 1e9 + (one["ttft_ms"] + sum(one["token_ms"])) / 1e3 for one in timed
    ]
    # One more was begun as long as the time had not passed; what follows the last token counts as well.
    assert ends_s[-2] < 0.4 < ends_s[-1] + 0.01


def test_history_is_computed_before_the_prompt_and_counts_apart(run: Run) -> None:
    events = run("--context-tokens", "40", "--warmups", "1", "--repeats", "2")
    made = of(events, event="generation")
    assert [(one["kind"], one["context_tokens"], one["prompt_tokens"]) for one in made] == [
        ("warmup", 40, 8), ("timed", 40, 8), ("timed", 40, 8),
    ]  # fmt: skip
    assert len({tuple(one["token_ids"]) for one in made}) == 1


def test_a_spread_above_the_limit_is_repeated_up_to_the_cap(run: Run) -> None:
    # Times are never equal to a billionth: all runners spread more than that.
    options = ("--warmups", "0", "--repeats", "3", "--cv-limit", "1e-9", "--max-repeats", "7")
    assert len(of(run(*options), kind="timed")) == 7


def test_a_spread_within_the_limit_is_not_repeated(run: Run) -> None:
    options = ("--warmups", "0", "--repeats", "3", "--cv-limit", "1e9", "--max-repeats", "7")
    assert len(of(run(*options), kind="timed")) == 3


def test_questions_of_a_file_come_after_those_of_the_command_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text('{"text": "Is \\u00e4 a letter?", "tokens": 2}\n\nAnd now?\n', encoding="utf-8")
    events = run("--warmups", "0", "--repeats", "1", "--ask", "First?", "--ask-tokens", "3", "--ask-file", str(file))
    answers = of(events, kind="answer")
    assert [answer["question"] for answer in answers] == ["First?", "Is ä a letter?", "And now?"]
    assert [answer["generated_tokens"] <= most for answer, most in zip(answers, (3, 2, 3), strict=True)] == [True] * 3


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--ask-file", "nowhere.jsonl"), "nowhere.jsonl cannot be read"),
        (("--duration-s", "0"), "0"),
        (("--cv-limit", "some"), "some"),
        (("--load-rounds", "0"), "0"),
        (("--context-tokens", "-1"), "-1"),
    ],
)
def test_a_wrong_amount_is_one_sentence_and_exit_code_2(run: Run, options: tuple[str, ...], says: str) -> None:
    said = run(*options, code=2)[0]["stderr"]
    assert says in said
    assert len(said.splitlines()) == 1
