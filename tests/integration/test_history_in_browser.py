"""The history of several runs in a real browser: drawn without a script, quiet, hostile names stay text."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.browser import CHROMIUM, Browser
from harness.core.reasons import Reason
from harness.report.history_page import write_history

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian package chromium)")

EVIL = "</title></style><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
LEVELS = (48.0, 48.2, 47.9, 48.1, 47.8, 48.0, 42.1, 41.8, 42.0, 41.9)


def test_changes_gaps_and_intervals_are_drawn_and_nothing_runs(
    load_module: Callable[[Path], ModuleType], tmp_path: Path
) -> None:
    make = load_module(Path(__file__).parents[1] / "unit" / "report" / "factory.py")
    folders = []
    for nth, tps in enumerate(LEVELS):
        run_id = f"run-{nth:02}"
        cells = [
            make.record(EVIL, run_id=run_id, **({"reason": Reason.HOT_START} if nth == 2 else {"tps": tps})),
            make.record("birch", run_id=run_id, tps=30.0),
        ]
        info = make.info("birch", run_id=run_id, started=f"2026-01-{nth + 1:02}T00:00:00Z", plan_name=EVIL)
        folders.append(make.run_folder(tmp_path / run_id, info, cells))
    with Browser(tmp_path) as browser:
        seen = browser.look(write_history(folders), width=500, dark=True)
    assert seen.console == []
    assert "<script" not in seen.dom
    assert "<img" not in seen.dom
    assert re.search(r"<title>10 runs, 2 phones: 1 figure worse, 7 steady · mnn-farm history</title>", seen.dom)
    assert len(re.findall(r"<polyline ", seen.dom)) == 3
    assert len(re.findall(r'<line class="change worse"', seen.dom)) == 1
    assert len(re.findall(r'<line class="interval"', seen.dom)) == 19
    assert "run-02: rejected: hot_start" in seen.dom
