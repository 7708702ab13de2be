"""Tensor cells from run to run: compared, followed and called slower by their latency."""

from __future__ import annotations

import json
from types import ModuleType

from harness.report.compare import changed, compare_runs
from harness.report.compare_match import match, measured_of
from harness.report.compare_view import as_json, as_markdown
from harness.report.history import trends_of
from harness.report.history_chart import charts_of
from harness.report.history_words import moved_rows
from harness.report.news_slower import Timings, slower, timings_of

FAST = (20.0, 20.1, 19.9, 20.0, 20.2)


def test_a_longer_latency_is_a_regression(make: ModuleType) -> None:
    base, new = make.tensor(latency=20.0), make.tensor(latency=24.0)
    found = compare_runs([base], [new])
    [cell] = found.cells
    assert {figure.name: figure.change.verdict for figure in cell.figures} == {
        "latency_ms": "slower", "load_ms": "same", "peak_rss_bytes": "same", "cosine": "same", "same_top1": "same",
    }  # fmt: skip
    assert cell.main is not None
    assert (cell.main.base, cell.main.new, cell.regression, cell.undecided) == ("20.0 ms", "24.0 ms", True, False)
    assert "latency" in as_markdown(found)
    assert "tok/s" not in as_markdown(found)
    assert json.dumps(as_json(found))
    assert compare_runs([new], [base]).cells[0].better


def test_a_latency_that_stayed_is_told_all_the_same(make: ModuleType) -> None:
    found = compare_runs([make.tensor()], [make.tensor()])
    assert found.regressions == ()
    assert "| latency | 20.0 ms | 20.0 ms |" in as_markdown(found)


def test_changed_asks_a_tensor_cell_for_its_latency(make: ModuleType) -> None:
    assert changed(make.tensor(latency=20.0), make.tensor(latency=24.0)).verdict == "slower"
    assert changed(make.tensor(latency=24.0), make.tensor(latency=20.0)).verdict == "faster"


def test_other_inputs_make_another_cell(make: ModuleType) -> None:
    base, new = make.tensor(), make.tensor(config={"prompt_hash": "q" * 64})
    matches, unmatched = match(measured_of([base]), measured_of([new]))
    assert matches == []
    assert unmatched[0].why == "other settings in the base run: inputs"


def test_history_follows_latency_and_calls_a_longer_one_worse(make: ModuleType) -> None:
    values = [20.0, 20.1, 19.9, 20.0, 24.0, 24.1, 23.9, 24.0]
    runs = [
        (
            make.info(run_id=f"run-{day:02}", started=f"2026-01-{day:02}T00:00:00Z"),
            [make.tensor(latency=value, run_id=f"run-{day:02}")],
        )
        for day, value in enumerate(values, start=1)
    ]
    [trend] = trends_of(runs)
    assert [series.figure.name for series in trend.series] == ["latency", "peak memory"]
    [change] = trend.series[0].changes
    assert (change.before.run_id, change.after.run_id, change.worse) == ("run-04", "run-05", True)
    [row] = moved_rows([trend])
    assert (row.figure, row.was, row.now, row.says) == ("latency", "20.0 ms", "24.0 ms", "+20.0 %")
    [chart] = charts_of([trend], [(info.run_id, info.started[:10]) for info, _ in runs])
    assert chart.lines[0].label.startswith("latency, ocr-fp32 · CPU")


def test_the_timed_inferences_of_a_cell_are_what_it_is_compared_by(make: ModuleType) -> None:
    found = timings_of(make.tensor(latency=20.0, n=3))
    assert found == Timings((), (), 30.5, (19.8, 20.0, 20.2))


def test_a_latency_that_is_longer_beyond_all_noise_is_told() -> None:
    words = slower(Timings((), (), 30.0, FAST), Timings((), (), 30.0, tuple(value * 1.5 for value in FAST)))
    assert words is not None
    assert words.startswith("latency 30.0 ms, was 20.0 (+50%, interval ")


def test_what_nobody_notices_or_is_within_noise_is_not_told() -> None:
    tiny = tuple(value / 100 for value in FAST)
    assert slower(Timings((), (), 30.0, tiny), Timings((), (), 30.0, tuple(value * 2 for value in tiny))) is None
    assert slower(Timings((), (), 30.0, FAST), Timings((), (), 30.0, tuple(value * 1.1 for value in FAST))) is None
    assert slower(Timings((), (), 30.0, FAST), Timings((), (), 30.0, tuple(value / 2 for value in FAST))) is None
