from __future__ import annotations

from datetime import date
from types import ModuleType
from typing import Any

import pytest

from harness.core.reasons import Outcome, Reason
from harness.plan.known import Known
from harness.report.advice import ADVICE, LOST_ADVICE, SLOWER_ADVICE, WHOSE_SHORT
from harness.report.news import news_of
from harness.report.news_file import NewsFile, Told, read_news, told, write_news
from harness.report.news_words import groups_of, issue_lines, outcome_of_told, qa_headline, qa_lines
from harness.store.schema import CellRecord, Finding

TODAY = date(2026, 3, 5)
RUN = "20260304-010203-ab12"


def known(**over: Any) -> Known:
    return Known.model_validate({"ticket": "T-1", "expires": TODAY, "note": "it crashes", "reason": "crash", **over})


def news(
    records: list[CellRecord], before: list[CellRecord] | None = None, issues: tuple[Known, ...] = (), **over: Any
) -> NewsFile:
    against = RUN if before is not None else None
    return told(news_of(records, before, issues, TODAY), against=against, **over)


def said(records: list[CellRecord], *args: Any, **over: Any) -> tuple[str, str]:
    line = qa_headline(news(records, *args, **over), records)
    return line.colour, line.text


def test_all_ok_is_green(make: ModuleType) -> None:
    cells = [make.record(), make.record(threads=2)]
    assert said(cells) == ("green", "GREEN: 2 of 2 cells ok")
    assert said(cells, cells) == ("green", f"GREEN: 2 of 2 cells ok · against run {RUN}")


def test_green_says_what_was_fixed_and_what_is_gone(make: ModuleType) -> None:
    before = [make.record(reason=Reason.CRASH), make.record("birch")]
    assert said([make.record()], before) == ("green", f"GREEN: 1 of 1 cell ok, 1 FIXED, 1 GONE · against run {RUN}")


def test_what_was_ok_and_was_not_run_is_not_plainly_green(make: ModuleType) -> None:
    cells = [make.record(), make.record(threads=2, reason=Reason.LOW_BATTERY)]
    before = [make.record(), make.record(threads=2)]
    assert said(cells, before, unfinished=1) == (
        "yellow",
        f"GREEN so far: 1 of 2 cells ok, 1 that was ok not run now, 1 not finished · against run {RUN}",
    )


def test_red_names_the_product_first_and_counts_new_and_still(make: ModuleType) -> None:
    cells = [
        make.record(threads=1, reason=Reason.DEVICE_LOST),
        make.record(threads=2, reason=Reason.CRASH),
        make.record(threads=4, reason=Reason.HANG),
        make.record(threads=8, reason=Reason.HANG),
    ]
    before = [make.record(threads=4, reason=Reason.HANG), make.record(threads=2), make.record(threads=1)]
    assert said(cells, before, (known(),)) == (
        "red",
        f"RED, at fault: the product (1 NEW, 1 STILL), the lab (1 NEW); 1 known (T-1) · against run {RUN}",
    )


def test_without_a_run_to_compare_with_nothing_is_called_new(make: ModuleType) -> None:
    cells = [make.record(reason=Reason.CRASH), make.record(threads=2)]
    assert said(cells) == ("red", "RED, at fault: the product (1 failed)")
    assert qa_lines(news(cells), cells)[0] == "  FAILED the product: CPU crash, 1 cell on 1 phone (atlas)"


def test_the_lab_alone_clears_the_product(make: ModuleType) -> None:
    assert said([make.record(reason=Reason.NOISY)]) == (
        "red",
        "RED, at fault: the lab (1 failed); the product is not accused",
    )


def test_all_known_is_said_so_and_stays_red(make: ModuleType) -> None:
    cells = [make.record(threads=n, reason=Reason.CRASH) for n in (1, 2, 4)]
    assert said(cells, None, (known(),)) == ("red", "RED: 3 failed, all known (T-1)")


def test_many_tickets_are_cut(make: ModuleType) -> None:
    cells = [make.record(f"p{n}", reason=Reason.CRASH) for n in range(5)]
    issues = tuple(known(ticket=f"T-{n}", phone=f"p{n}") for n in range(5))
    assert said(cells, None, issues)[1] == "RED: 5 failed, all known (T-0, T-1, T-2 and 2 more)"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (1, "RED: a tier's SLO is missed, or a test failed that no record explains (see above)"),
        (2, "RED: the run was cut short"),
        (3, "RED: pytest ended with exit status 3 (see above)"),
        (5, "RED: no test was collected"),
        (10, "RED: the lab or this computer ended it (see above)"),
    ],
)
def test_an_exit_status_that_no_record_explains_is_red_too(make: ModuleType, status: int, text: str) -> None:
    assert said([make.record()], status=status) == ("red", text)


def test_nothing_ok_is_no_green(make: ModuleType) -> None:
    assert said([]) == ("yellow", "NOTHING PROVEN: no cell was run")
    unbuilt = [make.record(reason=Reason.BACKEND_NOT_BUILT)]
    assert said(unbuilt) == ("yellow", "NOTHING PROVEN: 0 of 1 cell ok")


def test_a_group_has_one_line_of_what_and_where_and_one_of_what_to_do(make: ModuleType) -> None:
    names = ("atlas", "birch", "cedar", "doe")
    cells = [make.record(name, backend="opencl", reason=Reason.OUTPUT_WRONG) for name in names]
    before = [make.record(name, backend="opencl") for name in names]
    assert qa_lines(news(cells, before), cells) == [
        "  NEW    the product: OpenCL output_wrong, 4 cells on 4 phones (atlas, birch, cedar and 1 more); was ok",
        "         do: Compare the text with the reference below; try precision high, then 8-bit weights",
    ]
    [group] = groups_of(news(cells, before), cells)
    assert group.do == ADVICE[Reason.OUTPUT_WRONG]


