from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.plan.matrix import Block, arms_of, cells_of
from harness.plan.model import Plan


def cells(**over: Any) -> list[Any]:
    base = {"models": ["a"], "backends": ["cpu"], "threads": [1], "priority": []}
    return cells_of(Plan.model_validate({**base, **over}))


def test_every_combination_is_there_once() -> None:
    made = cells(
        models=["a", "b"], threads=[1, 2], precision=["low", "high"], memory=["low", "high"], prompt_tokens=[8, 16],
        generate_tokens=[4, 8], engine={"use_mmap": [True, False], "chunk": 64},
    )  # fmt: skip
    assert len(made) == 2**7
    assert len({repr(cell) for cell in made}) == len(made)
    assert {cell.engine["chunk"] for cell in made} == {64}


def test_a_gpu_runs_once_whatever_the_threads() -> None:
    made = cells(backends=["cpu", "opencl", "vulkan"], threads=[1, 2, 4])
    assert [(c.backend, c.threads) for c in made if c.backend != "cpu"] == [("opencl", 68), ("vulkan", 4)]
    assert [c.threads for c in made if c.backend == "cpu"] == [1, 2, 4]


def test_a_gpu_still_varies_with_everything_else() -> None:
    made = cells(backends=["opencl"], threads=[1, 2], precision=["low", "high"])
    assert [(c.threads, c.precision) for c in made] == [(68, "low"), (68, "high")]


def test_the_axes_of_priority_are_gone_through_before_any_other_moves() -> None:
    made = cells(models=["a", "b"], threads=[1, 2], precision=["low", "high"], priority=["precision", "threads"])
    assert [(c.model, c.threads, c.precision) for c in made] == [
        ("a", 1, "low"),
        ("a", 1, "high"),
        ("a", 2, "low"),
        ("a", 2, "high"),
        ("b", 1, "low"),
        ("b", 1, "high"),
        ("b", 2, "low"),
        ("b", 2, "high"),
    ]


def test_every_backend_has_a_figure_before_the_next_number_of_threads() -> None:
    made = cells(backends=["cpu", "opencl", "vulkan"], threads=[1, 2, 4], priority=["backends", "threads"])
    assert [c.label.removesuffix("-low-p64-g32") for c in made] == ["cpu-t1", "opencl", "vulkan", "cpu-t2", "cpu-t4"]


def test_every_model_has_a_figure_before_the_next_prompt_length() -> None:
    made = cells(models=["a", "b"], prompt_tokens=[8, 16], engine={"chunk": [1, 2]}, priority=["threads"])
    assert [(c.engine["chunk"], c.prompt_tokens, c.model) for c in made] == [
        (1, 8, "a"),
        (1, 8, "b"),
        (1, 16, "a"),
        (1, 16, "b"),
        (2, 8, "a"),
        (2, 8, "b"),
        (2, 16, "a"),
        (2, 16, "b"),
    ]


def test_an_order_changes_no_cell() -> None:
    axes: dict[str, Any] = {"models": ["a", "b"], "threads": [1, 2], "backends": ["cpu", "opencl"]}
    one, other = cells(**axes, priority=["threads"]), cells(**axes, priority=["models", "models", "backends"])
    assert sorted(map(repr, one)) == sorted(map(repr, other))


def test_an_engine_value_that_is_swept_twice_is_one_cell() -> None:
    assert len(cells(engine={"chunk": [64, 64]})) == 1


@pytest.mark.parametrize(
    ("over", "label"),
    [
        ({}, "cpu-t1-low-p64-g32"),
        ({"memory": ["high"]}, "cpu-t1-low-mhigh-p64-g32"),
        ({"backends": ["opencl"]}, "opencl-low-p64-g32"),
        ({"engine": {"use_mmap": True, "chunk": 8}}, "cpu-t1-low-p64-g32-chunk=8-use_mmap=True"),
    ],
)
def test_a_cells_label_says_what_it_is(over: dict[str, Any], label: str) -> None:
    assert [cell.label for cell in cells(**over)] == [label]


def test_cores_and_history_are_axes_of_cpu_cells_and_stand_in_the_label() -> None:
    plan = Plan.model_validate(
        {
            "models": ["toy"], "backends": ["cpu", "opencl"], "threads": [2], "affinity": ["any", "big"],
            "context_tokens": [0, 1024],
        }
    )  # fmt: skip
    assert {cell.label for cell in cells_of(plan)} == {
        "cpu-t2-low-p64-g32", "cpu-t2-abig-low-p64-g32", "opencl-low-p64-g32",
        "cpu-t2-low-c1024-p64-g32", "cpu-t2-abig-low-c1024-p64-g32", "opencl-low-c1024-p64-g32",
    }  # fmt: skip


def test_the_first_cell_of_each_configuration_leads() -> None:
    found = cells(backends=["cpu", "opencl"], threads=[1, 2], precision=["low", "high"])
    leading = [(cell.backend, cell.precision, cell.threads) for cell in found if cell.leads]
    assert leading == [("cpu", "low", 1), ("opencl", "low", 68), ("cpu", "high", 1), ("opencl", "high", 68)]


def test_two_builds_take_turns_so_that_what_drifts_weighs_on_both_alike() -> None:
    assert "".join(arms_of(1)) == "ABBA"
    assert "".join(arms_of(2)) == "ABBABAAB"
    for rounds in (1, 2, 3, 8):
        signs = [1 if arm == "A" else -1 for arm in arms_of(rounds)]
        assert sum(signs) == 0
        assert sum(sign * turn for turn, sign in enumerate(signs)) == 0
    assert sum(sign * turn**2 for turn, sign in enumerate(1 if arm == "A" else -1 for arm in arms_of(2))) == 0


def test_a_turn_is_named_for_people() -> None:
    cell = replace(cells()[0], block=Block("p", "B", 1, 8))
    assert cell.label.endswith(" [B 2/8]")
