"""The news on the page."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from types import ModuleType

from harness.core.reasons import Reason
from harness.report.html import report_html, write_report
from harness.report.news import news_of
from harness.report.news_file import NewsFile, told, write_news


def news(records, before) -> NewsFile:
    return told(
        news_of(records, before, (), date(2026, 3, 5)), against="run-before", status=1, notes=["passed <i>over"]
    )


def test_the_page_tells_the_news_worst_first(make: ModuleType, parse) -> None:
    cells = [make.record(reason=Reason.CRASH), make.record(threads=2)]
    before = [make.record(), make.record(threads=2, reason=Reason.HANG)]
    section = parse(report_html(make.info(), cells, news=news(cells, before))).one("section", id="news")
    assert section.one("h2").text == "RED, at fault: the product (1 NEW) · against run run-before"
    rows = section.one("table").all("tr")[1:]
    assert [row.one("th").text for row in rows] == ["NEW", "FIXED"]
    assert [cell.text for cell in rows[0].all("td")][:2] == ["the product", "CPU crash was ok"]
    assert section.one("ul", cls="quiet").text == "passed <i>over"


def test_hostile_texts_stay_texts(make: ModuleType, parse) -> None:
    hostile = "<script>alert(1)</script>\u202e"
    cell = make.record(phone=make.phone(hostile), model=hostile, reason=Reason.CRASH)
    section = parse(report_html(make.info(), [cell], news=news([cell], []))).one("section", id="news")
    assert section.all("script") == []
    assert "<script>alert(1)</script>\\u202e" in section.text


def test_a_run_of_which_no_news_were_told_has_no_such_section(make: ModuleType, parse) -> None:
    assert parse(report_html(make.info(), [make.record()])).all("section", id="news") == []


def test_the_report_of_a_folder_has_the_news_told_there(make: ModuleType, parse, tmp_path: Path) -> None:
    cell = make.record(reason=Reason.CRASH)
    run = make.run_folder(tmp_path / "run", make.info(), [cell])
    write_news(run, news([cell], [make.record()]))
    page = parse(write_report(run).read_text())
    assert page.one("section", id="news").one("table").all("tr")[1].one("th").text == "NEW"


def test_commands_in_advice_are_set_as_code(make: ModuleType, parse) -> None:
    cell = make.record(reason=Reason.DEVICE_LOST)
    section = parse(report_html(make.info(), [cell], news=news([cell], []))).one("section", id="news")
    assert [code.text for code in section.all("code")] == ["--resume", "mnn-farm devices history"]
    assert "`" not in section.text
