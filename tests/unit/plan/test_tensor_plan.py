"""Plans of kind tensor: what they may say, and the cells they mean."""

from __future__ import annotations

from typing import Any

import pytest

from harness.core.errors import ConfigError
from harness.core.ids import test_name as name_of
from harness.plan.golden import with_golden
from harness.plan.load import find_plan, load_plan, make_plan
from harness.plan.matrix import cells_of
from harness.plan.model import Plan

BASE: dict[str, Any] = {"kind": "tensor", "models": ["net"], "backends": ["cpu"], "threads": [2]}


def plan(**over: Any) -> Plan:
    return make_plan({**BASE, **over}, "here")


@pytest.mark.parametrize(
    ("over", "says"),
    [
        ({"prompt_tokens": [64]}, "here: prompt_tokens means nothing in a plan of kind tensor: leave it out"),
        ({"generate_tokens": [8]}, "here: generate_tokens means nothing"),
        ({"context_tokens": [0]}, "here: context_tokens means nothing"),
        ({"ask": [{"question": "Q", "expect": "A"}]}, "here: ask means nothing"),
        ({"golden": {"set": "general"}}, "here: golden means nothing"),
        ({"reference": {"policy": "off"}}, "here: reference means nothing"),
        ({"engine": {"use_mmap": True}}, "here: engine means nothing"),
        ({"load_rounds": 2}, "here: load_rounds means nothing"),
        ({"repeats_max": 9, "cv_limit": 0.1}, "here: repeats_max means nothing"),
        ({"memory": ["low", "high"]}, "here: a plan of kind tensor has one value of memory"),
        ({"runner": "llm_bench"}, "here: llm_bench runs language models only: a plan of kind tensor takes farm_runner"),
        ({"kind": "burst", "tensor": {"seed": 1}}, "here: the table tensor belongs to a plan of kind tensor, and this"),
        ({"tensor": {"tolerance": 0.0}}, "here: tensor.tolerance: input should be greater than 0"),
    ],
)
def test_what_means_nothing_to_a_tensor_is_refused_in_one_sentence(over: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(**over)
    assert str(caught.value).startswith(says)


def test_a_plan_is_read_again_from_what_a_runs_head_holds() -> None:
    for name in ("tensor-quick", "quick", "soak"):
        whole = with_golden(load_plan(find_plan(name)))
        assert make_plan(whole.model_dump(mode="json", by_alias=True), "run.json") == whole


def test_the_head_of_a_run_of_language_models_says_nothing_of_tensors() -> None:
    assert "tensor" not in load_plan(find_plan("quick")).model_dump(mode="json", by_alias=True)


def test_cells_have_no_lengths_and_a_gpu_runs_once() -> None:
    made = cells_of(plan(backends=["cpu", "opencl"], threads=[1, 2], precision=["high", "low"]))
    assert len(made) == 2 * 2 + 2
    assert all(cell.tensor for cell in made)
    assert {(cell.prompt_tokens, cell.generate_tokens, cell.context_tokens) for cell in made} == {(0, 0, 0)}
    assert sorted(cell.label for cell in made) == [
        "cpu-t1-high-mlow", "cpu-t1-low", "cpu-t2-high-mlow", "cpu-t2-low", "opencl-high-mlow", "opencl-low",
    ]  # fmt: skip


def test_a_language_models_cells_keep_their_lengths() -> None:
    [cell] = cells_of(Plan.model_validate({**BASE, "kind": "burst"}))
    assert (cell.tensor, cell.label) == (False, "cpu-t2-low-p64-g32")


def test_a_tensor_cells_test_has_no_lengths_in_its_name() -> None:
    assert name_of("phone", "net", "cpu", 2, "low", 0, 0, "abcdef123") == "phone-net-cpu-t2-low-abcdef"
    assert name_of("phone", "net", "cpu", 2, "low", 8, 4, "abcdef123") == "phone-net-cpu-t2-low-p8-g4-abcdef"


def test_questions_are_not_for_tensors() -> None:
    assert with_golden(plan(), "none") == plan()
    with pytest.raises(ConfigError, match="--golden general: a plan of kind tensor asks no questions"):
        with_golden(plan(), "general")
