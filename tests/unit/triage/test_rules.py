"""The rules: each finds its own examples first, leaves its counter-examples alone, and is safe on any line."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path

import pytest
import typer

from harness.cli import app
from harness.commands.triage_judge import judged_entries
from harness.core.errors import ConfigError
from harness.triage.finding import Finding
from harness.triage.rule import Rule, read_rules, shipped_rules
from harness.triage.triage import Source, triage

DOC = Path(__file__).parents[3] / "docs" / "triage.md"
RULES = shipped_rules()
# What the public cases are about; each kind is known by more than one text.
KINDS = [
    "backend_fallback",
    "gpu_driver_compiler_abort",
    "opencl_cache_ineffective",
    "cold_cache_info",
    "build_missing_transformer_fuse",
    "model_engine_version_mismatch",
    "config_use_mmap",
    "missing_shared_library",
    "sigill_isa",
    "benchmark_invalid_result",
    "output_degenerate",
    "opencl_runtime_error",
    "out_of_memory",
    "thread_oversubscription",
    "opencl_library_blocked",
    "thermal_throttling",
    "adb_offline",
    "adb_unauthorized",
    "adb_version_conflict",
    "push_failed_no_space",
    "push_failed_bad_destination",
    "exit_code_lost",
    "worker_crash",
]
ONE = """
[[rule]]
id = "one"
code = "one"
severity = "error"
fault = "infra"
title = "a {thing}"
cause = "c"
advice = ["a"]
source = ["s"]
positive = ["a thing is broken"]
any = [{ regex = '(?P<thing>thing) is broken', needles = ["thing is"] }]
"""


def found(text: str) -> tuple[Finding, ...]:
    return triage([Source.of_text("example", text)], judges=(judged_entries,))


def ids(rule: Rule) -> str:
    return rule.id


@pytest.mark.parametrize("rule", RULES, ids=ids)
def test_each_example_gives_its_rule_as_the_first_finding_and_no_counter_example_gives_it(rule: Rule) -> None:
    for text in rule.positive:
        told = found(text)
        assert [finding.rule for finding in told[:1]] == [rule.id], text
        assert told[0].evidence
        assert not re.search(r"\{\w+\}", told[0].title + told[0].cause + "".join(told[0].advice))
    for text in rule.negative:
        assert rule.id not in [finding.rule for finding in found(text)], text


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_the_public_cases_is_known_by_two_further_texts(kind: str) -> None:
    assert sum(len(rule.positive) for rule in RULES if rule.code == kind) >= 2


def test_every_needle_of_a_pattern_can_stand_in_a_line_that_it_matches() -> None:
    """A needle that no example holds is not wrong, but a pattern whose needles are all absent from its match is."""
    for rule in RULES:
        for pattern in (*rule.any, *rule.all):
            regex = re.compile(pattern.regex)
            for line in (line for text in rule.positive for line in text.splitlines()):
                match = regex.search(line)
                if match is not None:
                    assert any(needle in line for needle in pattern.needles), (rule.id, line)


HOSTILE = ("a" * 2000, " " * 2000, "x: " * 660, "'" * 2000, '"a' * 1000, "(" * 2000, "0x0 " * 500, "-1 error: " * 200)


def test_no_pattern_takes_long_on_a_hostile_line() -> None:
    slow: Counter[str] = Counter()
    for rule in RULES:
        for pattern in (*rule.any, *rule.all, *rule.none):
            regex = re.compile(pattern.regex)
            for hostile in HOSTILE:
                begin = time.thread_time()
                regex.search((pattern.needles[0] + hostile)[:2000])
                slow[rule.id] = max(slow[rule.id], int(1000 * (time.thread_time() - begin)))
    assert [name for name, took_ms in slow.items() if took_ms > 500] == []


def test_the_documentation_lists_every_code_with_its_severities_and_no_other() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]+) \| (\w+(?:, \w+)*) \|", DOC.read_text(encoding="utf-8"), re.MULTILINE)
    told = {code: (severities, faults) for code, severities, faults in rows}
    codes: dict[str, tuple[str, str]] = {}
    for code in sorted({rule.code for rule in RULES}):
        same = [rule for rule in RULES if rule.code == code]
        order = [one for one in ("error", "warning", "info") if any(rule.severity == one for rule in same)]
        codes[code] = (", ".join(order), ", ".join(sorted({rule.fault.value for rule in same})))
    assert told == codes


def test_rules_of_ones_own_are_read_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(ONE, encoding="utf-8")
    rules = read_rules(tmp_path)
    (finding,) = triage([Source.of_text("x", "so: a thing is broken\n")], rules)
    assert (finding.code, finding.title, finding.evidence[0].line) == ("one", "a thing", 1)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("broken'", "broken('", "is no regular expression"),
        ("is broken'", "is .*broken'", "has open wild cards"),
        ('"thing is"', '"thi"', "too short a needle"),
        ("{thing}", "{thong}", "uses ['thong'], which no pattern catches"),
        ('code = "one"', 'code = "one"\nsuppresses = ["two"]', "one names two, which is no rule"),
        ('severity = "error"', 'severity = "bad"', "rule.0.severity"),
        ("positive", "negative", "rule.0.positive"),
        ("[[rule]]", "[[rule", "is not TOML"),
        ("any = [", "other = [", "rule.0.other"),
    ],
)
def test_a_rule_that_is_not_whole_is_refused_in_one_sentence(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in ONE
    (tmp_path / "a.toml").write_text(ONE.replace(old, new), encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        read_rules(tmp_path)
    assert says in str(error.value)


def test_two_rules_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(ONE + ONE, encoding="utf-8")
    with pytest.raises(ConfigError, match="one is there twice"):
        read_rules(tmp_path)


def test_every_command_of_ours_that_an_advice_names_is_there() -> None:
    known = set(vars(typer.main.get_command(app))["commands"])
    texts = [text for rule in RULES for text in (rule.title, rule.cause, *rule.advice)]
    named = {match[1] for text in texts for match in re.finditer(r"`mnn-farm ([a-z]+)", text)}
    assert {"bins", "clean", "devices", "doctor", "models"} <= named <= known
