"""The report's page as people use it: filters, sorting, links to cells, colours, paper, a narrow window, no script."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.browser import CHROMIUM, Browser
from harness.core.reasons import Reason
from harness.report.html import write_report
from harness.store.schema import CellRecord

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian package chromium)")

PHONES = [f"p{n}" for n in range(4)]
COUNT = "document.querySelector('#cells .count').textContent"
ROWS = "[...document.querySelectorAll('#cells tr[data-cell]')]"
DECODE = f"{ROWS}.map((row) => row.children[8].textContent.split(' ')[0])"


@pytest.fixture(scope="module")
def make(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    return load_module(Path(__file__).parents[1] / "unit" / "report" / "factory.py")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        started.size(1400)
        yield started


@pytest.fixture(scope="module")
def large(make: ModuleType) -> list[CellRecord]:
    """352 cells of four phones: too many to be told without a script."""
    cells = [make.record(name, threads=n, tps=200.0 - n) for name in PHONES for n in range(1, 85)]
    cells += [make.record(name, threads=90, reason=Reason.CRASH, detail="signal 11") for name in PHONES]
    cells += [make.record(name, backend="opencl", threads=68, tps=300.0) for name in PHONES]
    return [*cells, *(make.sustained(name) for name in PHONES)]


@pytest.fixture(scope="module")
def page(make: ModuleType, large: list[CellRecord], tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_report(make.run_folder(tmp_path_factory.mktemp("large") / "run", make.info(*PHONES), large)).as_uri()


@pytest.fixture(scope="module")
def small(make: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = make.run_folder(tmp_path_factory.mktemp("small") / "run", make.info(), make.all_verdicts())
    return write_report(folder).as_uri()


def opened(browser: Browser, url: str) -> None:
    browser.console.clear()
    browser.open("about:blank")
    browser.open(url)
    browser.until("!document.querySelector('.loading')")


def choose(browser: Browser, name: str, word: str) -> None:
    browser.ask(
        f"(() => {{ const s = document.querySelector('[data-filter=\"{name}\"]');"
        f" s.value = [...s.options].find((o) => o.textContent.startsWith('{word}')).value;"
        " s.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def test_filters_leave_what_they_say_and_can_be_cleared(browser: Browser, page: str) -> None:
    opened(browser, page)
    assert browser.ask(COUNT) == "1 to 50 of 348 cells"
    choose(browser, "verdict", "failed")
    assert browser.ask(COUNT) == "4 cells of 348"
    choose(browser, "phone", "p2")
    assert browser.ask(f"{ROWS}.map((row) => row.children[0].textContent)") == ["p2"]
    browser.click("[data-reset]")
    assert browser.ask(COUNT) == "1 to 50 of 348 cells"
    browser.click("[data-filter=q]")
    browser.type("p1 opencl")
    assert browser.ask(f"{ROWS}.map((row) => row.children[2].textContent)") == ["OpenCL"]
    browser.type("x")
    assert browser.ask(COUNT) == "No cell matches these filters."
    assert browser.console == []


def test_a_click_sorts_and_another_turns_it_round_with_the_unknown_last(browser: Browser, page: str) -> None:
    opened(browser, page)
    browser.click("[data-sort=decode]")
    head = "document.querySelector('#cells [data-sort=decode]').closest('th').getAttribute('aria-sort')"
    assert (browser.ask(head), browser.ask(DECODE)[:2]) == ("ascending", ["48.0", "48.0"])
    browser.ask("document.querySelector('#cells [data-sort=decode]').focus()")
    browser.press("Enter", 13)
    assert (browser.ask(head), browser.ask(DECODE)[:5]) == ("descending", ["300", "300", "300", "300", "199"])
    browser.click("#cells [data-turn='9']")
    assert browser.ask(DECODE)[-4:] == ["—"] * 4
    assert browser.ask(COUNT) == "301 to 348 of 348 cells"


def test_a_link_to_a_cell_opens_it_on_whatever_page_it_is(browser: Browser, page: str, large: list[CellRecord]) -> None:
    crash = next(cell for cell in large if cell.reason == "crash")
    opened(browser, f"{page}#cell-{crash.cell_id[:12]}")
    row = f"document.querySelector('#cells tr[data-cell=\"{crash.cell_id[:12]}\"]')"
    assert browser.ask(f"{row}.classList.contains('target')")
    assert browser.ask(f"document.activeElement === {row}.querySelector('button')")
    assert "signal 11" in browser.ask(f"{row}.nextElementSibling.textContent")
    place = browser.ask(f"{row}.getBoundingClientRect().top")
    assert 0 <= place < 900
    choose(browser, "verdict", "ok")
    assert browser.ask(f"{row} === null")
    browser.ask("location.hash = '#cells'")
    browser.ask(f"location.hash = '#cell-{crash.cell_id}'")
    browser.until(f"{row} !== null")
    assert browser.ask("document.querySelector('[data-filter=verdict]').value") == ""
    browser.ask("location.hash = '#cell-ffffffffffff'")
    browser.until(f"{COUNT}.startsWith('There is no cell')")


def test_a_cell_whose_id_is_no_id_can_be_opened_too(browser: Browser, make: ModuleType, tmp_path: Path) -> None:
    cells = [make.record(cell_id='"] script, [x="'), make.record(cell_id="", threads=2)]
    opened(browser, write_report(make.run_folder(tmp_path / "run", make.info(), cells)).as_uri())
    browser.click("#cells tr[data-cell] button")
    assert browser.ask("document.querySelectorAll('#cells .opened').length") == 1
    browser.ask("location.hash = '#cell-123456'")
    browser.until(f"{COUNT}.startsWith('There is no cell')")
    assert browser.console == []


def test_a_link_can_set_the_filters(browser: Browser, page: str) -> None:
    opened(browser, f"{page}#cells?reason=crash&phone=p3")
    assert browser.ask(COUNT) == "1 cell of 348"


def test_a_row_opens_by_keyboard_and_shows_where_its_figures_come_from(browser: Browser, small: str) -> None:
    opened(browser, small)
    browser.ask("document.querySelector('#cells tr[data-cell] button').focus()")
    browser.press("Enter", 13)
    detail = browser.ask("document.querySelector('#cells .opened').textContent")
    for part in ("31.0 ± 0.80 tok/s, 95 % interval 29.5 to 33.0", "Paris is the capital.", "load event: backend cpu"):
        assert part in detail
    assert (
        browser.ask("document.querySelector('#cells .opened a[href^=raw]').getAttribute('href')")
        == "raw/0123456789ab/1/"
    )
    assert browser.ask("document.activeElement.getAttribute('aria-expanded')") == "true"
    browser.press("Enter", 13)
    assert browser.ask("document.querySelector('#cells .opened')") is None


def test_colours_are_chosen_and_remembered(browser: Browser, small: str) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    browser.prefer("light")
    opened(browser, small)
    browser.ask("localStorage.clear()")
    light = browser.ask(back)
    browser.click(".themes [value=dark]")
    dark = browser.ask(back)
    opened(browser, small)
    assert (light, browser.ask(back)) == ("rgb(246, 247, 249)", dark) != (dark, light)
    assert browser.ask("document.querySelector('.themes [aria-pressed=true]').value") == "dark"
    browser.click(".themes [value=system]")
    assert browser.ask(back) == light
    browser.prefer("dark")
    assert browser.ask(back) == dark
    browser.ask("localStorage.clear()")
    browser.prefer("light")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_stand_out_from_what_is_behind_them(browser: Browser, small: str, theme: str) -> None:
    browser.prefer(theme)
    opened(browser, small)
    browser.ask("document.querySelector('#cells tr[data-cell] button').click()")
    poor = browser.ask(_POOR_CONTRAST)
    assert poor == []
    browser.prefer("light")


_POOR_CONTRAST = """(() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour[3] === undefined || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = new Set();
  for (const e of document.querySelectorAll('body *')) {
    if (!e.checkVisibility() || e.closest('svg, option, script, [disabled], .aside, .skip')) continue;
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    const [one, other] = [light(parse(getComputedStyle(e).color)), light(behind(e))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) found.add(`${e.tagName}.${e.className} ${ratio.toFixed(2)}`);
  }
  return [...found];
})()"""


def test_a_phone_of_a_large_run_shows_cells_limits_and_charts_when_opened(browser: Browser, page: str) -> None:
    opened(browser, f"{page}#phone-2")
    browser.ask("document.querySelector('#phone-2 .charts').scrollIntoView()")
    browser.until("document.querySelectorAll('#phone-2 .main-svg').length > 0")
    assert browser.ask("document.querySelector('#phone-2 .count').textContent") == "1 to 50 of 87 cells"
    assert browser.ask("document.querySelector('#phone-2 .limits').textContent.includes('best at 1 thread')")
    titles = browser.ask("[...document.querySelectorAll('#phone-2 figcaption b')].map((b) => b.textContent)")
    assert titles == ["Decode speed by CPU threads", "Fastest of each backend"]
    browser.click("#phone-2 .chart .points > .point")
    browser.until("location.hash.startsWith('#cell-')")
    browser.until("document.querySelector('#cells tr.target + .opened')")
    assert browser.ask("document.querySelector('#cells tr.target th').textContent") == "p1"
    assert browser.console == []


def test_a_curve_of_a_large_run_is_drawn_when_it_is_opened(browser: Browser, make: ModuleType, tmp_path: Path) -> None:
    cells = [make.record(threads=n) for n in range(1, 301)] + [make.sustained(f"p{n}") for n in range(8)]
    opened(browser, write_report(make.run_folder(tmp_path / "run", make.info(), cells)).as_uri())
    assert browser.ask("document.querySelectorAll('polyline').length") == 18
    browser.click("details.soak:last-of-type > summary")
    browser.until("document.querySelectorAll('polyline').length === 21")
    assert browser.console == []


def test_hostile_texts_stay_text_where_the_script_shows_them(
    browser: Browser, make: ModuleType, tmp_path: Path
) -> None:
    evil = "</script><img src=x onerror=\"document.title='owned'\"><b>{{7*7}}\u202eקוד"
    long = "<script>document.title='owned'</script>" + "x" * 10_000
    cell = make.record(
        phone=make.phone(evil), model=evil, reason=Reason.NOISY, detail=long, findings=[make.note("a", evil, "error")]
    )
    opened(browser, write_report(make.run_folder(tmp_path / "run", make.info(), [cell])).as_uri())
    browser.click("#cells tr[data-cell] button")
    told = browser.ask("document.querySelector('#cells tbody').textContent")
    assert told.count("<img src=x onerror=") == 3
    assert "\u202e" not in told
    assert browser.ask("document.querySelectorAll('main img, main script').length") == 0
    assert browser.ask("[...document.querySelectorAll('#cells .text')].every((e) => e.dir === 'auto')")
    assert long not in told
    browser.click("#cells .all > summary")
    browser.until("document.querySelector('#cells .all pre')")
    assert browser.ask("document.querySelector('#cells .all pre').textContent") == long
    assert browser.ask("document.title").startswith("2 phones, 1 cell")
    assert browser.console == []


def test_nothing_sticks_out_of_a_narrow_window(browser: Browser, small: str) -> None:
    browser.size(400)
    opened(browser, small)
    browser.click("#cells tr[data-cell] button")
    assert browser.ask("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    browser.size(1400)


def test_on_paper_everything_is_open_and_no_control_is_left(browser: Browser, small: str) -> None:
    opened(browser, small)
    closed = "document.querySelectorAll('details:not([open])').length"
    before = browser.ask(closed)
    browser.ask("dispatchEvent(new Event('beforeprint'))")
    assert browser.ask(closed) == 0 < before
    browser.ask("dispatchEvent(new Event('afterprint'))")
    assert browser.ask(closed) == before
    browser.send("Emulation.setEmulatedMedia", media="print")
    assert browser.ask("document.querySelector('.filters').checkVisibility()") is False
    browser.send("Emulation.setEmulatedMedia", media="")


def test_without_a_script_a_usual_run_is_told_in_full_and_a_large_one_says_where(
    browser: Browser, small: str, page: str
) -> None:
    visible = "[...document.querySelectorAll('{}')].filter((e) => e.checkVisibility()).length"
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(small)
        assert browser.ask(visible.format("section.phone tr[data-cell]")) == 15
        assert browser.ask(visible.format(".filters, .themes, .loading")) == 0
        browser.open(page)
        assert browser.ask("document.querySelector('#cells noscript').textContent").count("results.csv") == 1
        assert browser.ask(visible.format("#cells noscript .banner")) == 1
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)
