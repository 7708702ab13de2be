"""The report in a real browser: it draws, complains of nothing, and runs nothing that is not ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.browser import CHROMIUM, Browser
from harness.core.reasons import Reason
from harness.report.html import write_report

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian package chromium)")

CHART = "!!document.querySelector('svg.main-svg .legendtext')"


@pytest.fixture(scope="module")
def make(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    path = Path(__file__).parents[1] / "unit" / "report" / "factory.py"
    return load_module(path)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


def test_the_chart_is_drawn_and_the_console_stays_empty(make: ModuleType, browser: Browser, tmp_path: Path) -> None:
    records = [*make.all_verdicts(), make.record(backend="opencl", threads=68, precision="normal", tps=55.5)]
    # So high that the chart is in it: charts are drawn when they come into view.
    seen = browser.look(write_report(make.run_folder(tmp_path / "run", make.info(), records)), height=6000, until=CHART)
    assert seen.console == []
    speed = seen.drawn.split('<section id="speed"')[1].split("</section>")[0]
    assert re.search(r'<svg class="main-svg"', speed)
    assert len(re.findall(r'class="trace scatter', speed)) == 4
    assert len(re.findall(r'class="legendtext"', speed)) == 4
    assert "The chart needs JavaScript" not in re.sub(r"<noscript.*?</noscript>", "", seen.drawn)
    assert seen.size == (1400, 6000)
    assert len(seen.picture) > 50_000


def test_a_narrow_dark_window_is_drawn_too(make: ModuleType, browser: Browser, tmp_path: Path) -> None:
    page = write_report(make.run_folder(tmp_path / "run", make.info(), [*make.all_verdicts(), *make.a_night()]))
    # So high that the chart is in it: charts are drawn when they come into view.
    seen = browser.look(page, width=500, height=9000, dark=True, until=CHART)
    assert seen.console == []
    assert "has not measured since" in seen.drawn
    assert re.search(r'<svg class="main-svg"[^>]*width="4\d\d"', seen.drawn)


def test_hostile_text_runs_nothing(make: ModuleType, browser: Browser, tmp_path: Path) -> None:
    evil = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">{{7*7}}"
    cells = [
        make.record(phone=make.phone(evil), model=evil, precision=evil),
        make.record(phone=make.phone(evil), model=evil, reason=Reason.CRASH, detail=evil, threads=2),
    ]
    page = write_report(make.run_folder(tmp_path / "run", make.info("atlas", plan_name=evil), cells))
    seen = browser.look(page)
    assert seen.console == []
    title = re.search(r"<title>(.*?)</title>", seen.dom)
    assert title is not None
    assert title[1].startswith("1 phone, 2 cells: 1 ok, 1 failed (crash)")
    assert "<img" not in seen.drawn
    assert re.search(r'class="legendtext"[^>]*>[^<]*&lt;/script&gt;', seen.drawn)


def test_a_page_without_chart_carries_no_chart_library(make: ModuleType, browser: Browser, tmp_path: Path) -> None:
    page = write_report(make.run_folder(tmp_path / "run", make.info(), []))
    seen = browser.look(page)
    assert seen.console == []
    assert "There is no chart: no cell was run." in seen.dom
    assert 'id="plotly"' not in seen.dom
    assert page.stat().st_size < 120_000


def test_a_script_that_is_not_ours_is_refused_and_the_console_says_so(
    make: ModuleType, browser: Browser, tmp_path: Path
) -> None:
    page = write_report(make.run_folder(tmp_path / "run", make.info(), make.all_verdicts()))
    html = page.read_text(encoding="utf-8")
    page.write_text(html.replace("</main>", "<script>document.title='owned'</script></main>"), encoding="utf-8")
    seen = browser.look(page)
    assert "<title>owned" not in seen.dom
    assert any("Content Security Policy" in line for line in seen.console)


@pytest.mark.parametrize("dark", [False, True])
def test_the_curves_of_a_soak_are_drawn_without_a_script_of_their_own(
    make: ModuleType, browser: Browser, tmp_path: Path, dark: bool
) -> None:
    cells = [make.sustained(), make.sustained("birch", points=make.curve(sensors=False))]
    seen = browser.look(write_report(make.run_folder(tmp_path / "run", make.info(), cells)), width=900, dark=dark)
    assert seen.console == []
    assert len(re.findall(r'<polyline class="curve', seen.drawn)) == 4
    assert seen.drawn.count("onset 60.4 s") == 2
