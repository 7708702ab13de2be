from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import pytest

from harness.core.reasons import Reason
from harness.report.html import report_html
from harness.report.soak import LEFT, RIGHT, WIDTH, in_words, soaks, ticks
from harness.store.schema import Thermal


def test_the_page_tells_burst_and_sustained_speed_and_draws_three_curves(make: ModuleType) -> None:
    page = report_html(make.info(), [make.sustained()])
    assert "50.0 → 30.0 tok/s (60.0 %); it throttled after 60.4 s, judged by speed, clocks, heat, status." in page
    assert page.count('class="curve ') == 3
    assert '<a href="#sustained">Sustained</a>' in page
    row = re.search(r'<table class="soaks">.*?<tbody>(.*?)</tbody>', page, re.DOTALL)
    assert row is not None
    cells = re.findall(r'<td class="n">\s*<span>([^<]*)</span>', row[1])
    assert cells == ["50.0", "30.0", "60.0 %", "60.4", "31.0", "47.5", "60.0 %", "2"]


def test_a_run_without_sustained_cells_has_no_such_section(make: ModuleType) -> None:
    page = report_html(make.info(), make.all_verdicts())
    assert 'id="sustained"' not in page
    assert "#sustained" not in page
    assert "Sustained speed" not in page


def test_the_onset_stands_where_the_curve_falls(make: ModuleType) -> None:
    [seen] = soaks([make.sustained()], {"id-of-atlas": "atlas"}).cells
    points = [tuple(map(float, pair.split(","))) for pair in seen.panels[0].lines[0].split()]
    fall = next(n for n in range(1, len(points)) if points[n][1] > points[n - 1][1])
    assert seen.onset is not None
    assert points[fall - 1][0] < seen.onset.at < points[fall + 1][0]
    assert all(LEFT <= x <= WIDTH - RIGHT for x, _ in points)
    assert all(panel.top <= y <= panel.bottom for panel in seen.panels for y in _heights(panel.lines))


def _heights(lines: tuple[str, ...]) -> list[float]:
    return [float(pair.split(",")[1]) for line in lines for pair in line.split()]


def test_unreadable_sensors_leave_speed_alone_and_say_why(make: ModuleType) -> None:
    unknown = dict.fromkeys(("start_c", "max_c", "zone", "clock_ratio_min", "status_max"))
    record = make.sustained(points=make.curve(sensors=False), judged_by="speed alone", **unknown)
    shown = soaks([record], {"id-of-atlas": "atlas"})
    assert [panel.title for panel in shown.cells[0].panels] == ["decode, tok/s"]
    assert "no max_c" in shown.notes
    assert "judged by speed alone" in report_html(make.info(), [record])


def test_a_gap_in_a_curve_stays_a_gap(make: ModuleType) -> None:
    points = make.curve()
    points[5]["celsius"] = None
    [seen] = soaks([make.sustained(points=points)], {"id-of-atlas": "atlas"}).cells
    assert [len(panel.lines) for panel in seen.panels] == [1, 2, 1]


def test_a_refused_cell_is_shown_as_evidence_only(make: ModuleType) -> None:
    page = report_html(make.info(), [make.sustained(reason=Reason.HOT_START)])
    assert "Refused, not a result." in page
    assert '<s class="refused"' in page.partition('id="sustained"')[2].partition("</table>")[0]


def test_a_cell_without_a_curve_has_its_row_and_no_picture(make: ModuleType) -> None:
    unknown = dict.fromkeys(("onset_s", "burst_tps", "sustained_tps", "sustained_ratio", "throttled"))
    page = report_html(make.info(), [make.sustained(points=[], **unknown)])
    assert 'id="sustained"' in page
    assert 'class="curves"' not in page


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, "50.0 → 30.0 tok/s (60.0 %); it throttled after 60.4 s."),
        ({"throttled": False, "onset_s": None}, "50.0 → 30.0 tok/s (60.0 %); it did not throttle."),
        ({"throttled": None}, "50.0 → 30.0 tok/s (60.0 %); whether it throttled is not known."),
        ({"burst_tps": None}, "Burst and sustained speed are not known."),
    ],
)
def test_what_became_of_the_speed_is_one_sentence(make: ModuleType, change: dict[str, Any], says: str) -> None:
    assert in_words(Thermal.model_validate({**make.THROTTLED, "judged_by": None, **change})) == says


@pytest.mark.parametrize(
    ("low", "high", "marks"),
    [
        (0.0, 50.0, [0.0, 20.0, 40.0]),
        (0.0, 100.0, [0.0, 25.0, 50.0, 75.0, 100.0]),
        (31.0, 47.5, [35.0, 40.0, 45.0]),
        (0.0, 0.08, [0.0, 0.02, 0.04, 0.06, 0.08]),
        (0.0, 612.0, [0.0, 200.0, 400.0, 600.0]),
    ],
)
def test_axes_have_round_marks(low: float, high: float, marks: list[float]) -> None:
    assert ticks(low, high) == marks
