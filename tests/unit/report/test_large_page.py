"""The page of a run that is too large to be told in full."""

from __future__ import annotations

from types import ModuleType

import pytest

from harness.core.reasons import Reason
from harness.report.html import report_html
from harness.report.page_assets import unpacked


@pytest.fixture(scope="module")
def html(make: ModuleType) -> str:
    phones = [f"p{n}" for n in range(14)]
    cells = [make.record(phone, threads=n, tps=10.0 + n) for phone in phones for n in range(1, 24)]
    cells += [make.record(phone, threads=90, reason=Reason.CRASH, detail="signal 11") for phone in phones * 2]
    cells += [make.sustained(phone) for phone in phones]
    return report_html(make.info(*phones), cells)


@pytest.fixture(scope="module")
def page(html: str, parse):
    return parse(html)


def test_cells_are_in_the_data_and_not_in_the_markup(html: str, page) -> None:
    data = unpacked(page.one("script", id="cells-data").text)
    assert data["count"] == 14 * 26 - 14 + 14 == 364
    assert [row for row in page.all("tr") if "data-cell" in row.attributes] == []
    assert len(html) < 2_600_000


def test_each_phone_folds_and_says_what_became_of_its_cells(page) -> None:
    phones = page.all("details", cls="phone")
    assert [each.attributes["id"] for each in phones] == [f"phone-{n}" for n in range(1, 15)]
    assert phones[0].text.startswith("p0 Model p0 · SM0000 · high tier · shell 24 ok 2 failed")
    fragment = unpacked(page.one("script", id="cells-data").text)["fragments"]["phone-1"]
    assert "no number of threads is clearly best: 19, 20, 21 and 22 lie within each other&#39;s noise" in fragment


def test_the_navigation_does_not_list_all_phones(page) -> None:
    links = [link.attributes["href"] for link in page.one("nav").all("a")]
    assert "#phones" in links
    assert "#phone-1" not in links


def test_lists_of_cells_end_with_a_link_to_the_rest(page) -> None:
    trouble = page.one("section", id="wrong").one("li", cls="trouble")
    assert "and 8 more in the table of all cells" in trouble.text
    assert trouble.one("li", cls="quiet").one("a").attributes["href"] == "#cells?reason=crash"


def test_curves_beyond_the_first_are_unpacked_when_they_are_opened(page) -> None:
    soaks = page.all("details", cls="soak")
    assert len(soaks) == 14
    assert [each.attributes.get("data-fragment") for each in soaks[5:8]] == [None, "soak-7", "soak-8"]
    fragments = unpacked(page.one("script", id="cells-data").text)["fragments"]
    assert fragments["soak-7"].count('class="curve ') == 3
    assert len(page.all("polyline")) == 6 * 3


def test_without_a_script_it_says_where_the_figures_are(page) -> None:
    told = [each.text for each in page.all("noscript")]
    assert any("results.csv in the run folder holds them all" in text for text in told)
