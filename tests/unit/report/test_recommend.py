"""Which configuration is recommended: fast, proven, and as right as the best."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from harness.core.reasons import Reason
from harness.report.html import report_html
from harness.report.recommend import Candidate, Score, choices, choose
from harness.report.recommend_text import lines_of, tables_of

SET = "general 0123456789ab"


@pytest.fixture
def scored(make: ModuleType) -> Callable[..., Any]:
    """A cell of ``precision`` and speed; ``golden`` is what it scored, in the set unless `of` says otherwise."""

    def build(precision: str, tps: float, golden: str | None = None, of: str | None = SET, **over: Any) -> Any:
        record = make.record(precision=precision, tps=tps, **over)
        if record.output is None:
            return record
        known = {"golden": golden, "golden_set": of if golden else None, "golden_ci95": (0.1, 0.4) if golden else None}
        return record.model_copy(update={"output": record.output.model_copy(update=known)})

    return build


def standings(records: list[Any], tolerance: float = 0.05) -> list[tuple[str, float | None, str, str]]:
    [choice] = choices(records, tolerance)
    return [(each.precision, each.decode_tps, each.standing, each.because) for each in choice.candidates]


def test_the_faster_one_that_answers_wrongly_is_not_recommended(scored: Callable[..., Any]) -> None:
    assert standings([scored("low", 94, "12/50"), scored("high", 50, "31/50")]) == [
        ("low", 94.0, "wrong", "answers 12/50, best 31/50"),
        ("high", 50.0, "recommended", ""),
    ]


def test_the_faster_one_that_answers_as_well_is(scored: Callable[..., Any]) -> None:
    assert standings([scored("low", 94, "29/50"), scored("high", 50, "31/50")]) == [
        ("low", 94.0, "recommended", ""),
        ("high", 50.0, "slower", "its answers are as right, and it is slower"),
    ]


@pytest.mark.parametrize(("tolerance", "recommended"), [(0.02, "high"), (0.04, "low"), (1.0, "low")])
def test_the_plan_says_how_much_worse_is_still_right(
    scored: Callable[..., Any], tolerance: float, recommended: str
) -> None:
    found = standings([scored("low", 94, "29/50"), scored("high", 50, "31/50")], tolerance)
    assert [precision for precision, _, standing, _ in found if standing == "recommended"] == [recommended]


def test_the_score_of_one_cell_counts_for_all_of_its_configuration(scored: Callable[..., Any]) -> None:
    records = [
        scored("low", 40, "12/50", threads=1), scored("low", 94, "1/1", of=None, threads=4),
        scored("high", 30, "31/50", threads=1), scored("high", 50, "1/1", of=None, threads=4),
    ]  # fmt: skip
    [choice] = choices(records)
    assert [(each.threads, each.decode_tps, str(each.score)) for each in choice.candidates] == [
        (4, 94.0, "12/50"),
        (4, 50.0, "31/50"),
    ]


def test_speeds_are_compared_at_the_lengths_that_most_cells_share(scored: Callable[..., Any]) -> None:
    short = {"config": {"prompt_tokens": 8}}
    records = [
        scored("low", 99, "40/50", **short),
        scored("low", 60, threads=2),
        scored("high", 70, "40/50", threads=2),
    ]
    [choice] = choices(records)
    assert choice.shape == "burst, 64 → 32 tokens"
    assert choice.recommended is not None
    assert (choice.recommended.precision, choice.recommended.decode_tps) == ("high", 70.0)


def test_without_any_score_nothing_is_recommended_and_the_reason_is_given(scored: Callable[..., Any]) -> None:
    [choice] = choices([scored("low", 94), scored("high", 50)])
    assert choice.recommended is None
    assert choice.because.startswith("no question was asked, and the fastest may be the one that answers")
    assert {each.standing for each in choice.candidates} == {"unscored"}


def test_the_plans_own_questions_count_where_there_is_no_set(scored: Callable[..., Any]) -> None:
    records = [scored("low", 94, "0/1", of=None), scored("high", 50, "1/1", of=None)]
    assert [standing for _, _, standing, _ in standings(records)] == ["wrong", "recommended"]
    [choice] = choices(records)
    assert choice.candidates[0].score == Score(0, 1, (0.1, 0.4), "the plan's questions")


def test_where_a_set_was_asked_one_that_was_not_asked_it_is_not_recommended(scored: Callable[..., Any]) -> None:
    records = [scored("low", 94, "1/1", of=None), scored("high", 50, "31/50")]
    assert [standing for _, _, standing, _ in standings(records)] == ["unscored", "recommended"]


def test_a_model_that_knows_nothing_is_recommended_in_no_configuration(scored: Callable[..., Any]) -> None:
    [choice] = choices([scored("low", 94, "0/50"), scored("high", 50, "0/50")])
    assert (choice.recommended, choice.because) == (None, "no configuration answered any question right")


def test_a_noisy_cell_scores_and_its_speed_is_not_proven(scored: Callable[..., Any]) -> None:
    records = [scored("low", 94, "12/50"), scored("high", 50, "31/50", reason=Reason.NOISY)]
    assert standings(records) == [
        ("low", 94.0, "wrong", "answers 12/50, best 31/50"),
        ("high", None, "unproven", "none of its cells is ok: noisy"),
    ]
    [choice] = choices(records)
    assert choice.because == "none with a proven speed answers as well as the best (31/50)"


def test_what_the_product_did_wrong_neither_scores_nor_counts(scored: Callable[..., Any]) -> None:
    records = [scored("low", 94, "12/50"), scored("high", 50, "31/50", reason=Reason.OUTPUT_WRONG)]
    assert [found[2:] for found in standings(records)] == [
        ("recommended", ""),
        ("unproven", "none of its cells is ok: output_wrong"),
    ]


def test_what_cannot_run_is_no_candidate(make: ModuleType) -> None:
    assert choices([make.record(backend="vulkan", reason=Reason.BACKEND_MISSING_ON_PHONE)]) == []
    assert choices([]) == []


def test_engine_keys_and_binaries_make_another_configuration(scored: Callable[..., Any]) -> None:
    keyed = {"config": {"engine": {"attention_mode": 10}}}
    [choice] = choices([scored("low", 94, "12/50", **keyed), scored("low", 50, "31/50")])
    assert [each.engine for each in choice.candidates] == ["attention_mode = 10", ""]


def test_it_is_usable_without_a_frame() -> None:
    def one(tps: float | None, right: int) -> Candidate:
        return Candidate("cpu", "low", "low", "", "b", "c", 4, None, tps, 9.0, Score(right, 10, None, "x"))

    judged, because = choose([one(5.0, 9), one(9.0, 9), one(20.0, 2)])
    assert ([each.standing for each in judged], because) == (["wrong", "recommended", "slower"], "")
    assert choose([one(None, 9)])[1] == "no configuration has a proven speed"


def test_the_end_of_a_run_says_what_to_use_and_what_not(scored: Callable[..., Any]) -> None:
    found = choices([scored("low", 94, "12/50", threads=4), scored("high", 50, "31/50", threads=2)])
    assert lines_of(found) == [
        "recommended on atlas, tiny-llama: CPU high / low, 2 threads: 50.0 tok/s decode, 31/50 answers right",
        "  faster, not recommended: CPU low / low, 4 threads: 94.0 tok/s decode, answers 12/50, best 31/50",
    ]
    assert lines_of(choices([scored("low", 94)]))[0].startswith(
        "nothing recommended on atlas, tiny-llama: no question was asked"
    )
    many = [scored("low", 9, "1/2", name=f"phone-{n}") for n in range(15)]
    assert lines_of(choices(many))[-1] == "3 more recommendations in the report"


def test_the_page_shows_speed_and_score_side_by_side(scored: Callable[..., Any], make: ModuleType, parse: Any) -> None:
    records = [scored("low", 94, "12/50"), scored("high", 50, "31/50")]
    section = parse(report_html(make.info(), records)).one("section", id="recommended")
    rows = [[part.text for part in row.children if not isinstance(part, str)] for row in section.all("tr")[1:]]
    low, high = rows
    assert (low[0], low[1], low[3]) == ("CPU low / low, 1 thread", "94.0", "12/50 (10.0 % to 40.0 %)")
    assert low[5] == "not recommended answers 12/50, best 31/50"
    assert (high[1], high[5]) == ("50.0", "recommended")
    assert "lower than the best one's by more than 5 %" in section.text
    other = make.info(plan={"golden": {"tolerance": 0.5}})
    assert "by more than 50 %" in parse(report_html(other, records)).one("section", id="recommended").text


def test_the_page_says_why_nothing_is_recommended(scored: Callable[..., Any], make: ModuleType, parse: Any) -> None:
    section = parse(report_html(make.info(), [scored("low", 94)])).one("section", id="recommended")
    assert section.one("p", cls="banner").text.startswith("Nothing is recommended: no question was asked")
    [table] = tables_of(choices([scored("low", 94)]), {"id-of-atlas": "atlas"})
    assert (table.rows[0].score, table.rows[0].questions) == ("—", "none")
