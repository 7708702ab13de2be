"""``history.html``: the trends of many run folders on one page without a script.

Run folders are read one after the other, and only what a trend needs is kept of them.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from markupsafe import Markup

from harness.core.errors import ConfigError
from harness.report import history_chart
from harness.report.environment import asset, page_environment
from harness.report.history import Trend, trends_of
from harness.report.history_words import change_in_words, difference_in_words, moved_rows, quiet_rows
from harness.report.text import inert, plural
from harness.store.head import RunInfo
from harness.store.runfolder import RunFolder, write_atomically

# Charts that are shown unfolded; rows of what did not change.
_CHARTS_OPEN: Final = 4
_QUIET_SHOWN: Final = 400
_CSV_COLUMNS: Final = (
    "phone_id", "phone", "configuration", "figure", "unit", "run_id", "started", "value", "ci95_low", "ci95_high", "n",
    "course", "change_before", "engine_version", "bundle", "model_hash", "harness_version", "android", "driver",
    "power", "start_c", "gap",
)  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One run of the page: its head, and where its own report lies as seen from the page, if it has one."""

    info: RunInfo
    report: str | None

    @property
    def date(self) -> str:
        """The day it began."""
        return self.info.started[:10]


def write_history(run_dirs: Sequence[Path], out: Path | None = None, csv_out: Path | None = None) -> Path:
    """Write ``history.html`` beside the newest run folder, or to ``out``, whole or not at all; return where.

    ``csv_out`` is where all points go as CSV besides. A folder named twice counts once.

    Raises:
        ConfigError: one is not a run folder, or two hold the same run.
    """
    folders = [RunFolder.open(path) for path in {path.resolve(): path for path in run_dirs}.values()]
    heads = sorted(((folder.read_info(), folder) for folder in folders), key=lambda each: _when(each[0]))
    _check_distinct(heads)
    trends = trends_of((info, folder.latest()) for info, folder in heads)
    target = out or heads[-1][1].path.resolve().parent / "history.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    runs = [Run(info, _report_of(folder.path, target)) for info, folder in heads]
    write_atomically(target, history_html(runs, trends).encode())
    if csv_out is not None:
        csv_out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(csv_out, history_csv(trends).encode())
    return target


def _when(info: RunInfo) -> tuple[str, str]:
    return info.started, info.run_id


def _check_distinct(heads: Sequence[tuple[RunInfo, RunFolder]]) -> None:
    seen: dict[str, Path] = {}
    for info, folder in heads:
        if info.run_id in seen:
            raise ConfigError(
                f"{seen[info.run_id]} and {folder.path} hold the same run, {info.run_id}", remedy="name one of them"
            )
        seen[info.run_id] = folder.path


def _report_of(run_dir: Path, page: Path) -> str | None:
    report = run_dir / "report.html"
    if not report.is_file():
        return None
    return quote(Path(os.path.relpath(report.resolve(), page.parent.resolve())).as_posix())


def history_html(runs: Sequence[Run], trends: Sequence[Trend]) -> str:
    """Return the page; ``runs`` oldest first."""
    charts = history_chart.charts_of(trends, [(run.info.run_id, run.date) for run in runs])
    moved, quiet = moved_rows(trends), quiet_rows(trends)
    environment = page_environment()
    environment.globals.update(change=change_in_words, differs=difference_in_words)
    page: str = environment.get_template("history.html.j2").render(
        runs=runs,
        headline=headline_of(runs, trends),
        moved=moved,
        quiet=quiet[:_QUIET_SHOWN],
        more_quiet=max(0, len(quiet) - _QUIET_SHOWN),
        series=sum(len(trend.series) for trend in trends),
        charts=charts,
        charts_open=_CHARTS_OPEN,
        width=history_chart.WIDTH,
        height=history_chart.HEIGHT,
        css=Markup(asset("report.css") + asset("history.css")),  # noqa: S704 -- our own files
    )
    return page


def headline_of(runs: Sequence[Run], trends: Sequence[Trend]) -> str:
    """Return e.g. ``12 runs, 3 phones: 2 figures worse, 1 better, 57 steady``."""
    every = [series for trend in trends for series in trend.series]
    worse = sum(series.worst > 0 for series in every if series.moved)
    better = sum(series.worst <= 0 for series in every if series.moved)
    few = sum(series.course == "too few runs" for series in every)
    parts = [plural(worse, "figure") + " worse"] if worse else []
    parts += [f"{better} better"] if better else []
    parts += [f"{len(every) - worse - better - few} steady"]
    parts += [f"{few} with too few runs to tell"] if few else []
    phones = len({trend.phone_id for trend in trends})
    return f"{plural(len(runs), 'run')}, {plural(phones, 'phone')}: {', '.join(parts)}"


def history_csv(trends: Iterable[Trend]) -> str:
    """Return one line per point and one per gap. Text that a spreadsheet would run is quoted."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV_COLUMNS)
    for trend in trends:
        for series in trend.series:
            who = [trend.phone_id, trend.phone, trend.configuration, series.figure.name, series.figure.unit]
            changed = {change.after.run_id: change.ratio for change in series.changes}
            for point in series.points:
                low, high = point.interval or ("", "")
                ratio = changed.get(point.run_id, "")
                found = [point.value, low, high, point.n, series.course, ratio, *point.about, ""]
                writer.writerow(map(_cell, [*who, point.run_id, point.started, *found]))
            for gap in series.gaps:
                blank = [""] * (len(_CSV_COLUMNS) - len(who) - 3)
                writer.writerow(map(_cell, [*who, gap.run_id, gap.started, *blank, gap.why]))
    return text.getvalue()


def _cell(value: object) -> object:
    return inert(value) if isinstance(value, str) else value
