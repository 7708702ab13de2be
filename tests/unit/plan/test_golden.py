from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import ConfigError
from harness.plan.golden import find_golden, golden_allowance_s, golden_name, golden_names, load_golden, with_golden
from harness.plan.matrix import cells_of, questions_of
from harness.plan.model import Golden, Plan

ONE = '[[ask]]\nquestion = "One?"\nexpect = "1"\nmax_tokens = 4\n'


def plan(**over: Any) -> Plan:
    return Plan.model_validate({"models": ["toy"], "backends": ["cpu"], "threads": [1, 2], **over})


def written(folder: Path, text: str) -> Path:
    file = folder / "mine.toml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("name", golden_names())
def test_a_shipped_set_asks_enough_and_no_question_holds_its_own_answer(name: str) -> None:
    asks = load_golden(find_golden(name))
    assert len(asks) >= 50
    echoed = [ask.question for ask in asks if re.search(ask.expect, ask.question, re.IGNORECASE)]
    assert echoed == []


@pytest.mark.parametrize("name", golden_names())
def test_no_single_text_answers_many_questions_of_a_shipped_set(name: str) -> None:
    asks = load_golden(find_golden(name))
    texts = ["", "yes", "no", "Paris", "I do not know.", "the the the", "7", "A B C", "Hello! How can I help you?"]
    right = Counter({text: sum(bool(re.search(a.expect, text, re.IGNORECASE)) for a in asks) for text in texts})
    assert max(right.values()) <= 3


def test_the_plan_takes_the_questions_of_its_set_in(tmp_path: Path) -> None:
    file = written(tmp_path, ONE)
    chosen = with_golden(plan(golden={"set": str(file), "tolerance": 0.2}))
    file.unlink()
    assert [ask.question for ask in chosen.golden.ask] == ["One?"]
    assert with_golden(chosen) == chosen
    assert Plan.model_validate(chosen.model_dump(mode="json", by_alias=True)) == chosen


def test_the_command_line_names_another_set_and_keeps_the_tolerance(tmp_path: Path) -> None:
    chosen = with_golden(plan(golden={"set": "general", "tolerance": 0.2}), str(written(tmp_path, ONE)))
    assert (len(chosen.golden.ask), chosen.golden.tolerance) == (1, 0.2)
    assert with_golden(chosen, "none").golden == Golden(set="none", tolerance=0.2)
    assert with_golden(plan()) == plan()


def test_a_set_goes_by_its_name_and_what_it_asks_and_expects(tmp_path: Path) -> None:
    def name(text: str) -> str:
        return golden_name(with_golden(plan(), str(written(tmp_path, text))).golden)

    names = [name(ONE), name(ONE.replace('"1"', '"one"')), name(ONE.replace("4", "5"))]
    assert len(set(names)) == 3
    assert all(re.fullmatch(r"mine [0-9a-f]{12}", each) for each in names)
    assert name(ONE) == names[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ask = [", "is not TOML"),
        ("schema = 1", "the key 'ask' is missing"),
        ("ask = []", "ask needs at least one value"),
        (ONE.replace("expect", "expects"), "unknown key 'ask.0.expects'; did you mean 'expect'"),
        (ONE.replace('"1"', '"("'), "ask.0.expect: it is no regular expression"),
        (ONE.replace("4", "0"), "ask.0.max_tokens: input should be greater than or equal to 1"),
        (ONE + ONE, "ask: 'One?' is asked 2 times"),
        (ONE + "[golden]\n", "unknown key 'golden'"),
        ("schema = 2\n" + ONE, "schema: input should be 1"),
    ],
)
def test_what_is_wrong_with_a_set_is_said_in_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_golden(written(tmp_path, text))
    assert says in str(caught.value)
    assert str(tmp_path / "mine.toml") in str(caught.value)


def test_a_set_that_nobody_has_names_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match="golden set genral: there is no such set or file: sets are general"):
        find_golden("genral")


def test_only_the_first_cell_of_each_configuration_is_asked_the_set(tmp_path: Path) -> None:
    chosen = with_golden(
        plan(precision=["low", "high"], prompt_tokens=[8, 16], ask=[{"question": "Two?", "expect": "2"}]),
        str(written(tmp_path, ONE)),
    )
    asked = [(cell.precision, len(questions_of(cell, chosen))) for cell in cells_of(chosen)]
    assert Counter(asked) == {("low", 2): 1, ("low", 1): 3, ("high", 2): 1, ("high", 1): 3}


def test_a_cell_has_more_time_by_the_questions_of_the_set_alone(tmp_path: Path) -> None:
    chosen = with_golden(plan(ask=[{"question": "Two?", "expect": "2"}]), str(written(tmp_path, ONE)))
    first, second = cells_of(chosen)
    assert (golden_allowance_s(first, chosen), golden_allowance_s(second, chosen)) == (7.0, 0.0)
    assert golden_allowance_s(first, plan()) == 0.0
