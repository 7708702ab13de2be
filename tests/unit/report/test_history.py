"""Trends over runs: which cells belong together, what is a point or a gap, and what a change comes with."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from harness.core.reasons import Reason
from harness.report.history import Gap, Trend, trends_of
from harness.report.history_causes import Circumstances, Difference, differences
from harness.store.head import RunInfo
from harness.store.schema import CellRecord

OLD, NEW = "3.5.0", "3.6.1"
QUIET = (48.0, 48.2, 47.9, 48.1, 47.8, 48.0, 48.1, 47.9)


def head(make: ModuleType, day: int) -> RunInfo:
    return make.info(run_id=f"run-{day:02}", started=f"2026-01-{day:02}T00:00:00Z")


def cell(make: ModuleType, day: int, tps: float = 48.0, engine: str = NEW, **over: Any) -> CellRecord:
    bundle = {"name": "mnn", "hash": engine * 10, "engine": "MNN", "engine_version": engine, "runner": "farm_runner"}
    return make.record(tps=tps, run_id=f"run-{day:02}", **{"bundle": bundle, **over})


def runs(make: ModuleType, *days: list[CellRecord]) -> list[tuple[RunInfo, list[CellRecord]]]:
    return [(head(make, day), cells) for day, cells in enumerate(days, start=1)]


def only(trends: tuple[Trend, ...]) -> Trend:
    assert len(trends) == 1
    return trends[0]


def test_each_figure_of_a_cell_has_a_point_per_run(make: ModuleType) -> None:
    trend = only(trends_of(runs(make, [cell(make, 1, 48.0)], [cell(make, 2, 50.0)])))
    assert (trend.phone, trend.configuration) == ("atlas", "tiny-llama · CPU · 1 thread · low / low · 64 → 32")
    assert [(s.figure.name, len(s.points), s.course) for s in trend.series] == [
        (name, 2, "too few runs") for name in ("decode", "prefill", "TTFT", "peak memory")
    ]
    decode = trend.series[0].points[1]
    assert (decode.run_id, decode.value, decode.interval, decode.n) == ("run-02", 50.0, (48.5, 52.0), 5)
    assert decode.about == Circumstances(
        NEW, f"mnn {(NEW * 10)[:8]}", "mmmmmmmm", "0.1.0", "maker/atlas/1", None, "plugged in", 30.5
    )


def test_runs_may_come_in_any_order(make: ModuleType) -> None:
    forward = runs(make, *([cell(make, day, tps)] for day, tps in enumerate(QUIET, start=1)))
    assert trends_of(forward) == trends_of(reversed(forward))


def test_a_refused_run_is_a_gap_with_its_reason(make: ModuleType) -> None:
    hot = cell(make, 2, reason=Reason.HOT_START)
    trend = only(trends_of(runs(make, [cell(make, 1)], [hot], [cell(make, 3)])))
    gap = Gap("run-02", "2026-01-02T00:00:00Z", "rejected: hot_start")
    assert trend.gaps == (gap,)
    assert [point.run_id for point in trend.series[0].points] == ["run-01", "run-03"]
    assert trend.series[0].gaps == (gap,)


def test_a_cell_that_never_was_ok_has_gaps_only(make: ModuleType) -> None:
    trend = only(trends_of(runs(make, *([cell(make, day, reason=Reason.CRASH)] for day in (1, 2)))))
    assert (trend.series, len(trend.gaps), trend.moved) == ((), 2, False)


def test_a_figure_that_one_run_lacks_is_a_gap_in_that_figure(make: ModuleType) -> None:
    lacking = cell(make, 2).model_dump(by_alias=True)
    lacking["metrics"]["prefill_tps"] = None
    lacking["nulls"] = {**lacking["nulls"], "prefill_tps": "the runner does not tell"}
    trend = only(trends_of(runs(make, [cell(make, 1)], [CellRecord.model_validate(lacking)])))
    decode, prefill = trend.series[:2]
    assert (decode.gaps, len(decode.points)) == ((), 2)
    assert prefill.gaps == (Gap("run-02", "2026-01-02T00:00:00Z", "the runner does not tell"),)


def test_what_differs_around_a_change_is_named(make: ModuleType) -> None:
    slower = [cell(make, 9 + n, tps, NEW, harness_version="0.2.0" if n else "0.1.0") for n, tps in enumerate(QUIET)]
    slower = [each.model_copy(update={"metrics": _slower(each, 0.88)}) for each in slower]
    before = [cell(make, 1 + n, tps, OLD) for n, tps in enumerate(QUIET)]
    trend = only(trends_of(runs(make, *([each] for each in (*before, *slower)))))
    decode = trend.series[0]
    assert decode.course == "changed"
    (change,) = decode.changes
    assert (change.before.run_id, change.after.run_id, change.worse) == ("run-08", "run-09", True)
    assert change.ratio == pytest.approx(0.88, abs=0.005)
    assert [(each.what, each.before, each.after, each.throughout) for each in change.differs] == [
        ("engine version", OLD, NEW, True),
        ("device binaries", f"mnn {(OLD * 10)[:8]}", f"mnn {(NEW * 10)[:8]}", True),
    ]


def _slower(record: CellRecord, share: float) -> Any:
    metrics = record.metrics
    assert metrics is not None
    assert metrics.decode_tps is not None
    speed = metrics.decode_tps
    return metrics.model_copy(update={"decode_tps": speed.model_copy(update={"median": speed.median * share})})


def test_the_worst_change_comes_first_and_a_gain_after_it(make: ModuleType) -> None:
    def days(shares: dict[int, float]) -> list[list[CellRecord]]:
        return [
            [
                cell(make, 1 + n, tps * (shares[threads] if n >= len(QUIET) else 1), threads=threads)
                for threads in shares
            ]
            for n, tps in enumerate((*QUIET, *QUIET))
        ]

    trends = trends_of(runs(make, *days({1: 1.0, 2: 1.2, 4: 0.93, 8: 0.8})))
    assert [(trend.configuration.split(" · ")[2], trend.moved, trend.worst > 0) for trend in trends] == [
        ("8 threads", True, True),
        ("4 threads", True, True),
        ("2 threads", True, False),
        ("1 thread", False, False),
    ]


def test_two_builds_in_one_run_are_two_trends(make: ModuleType) -> None:
    other = {"name": "mnn-b", "hash": "c" * 64, "engine": "MNN", "engine_version": "4", "runner": "farm_runner"}
    pairs = [[cell(make, day), cell(make, day, bundle=other)] for day in (1, 2)]
    trends = trends_of(runs(make, *pairs))
    assert sorted(trend.configuration.split(" · ")[-1] for trend in trends) == ["64 → 32", "mnn-b"]
    assert {len(trend.series[0].points) for trend in trends} == {2}


def test_cells_that_look_alike_are_told_apart(make: ModuleType) -> None:
    trends = trends_of(runs(make, [cell(make, 1), cell(make, 1, config={"repeats": 9})]))
    assert len({trend.configuration for trend in trends}) == 2


def test_phones_with_one_name_are_told_apart_by_serial(make: ModuleType) -> None:
    twin = make.phone(id="other", serial="S-other")
    trends = trends_of(runs(make, [cell(make, 1), cell(make, 1, phone=twin)]))
    assert sorted(trend.phone for trend in trends) == ["atlas (S-atlas)", "atlas (S-other)"]


def test_a_start_that_is_always_warmer_is_a_difference() -> None:
    def at(*starts: float | None) -> list[Circumstances]:
        return [Circumstances(NEW, "b", "m", "0", None, None, None, start) for start in starts]

    assert differences(at(30.0, 31.0, 29.5), at(34.0, 33.5, 35.0)) == (
        Difference("temperature at the start", "30.0 °C", "34.0 °C", True),
    )
    assert differences(at(30.0, 36.0, 29.5), at(34.0, 33.5, 35.0))[0].throughout is False
    assert differences(at(30.0, 31.0), at(31.0, 32.0)) == ()
    assert differences(at(None), at(50.0)) == ()


def test_what_varies_anyhow_comes_last() -> None:
    def with_(engine: str, power: str) -> Circumstances:
        return Circumstances(engine, "b", "m", "0", "a", None, power, None)

    before = [with_(OLD, "plugged in"), with_(OLD, "on battery"), with_(OLD, "plugged in")]
    found = differences(before, [with_(NEW, "on battery")])
    assert [(each.what, each.throughout) for each in found] == [("engine version", True), ("power", False)]
