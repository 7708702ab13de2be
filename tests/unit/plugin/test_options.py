from __future__ import annotations

from harness.plan.model import plan_options
from harness.plugin.options import join_values


def test_values_of_our_options_are_joined_so_that_pytest_takes_none_for_a_path() -> None:
    args = [
        "-q",
        "--devices",
        "virtual:2",
        "--model",
        "/models/a",
        "--model=/models/b",
        "tests/mine",
        "--threads",
        "1,2",
    ]
    assert join_values(args) == [
        "-q",
        "--devices=virtual:2",
        "--model=/models/a",
        "--model=/models/b",
        "tests/mine",
        "--threads=1,2",
    ]


def test_an_option_at_the_end_without_its_value_is_left_for_pytest_to_refuse() -> None:
    assert join_values(["--devices"]) == ["--devices"]


def test_switches_and_options_of_others_are_left_alone() -> None:
    args = ["--dry-run-plan", "-n", "0", "-k", "--devices", "all"]
    assert join_values(args) == ["--dry-run-plan", "-n", "0", "-k", "--devices=all"]


def test_every_plan_field_that_may_be_overridden_has_an_option_with_its_help() -> None:
    made = {option.flag: option for option in plan_options()}
    assert list(made) == [
        "--backends",
        "--threads",
        "--precision",
        "--memory",
        "--prompt-tokens",
        "--generate-tokens",
        "--warmups",
        "--repeats",
    ]
    assert made["--backends"].help.startswith("override the plan's backends: what computes (cpu, opencl, vulkan)")
    assert made["--threads"].parse("1, 2,x") == [1, 2, "x"]
    assert made["--repeats"].parse("7") == 7
