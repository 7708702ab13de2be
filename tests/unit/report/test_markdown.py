from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest

from harness.core.reasons import Reason
from harness.plan.known import Known
from harness.report.markdown import MAX_BYTES, code, plain, summary_md, write_summary
from harness.report.news import news_of
from harness.report.news_file import NewsFile, told, write_news

HOSTILE = "a|b`c`<script>[x](http://e.vil)@all #1 **b** www.e.vil ![i](j)\n| row |\n```\n<!--"


def news(make: ModuleType, records, before=None, known=()) -> NewsFile:
    found = news_of(records, before, known, date(2026, 3, 5))
    return told(found, against="run-before" if before is not None else None, status=1)


def test_it_begins_with_red_or_green_and_whose_fault(make: ModuleType) -> None:
    cells = [make.record(), make.record(threads=2, reason=Reason.CRASH)]
    before = [make.record(), make.record(threads=2)]
    lines = summary_md(make.info(), cells, news(make, cells, before)).splitlines()
    assert lines[0] == "### RED, at fault: the product (1 NEW) · against run run-before"
    assert lines[2] == "2 phones, 2 cells: 1 ok, 1 failed (crash)"


def test_the_news_are_a_table_with_ticket_and_advice(make: ModuleType) -> None:
    issue = Known(ticket="FARM-7", expires=date(2026, 12, 31), note="it crashes", reason="crash")
    cell = make.record(reason=Reason.CRASH)
    text = summary_md(make.info(), [cell], news(make, [cell], [make.record()], [issue]))
    row = next(line for line in text.splitlines() if line.startswith("| **"))
    assert row.startswith(
        "| **KNOWN** FARM-7 | the product | <code>CPU crash</code> <code>it crashes; was ok</code> | "
    )
    assert "<code>1 cell on 1 phone (atlas)</code> | Read the last lines of stderr" in row


def test_the_fastest_proven_cell_of_each_phone_stands_in_it(make: ModuleType) -> None:
    cells = [make.record(threads=1, tps=30.0), make.record(threads=4, tps=90.0), make.fallback(tps=500.0)]
    text = summary_md(make.info(), cells)
    rows = [line for line in text.splitlines() if line.startswith("| <code>atlas")]
    assert len(rows) == 1
    assert "4 threads" in rows[0]
    assert rows[0].endswith("| 187 | 342 | 90.0 | 196 |")
    assert "500" not in text


def test_the_recommendations_stand_in_it(make: ModuleType) -> None:
    assert "- <code>recommended on atlas, tiny-llama: CPU low / low, 1 thread: " in summary_md(
        make.info(), [make.record()]
    )


def test_without_records_it_says_so(make: ModuleType) -> None:
    assert summary_md(make.info("atlas"), []).startswith("### 1 phone, no cell was run\n")


def test_nothing_that_a_phone_says_is_markdown_or_html(make: ModuleType) -> None:
    cell = make.record(phone=make.phone(HOSTILE), model=HOSTILE, reason=Reason.CRASH, detail=HOSTILE)
    ok = make.record("birch", model=HOSTILE)
    text = summary_md(make.info(), [cell, ok], news(make, [cell, ok], [make.record()]))
    for danger in ("`c`", "<script", "[x]", "](", "http:", "@", " #1", "**b", "www.e", "<!--", "```"):
        assert danger not in text, danger
    for line in text.splitlines():
        if line.startswith("| **"):
            assert line.count("|") == 6
        if line.startswith("| <code>"):
            assert line.count("|") == 7
    assert set(re.findall(r"</?([a-z!]+)", text)) == {"code", "details", "summary", "sub"}


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("GREEN: 3 of 4, 1.5 (ok)", "GREEN: 3 of 4, 1.5 (ok)"),
        ("http://x", "http&#58;//x"),
        ("www.x", "www&#46;x"),
        ("a_b*c", "a_b&#42;c"),
        ("__b__ _c", "&#95;&#95;b&#95;&#95; &#95;c"),
        ("R&D <b>", "R&#38;D &#60;b&#62;"),
        ("two\nlines\x1b", "two lines&#92;x1b"),
    ],
)
def test_what_means_something_becomes_an_entity(text: str, safe: str) -> None:
    assert plain(text) == safe


def test_a_long_text_is_cut_and_an_empty_one_is_nothing() -> None:
    assert len(code("x" * 10_000)) == len("<code></code>") + 200
    assert code("") == ""


def test_it_never_grows_beyond_what_a_comment_holds_and_no_element_stays_open(make: ModuleType) -> None:
    cells = [make.record(f"{HOSTILE * 9}{n}", threads=n, backend=f"b{n % 70}", reason=Reason.CRASH) for n in range(700)]
    text = summary_md(make.info(), cells, news(make, cells))
    assert 30_000 < len(text.encode()) <= MAX_BYTES
    assert text.count("<details>") == text.count("</details>")
    assert text.count("<code>") == text.count("</code>")
    assert text.endswith("_The rest is in the run folder's report._\n")


def test_it_is_written_into_the_run_folder_with_the_news_told_there(make: ModuleType, tmp_path: Path) -> None:
    cell = make.record(reason=Reason.CRASH)
    run = make.run_folder(tmp_path / "run", make.info(), [cell])
    write_news(run, news(make, [cell], [make.record()]))
    path = write_summary(run)
    assert path == run / "summary.md"
    assert path.read_text().startswith("### RED, at fault: the product (1 NEW)")
