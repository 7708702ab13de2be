"""Patterns put together: any, all, near each other, none, so many, and what needs another finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.triage.rule import Rule, read_rules
from harness.triage.triage import Source, triage

HEAD = """
[[rule]]
id = "{id}"
code = "xyz"
severity = "error"
fault = "infra"
title = "t"
cause = "c"
advice = ["a"]
source = ["s"]
positive = ["p"]
"""


def pattern(kind: str, word: str, more: str = "") -> str:
    return f"[[rule.{kind}]]\nregex = '{word}'\nneedles = ['{word}']\n{more}\n"


def made(tmp_path: Path, *texts: str) -> tuple[Rule, ...]:
    (tmp_path / "rules.toml").write_text("".join(texts), encoding="utf-8")
    return read_rules(tmp_path)


def found(rules: tuple[Rule, ...], *texts: str) -> list[str]:
    return [one.rule for one in triage([Source.of_text(f"f{n}", text) for n, text in enumerate(texts)], rules)]


@pytest.mark.parametrize(
    ("parts", "texts", "matches"),
    [
        (pattern("any", "alpha") + pattern("any", "beta1"), ["beta1"], True),
        (pattern("all", "alpha") + pattern("all", "beta1"), ["beta1"], False),
        (pattern("all", "alpha") + pattern("all", "beta1"), ["beta1\nalpha"], True),
        (pattern("all", "alpha") + pattern("all", "beta1"), ["beta1", "alpha"], True),
        (pattern("any", "alpha") + pattern("none", "beta1"), ["alpha\nbeta1"], False),
        (pattern("any", "alpha") + pattern("none", "beta1"), ["alpha"], True),
        (pattern("any", "alpha", "count = 3"), ["alpha\nalpha"], False),
        (pattern("any", "alpha", "count = 3"), ["alpha\nalpha", "alpha"], True),
        (pattern("any", "alpha", 'kinds = ["logcat"]'), ["alpha"], False),
        (pattern("any", "alpha", 'kinds = ["note"]'), ["# alpha"], True),
        (pattern("any", "alpha", 'tags = ["MNNJNI"]'), ["I/MNNJNI: alpha"], True),
        (pattern("any", "alpha", 'tags = ["MNNJNI"]'), ["I/libc: alpha"], False),
    ],
)
def test_patterns_are_put_together(tmp_path: Path, parts: str, texts: list[str], matches: bool) -> None:
    assert found(made(tmp_path, HEAD.format(id="one"), parts), *texts) == (["one"] if matches else [])


@pytest.mark.parametrize(
    ("texts", "matches"),
    [
        (["alpha\nx\nbeta1"], True),
        (["beta1\nx\nalpha"], True),
        (["alpha\nx\nx\nbeta1"], False),
        (["alpha\nx\nx\nx\nalpha\nbeta1"], True),
        (["alpha", "beta1"], False),
    ],
)
def test_lines_near_each_other_stand_in_one_text(tmp_path: Path, texts: list[str], matches: bool) -> None:
    parts = HEAD.format(id="one") + "within = 2\n" + pattern("all", "alpha") + pattern("all", "beta1")
    assert found(made(tmp_path, parts), *texts) == (["one"] if matches else [])


def test_a_rule_that_needs_another_finding_has_its_evidence_too(tmp_path: Path) -> None:
    rules = made(
        tmp_path,
        HEAD.format(id="one") + pattern("any", "alpha"),
        HEAD.format(id="two") + 'needs = ["one"]\nsuppresses = ["one"]\n' + pattern("any", "beta1"),
    )
    assert found(rules, "beta1") == []
    (finding,) = triage([Source.of_text("f", "alpha\nbeta1")], rules)
    assert (finding.rule, [one.line for one in finding.evidence]) == ("two", [2, 1])


def test_what_is_told_alone_is_left_out_beside_an_error(tmp_path: Path) -> None:
    rules = made(
        tmp_path,
        HEAD.format(id="one") + pattern("any", "alpha"),
        HEAD.format(id="two") + "alone = true\n" + pattern("any", "beta1"),
    )
    assert found(rules, "alpha\nbeta1") == ["one"]
    assert found(rules, "beta1") == ["two"]


def test_two_rules_that_explain_each_other_leave_the_stronger_one(tmp_path: Path) -> None:
    rules = made(
        tmp_path,
        HEAD.format(id="one") + 'suppresses = ["two"]\n' + pattern("any", "alpha"),
        HEAD.format(id="two") + 'weight = 1\nsuppresses = ["one"]\n' + pattern("any", "beta1"),
    )
    assert found(rules, "alpha\nbeta1") == ["two"]