def test_the_worst_comes_first(make: ModuleType) -> None:
    cells = [
        make.record(threads=1, reason=Reason.DEVICE_LOST),
        make.record(threads=2, reason=Reason.HANG),
        make.record(threads=4, reason=Reason.CRASH),
        make.record(threads=8, reason=Reason.BAD_PLAN),
        make.record("birch", threads=8, reason=Reason.SILENT_EXIT),
        make.record("birch", threads=4, reason=Reason.LOW_BATTERY),
        make.record("birch", threads=1),
    ]
    before = [
        make.record(threads=2, reason=Reason.HANG),
        make.record("birch", threads=4),
        make.record("birch", threads=1, reason=Reason.NOISY),
        make.record("cedar"),
    ]
    assert [(g.state, g.reason) for g in groups_of(news(cells, before, (known(),)), cells)] == [
        ("new", "silent_exit"),
        ("new", "bad_plan"),
        ("new", "device_lost"),
        ("new", "low_battery"),
        ("still", "hang"),
        ("known", "crash"),
        ("fixed", ""),
        ("gone", ""),
    ]


def test_however_much_is_wrong_it_is_eleven_lines(make: ModuleType) -> None:
    cells = [make.record(threads=n, reason=reason) for n, reason in enumerate(Reason)]
    before = [make.record("birch"), make.record(threads=99, reason=Reason.CRASH)]
    cells.append(make.record(threads=99))
    lines = qa_lines(news(cells, before), cells)
    assert len(lines) == 11
    assert lines[8].startswith("  and ")
    assert lines[8].endswith(", in the report")
    assert lines[9] == "  FIXED  1 cell on 1 phone (atlas): was crash"
    assert lines[10] == "  GONE   1 cell on 1 phone (birch): its phone is not in this run"


def test_what_is_red_by_comparison_has_advice_of_its_own(make: ModuleType) -> None:
    lost = make.record(backend="opencl", reason=Reason.BACKEND_NOT_BUILT)
    [group] = groups_of(news([lost], [make.record(backend="opencl")]), [lost])
    assert group.do == LOST_ADVICE
    slow = Told(state="new", cell_id="c", phone="p", cell="x", backend="cpu", reason="slower", red=True)
    [group] = groups_of(NewsFile(items=(slow,)), [])
    assert group.do == SLOWER_ADVICE


def test_a_cause_from_the_logs_tells_what_to_do(make: ModuleType) -> None:
    cause = Finding(code="m", severity="info", title="t", cause="Nobody pushed it.", advice="Push\nit.")
    cell = make.record(reason=Reason.LINK_ERROR).model_copy(update={"findings": (cause,)})
    [group] = groups_of(news([cell]), [cell])
    assert (group.do, group.from_logs) == ("Push it.", True)


def test_nothing_from_a_phone_moves_the_cursor(make: ModuleType) -> None:
    hostile = "x\x1b[2J\r\n\u202ey"
    cell = make.record(phone=make.phone(hostile), reason=Reason.CRASH, detail=hostile)
    before = make.record(phone=make.phone(hostile), model=hostile)
    issue = known(note=hostile, ticket=hostile)
    told_ = news([cell], [before], (issue, known(reason="hang", note=hostile)), notes=[hostile])
    text = "".join([*qa_lines(told_, [cell]), *issue_lines(told_), qa_headline(told_, [cell]).text])
    assert text.isprintable()
    assert "x\\x1b[2J \\u202ey" in text


def test_what_to_do_about_known_issues_is_noted(make: ModuleType) -> None:
    cell = make.record(reason=Reason.CRASH)
    issues = (known(expires=date(2026, 3, 1), owner="ada"), known(ticket="T-2", reason="hang"))
    assert issue_lines(news([cell], None, issues, notes=["passed over"])) == [
        "known issue expired: T-1 (until 2026-03-01, ada): it crashes",
        "known issue matched nothing: T-2 (until 2026-03-05): it crashes",
        "passed over",
    ]


def test_news_are_read_as_they_were_written(make: ModuleType, tmp_path) -> None:
    cells = make.all_verdicts()
    written = news(cells, [*cells[:3], make.record("cedar")], (known(),), status=1, unfinished=2, notes=["n"])
    write_news(tmp_path, written)
    assert read_news(tmp_path) == written


def test_news_that_cannot_be_read_are_none(tmp_path) -> None:
    assert read_news(tmp_path) is None
    (tmp_path / "news.json").write_text('{"items": 3}')
    assert read_news(tmp_path) is None


def test_only_a_cell_that_is_red_by_comparison_changes_its_outcome(make: ModuleType) -> None:
    red = Told(state="new", cell_id="c", phone="p", cell="x", backend="cpu", red=True)
    quiet = red.model_copy(update={"red": False})
    unbuilt, wrong = make.record(reason=Reason.BACKEND_NOT_BUILT), make.record(reason=Reason.BAD_PLAN)
    assert outcome_of_told(make.record(), red) is Outcome.FAILED
    assert outcome_of_told(unbuilt, red) is Outcome.FAILED
    assert outcome_of_told(unbuilt, quiet) is Outcome.SKIPPED
    assert outcome_of_told(wrong, red) is Outcome.ERROR
    assert outcome_of_told(make.record(), None) is Outcome.PASSED


def test_every_fault_has_a_short_name(make: ModuleType) -> None:
    assert {reason.fault for reason in Reason} == set(WHOSE_SHORT)
