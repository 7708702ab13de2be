"""A cell's text held against its reference: what is rejected, what is noted, what the record says."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from harness.bench.match import Expected, Reference
from harness.bench.said import output_of
from harness.bench.text_rules import output_matches_reference, text_findings
from harness.bench.validity import judge
from harness.core.reasons import Reason

TIMED = tuple(range(100, 132))
ANSWER = tuple(range(100, 104))
SET = [{"question": f"Number {n}?", "expect": f"^{n}$", "max_tokens": 8} for n in range(20)]


def expected(ids: tuple[int, ...], text: str = "as it should be", **over: Any) -> Expected:
    return Expected(token_ids=ids, text=text, finish="length", **over)


def reference(timed: Expected | None = None, *answers: Expected) -> Reference:
    return Reference(
        engine_version="3.6.1", timed=timed or expected(TIMED), answers=answers or (expected(ANSWER, "Lima."),)
    )


def cell(make: ModuleType, wanted: Reference | None = None, **plan: Any) -> Any:
    bend = plan.pop("bend", None)
    chosen = make.plan(**{"reference": {"policy": "prefix"}, **plan})
    return replace(
        make.evidence(the_plan=chosen, bend=bend, wall_ms=8000, told_ms=5000), reference=wanted or reference()
    )


def output(evidence: Any) -> tuple[Any, dict[str, str]]:
    nulls: dict[str, str] = {}
    return output_of(evidence, evidence.plan, nulls), nulls


def test_the_same_text_is_ok_and_the_record_says_by_which_policy(make: ModuleType) -> None:
    evidence = cell(make)
    assert judge(evidence) == []
    found, nulls = output(evidence)
    assert (found.reference, found.match, found.matched_tokens) == ("host", "prefix", 32)
    assert not nulls.keys() & {"reference", "match", "matched_tokens"}


def test_another_text_is_wrong_and_the_detail_says_where_and_what(make: ModuleType) -> None:
    evidence = cell(make, reference(expected((*TIMED[:3], 7, *TIMED[4:]), "a right text")))
    [objection] = judge(evidence)
    assert objection.reason is Reason.OUTPUT_WRONG
    assert objection.detail.startswith(
        "generation 1 (timed) differs from the reference: token 4 is 103 instead of 7; it says "
    )
    assert "the reference 'a right text'; so do 1 more texts" in objection.detail
    assert "[100, 101, 102, 7, 104" in objection.evidence
    found, _ = output(evidence)
    assert (found.match, found.matched_tokens) == ("differs", 3)


def test_each_repeat_counts_and_the_worst_decides(make: ModuleType) -> None:
    def bend(told: list[dict[str, Any]]) -> None:
        told[4]["token_ids"] = [*TIMED[:5], 9, *TIMED[6:]]

    evidence = cell(make, bend=bend)
    [objection] = output_matches_reference(evidence)
    assert "generation 2 (timed) differs" in objection.detail
    assert output(evidence)[0].matched_tokens == 5
    assert [finding.code for finding in text_findings(evidence)] == ["not_deterministic"]


def test_a_wrong_answer_counts_as_much_as_a_wrong_timed_text(make: ModuleType) -> None:
    evidence = cell(make, reference(None, expected((100, 5, 6), "Quito.")))
    [objection] = output_matches_reference(evidence)
    assert objection.detail.startswith("generation 3 (answer) differs")
    found, _ = output(evidence)
    assert (found.match, found.matched_tokens) == ("differs", 32)


@pytest.mark.parametrize(
    ("over", "match", "codes"),
    [
        ({"policy": "prefix"}, "prefix", []),
        ({"policy": "prefix", "prefix_tokens": 21}, "differs", ["output_wrong"]),
        ({"policy": "exact"}, "differs", ["output_wrong"]),
        ({"policy": "first"}, "first", []),
        ({"policy": "off"}, None, []),
        ({"policy": "exact", "rules": [{"backend": "cpu", "precision": "low", "policy": "first"}]}, "first", []),
    ],
)
def test_the_plan_says_how_much_has_to_be_the_same(
    make: ModuleType, over: dict[str, Any], match: str | None, codes: list[str]
) -> None:
    evidence = cell(make, reference(expected((*TIMED[:20], 7))), reference=over)
    assert [objection.reason.code for objection in output_matches_reference(evidence)] == codes
    assert output(evidence)[0].match == match


def test_a_near_tie_is_no_wrong_text_and_is_told(make: ModuleType) -> None:
    margins = ((), (), ((102, 0.2),))
    evidence = cell(make, reference(expected((*TIMED[:2], 7, 8), margins=margins)))
    assert judge(evidence) == []
    found, _ = output(evidence)
    assert (found.match, found.matched_tokens) == ("near_tie", 2)
    [finding] = text_findings(evidence)
    assert (finding.code, finding.severity) == ("near_tie", "info")
    assert "token 3 is 102 instead of 7" in finding.title


def test_two_engine_versions_are_named_where_they_differ(make: ModuleType) -> None:
    wanted = reference(expected((1, 2))).model_copy(update={"engine_version": "3.7.0"})
    [objection] = output_matches_reference(cell(make, wanted))
    assert "(engine 3.6.1 on the phone, 3.7.0 here)" in objection.detail


@pytest.mark.parametrize(
    ("bend", "why"),
    [
        ({"reference": None, "reference_why": "no MNN here"}, "no MNN here"),
        ({"no_ids": True}, "the runner told no token ids of a prompt that is the same"),
    ],
)
def test_where_nothing_can_be_compared_the_record_says_why(make: ModuleType, bend: dict[str, Any], why: str) -> None:
    def strip(told: list[dict[str, Any]]) -> None:
        for event in told[2:-1]:
            event["token_ids"] = []

    evidence = cell(make, bend=strip if bend.pop("no_ids", False) else None)
    evidence = replace(evidence, **bend)
    assert list(output_matches_reference(evidence)) == []
    found, nulls = output(evidence)
    assert (found.reference, found.match, found.matched_tokens) == (None, None, None)
    assert {nulls["reference"], nulls["match"], nulls["matched_tokens"]} == {why}


def with_set(make: ModuleType, differing: int, right: int) -> Any:
    """A cell that was asked the golden set: so many of its answers differ from the reference, so many are right."""

    def bend(told: list[dict[str, Any]]) -> None:
        texts = [str(n) if n < right else "no idea" for n in range(20)]
        told[-1:-1] = [
            make.generation(4 + n, "answer", tokens=4, question=f"Number {n}?", text=text, finish="eos")
            for n, text in enumerate(texts)
        ]

    answers = [expected(ANSWER if n >= differing else (1, 2)) for n in range(20)]
    golden = {"set": "mine", "ask": SET}
    return cell(make, reference(None, expected(ANSWER), *answers), golden=golden, bend=bend)


def test_a_few_answers_of_a_golden_set_may_differ_and_many_may_not(make: ModuleType) -> None:
    few, many = with_set(make, differing=2, right=20), with_set(make, differing=3, right=20)
    assert list(output_matches_reference(few)) == []
    assert [finding.code for finding in text_findings(few)] == ["golden_differs"]
    assert output(few)[0].match == "prefix"
    [objection] = output_matches_reference(many)
    assert "generation 4 (answer) differs from the reference" in objection.detail
    assert list(text_findings(many)) == []
    assert output(many)[0].match == "differs"


def test_a_golden_set_scores_by_itself_and_rejects_nothing(make: ModuleType) -> None:
    evidence = with_set(make, differing=0, right=13)
    assert judge(evidence) == []
    found, _ = output(evidence)
    assert (found.golden, found.golden_ci95) == ("13/20", (0.4329, 0.8188))
    assert found.golden_set.startswith("mine ")
    assert found.text == "Lima."
    assert [answer.question for answer in found.answers] == [
        "Capital of Peru?",
        *(f"Number {n}?" for n in range(13, 20)),
    ]


def test_a_cell_that_does_not_lead_its_configuration_is_not_asked_the_set(make: ModuleType) -> None:
    chosen = make.plan(golden={"set": "mine", "ask": SET})
    evidence = make.evidence(the_plan=chosen)
    evidence = replace(evidence, cell=replace(evidence.cell, leads=False))
    assert judge(evidence) == []
    found, nulls = output(evidence)
    assert (found.golden, found.golden_set) == ("1/1", None)
    assert nulls["golden_set"] == "the set is asked in the first cell of each configuration"


def test_a_set_that_was_answered_in_part_has_no_score(make: ModuleType) -> None:
    def broke_off(told: list[dict[str, Any]]) -> None:
        told[-1:-1] = [make.generation(4, "answer", tokens=4, question="Number 0?", text="0", finish="eos")]

    evidence = make.evidence(the_plan=make.plan(golden={"set": "mine", "ask": SET}), bend=broke_off)
    found, nulls = output(evidence)
    assert (found.golden, found.golden_ci95) == (None, None)
    assert nulls["golden"] == nulls["golden_ci95"] == "1 of 20 questions were answered"


def test_an_answer_to_a_prompt_of_other_tokens_is_not_compared(make: ModuleType) -> None:
    evidence = cell(make, reference(expected(TIMED, prompt_tokens=8), expected((1, 2), prompt_tokens=11)))
    assert list(output_matches_reference(evidence)) == []
    assert output(evidence)[0].match == "prefix"
    [finding] = text_findings(evidence)
    assert (finding.code, finding.severity) == ("prompt_differs", "warning")
    assert "generation 3 (answer) the phone's engine made 8 tokens, this computer's 11" in finding.title
