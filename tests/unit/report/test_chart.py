from __future__ import annotations

import json
from types import ModuleType

import pytest

from harness.core.reasons import Reason
from harness.report.chart import for_script, interval, plotly_source, speed_chart


def traces(records) -> dict[str, dict]:
    chart = speed_chart(records)
    assert chart.figure is not None
    return {trace["name"]: trace for trace in json.loads(chart.figure)["data"]}


def test_there_is_a_line_per_phone_and_precision_with_its_intervals(make: ModuleType) -> None:
    lines = traces(make.all_verdicts())
    assert sorted(lines) == ["atlas · high", "atlas · low", "birch · low"]
    low = lines["atlas · low"]
    assert (low["x"], low["y"]) == ([1, 2, 4], [31.0, 62.0, 124.0])
    assert low["error_y"]["array"] == [2.0, 2.0, 2.0]
    assert low["error_y"]["arrayminus"] == [1.5, 1.5, 1.5]
    assert lines["atlas · low"]["line"]["color"] == lines["atlas · high"]["line"]["color"]
    assert lines["atlas · low"]["line"]["color"] != lines["birch · low"]["line"]["color"]


def test_threads_are_in_order_however_the_cells_came(make: ModuleType) -> None:
    line = traces([make.record(threads=n, tps=10.0 * n) for n in (4, 1, 2)])["atlas · low"]
    assert (line["x"], line["y"]) == ([1, 2, 4], [10.0, 20.0, 40.0])


def test_what_is_not_ok_is_not_drawn(make: ModuleType) -> None:
    chart = speed_chart(
        [make.record(tps=40.0), make.fallback(tps=77.7), make.record(threads=2, reason=Reason.NOISY, tps=88.8)]
    )
    assert "77.7" not in chart.figure
    assert "88.8" not in chart.figure
    assert [point.tps for point in chart.points] == [40.0]


def test_lines_are_told_apart_by_whatever_differs(make: ModuleType) -> None:
    records = [make.record(model=model, config={"prompt_tokens": p}) for model in ("m1", "m2") for p in (64, 256)]
    assert sorted(traces(records)) == [
        "atlas · m1 · low · p256",
        "atlas · m1 · low · p64",
        "atlas · m2 · low · p256",
        "atlas · m2 · low · p64",
    ]


def test_a_gpu_is_a_dashed_level_across_the_threads(make: ModuleType) -> None:
    records = [make.record(threads=1), make.record(threads=4), make.record(backend="opencl", threads=68, tps=99.0)]
    level = traces(records)["atlas · OpenCL · low"]
    assert (level["x"], level["y"]) == ([1, 4], [99.0, 99.0])
    assert level["line"]["dash"] == "dash"
    assert level["mode"] == "lines"


def test_a_gpu_alone_has_a_level_too(make: ModuleType) -> None:
    level = traces([make.record(backend="vulkan", tps=12.0)])["atlas · Vulkan · low"]
    assert level["x"][0] < level["x"][1]
    assert level["y"] == [12.0, 12.0]


def test_a_cell_without_interval_has_no_arms_and_a_dash_in_the_table(make: ModuleType) -> None:
    cell = make.record()
    speed = cell.metrics.decode_tps.model_copy(update={"ci95": None})
    cell = cell.model_copy(update={"metrics": cell.metrics.model_copy(update={"decode_tps": speed})})
    chart = speed_chart([cell])
    assert json.loads(chart.figure)["data"][0]["error_y"]["array"] == [0.0]
    assert interval(chart.points[0]) == "—"
    assert interval(speed_chart([make.record(tps=48.0)]).points[0]) == "46.5 to 50.0"


def test_without_ok_cells_there_is_a_sentence_instead(make: ModuleType) -> None:
    assert speed_chart([]).says == "There is no chart: no cell was run."
    chart = speed_chart([make.fallback(), make.record(reason=Reason.CRASH)])
    assert chart.figure is None
    assert chart.says == "There is no chart: none of 2 cells is ok."


def test_plotlys_own_html_from_a_phone_stays_text(make: ModuleType) -> None:
    name = '<a href="javascript:alert(1)">x</a>%{x}\x1b'
    (shown,) = traces([make.record(phone=make.phone(name))])
    assert shown.startswith("&lt;a href=")
    assert "<" not in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("text", ["</script>", "<!--<script>", "\u2028\u2029", "é\ud800", "]]>&amp;"])
def test_json_in_a_script_cannot_end_it(text: str) -> None:
    inlined = for_script(json.dumps({"name": text}))
    assert inlined.isascii()
    assert not set("<>&") & set(inlined)
    assert json.loads(inlined) == {"name": text}


def test_plotlys_source_is_whole_and_can_be_inlined() -> None:
    source = plotly_source()
    assert len(source) > 1_000_000
    assert "Plotly" in source
    assert "</script" not in source.lower()
