"""The command line's options are made from the plan model, so that they cannot differ from it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from harness.plan.model import Plan, plan_options

OPTIONS = {option.flag: option for option in plan_options()}


def test_the_options_are_those_of_the_interfaces_page() -> None:
    promised = {"--backends", "--threads", "--precision", "--prompt-tokens", "--generate-tokens", "--repeats"}
    assert promised <= set(OPTIONS)
    assert {option.field for option in OPTIONS.values()} <= set(Plan.model_fields)


@pytest.mark.parametrize(
    ("flag", "text", "value"),
    [
        ("--threads", "4", [4]),
        ("--threads", "1,2, 4", [1, 2, 4]),
        ("--threads", "1,,2,", [1, 2]),
        ("--threads", "-1,+2", [-1, 2]),
        ("--threads", "two", ["two"]),
        ("--threads", "4.5", ["4.5"]),
        ("--threads", "9" * 5000, ["9" * 5000]),
        ("--threads", "", []),
        ("--backends", "cpu,opencl", ["cpu", "opencl"]),
        ("--backends", "4", ["4"]),
        ("--precision", "low", ["low"]),
        ("--repeats", "7", 7),
        ("--repeats", "seven", "seven"),
        ("--repeats", "1,2", [1, 2]),
        ("--repeats", "", []),
    ],
)
def test_an_options_text_becomes_what_the_field_takes_or_complains_about(flag: str, text: str, value: Any) -> None:
    assert OPTIONS[flag].parse(text) == value


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.flag)
def test_the_default_shown_is_taken_by_the_field_itself(option: Any) -> None:
    default = Plan.model_fields[option.field].get_default()
    shown = ",".join(map(str, default)) if isinstance(default, list) else str(default)
    if Plan.model_fields[option.field].is_required():
        return
    assert f"(plan's default: {shown})" in option.help
    assert option.parse(shown) == default


def test_help_names_the_words_that_are_allowed() -> None:
    assert "(cpu, opencl, vulkan), comma-separated" in OPTIONS["--backends"].help
    assert "(low, normal, high)" in OPTIONS["--precision"].help
    assert "comma-separated" not in OPTIONS["--repeats"].help
    assert [option.numeric for option in (OPTIONS["--threads"], OPTIONS["--backends"])] == [True, False]


def test_a_plan_cannot_be_changed_afterwards() -> None:
    plan = Plan.model_validate({"models": ["a"], "backends": ["cpu"], "threads": [1]})
    with pytest.raises(ValidationError, match="frozen"):
        plan.repeats = 3  # type: ignore[misc]
