"""``report.html``: one file that asks no other host for anything, made from the run folder alone.

A content security policy with the hashes of our own scripts stands in the page: even if a text from a phone got past
the escaping, no browser would run it or fetch for it.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from jinja2 import Environment
from markupsafe import Markup

from harness.core.reasons import Verdict
from harness.plan.tiers import load_tier_rules
from harness.report import view
from harness.report.besides import causes, deciding
from harness.report.cells import by_phone, cell_label, phone_labels
from harness.report.chart import for_script, interval, plotly_source, speed_chart
from harness.report.environment import asset, page_environment
from harness.report.expectation_view import expectation_rows
from harness.report.fleet import fleet_table
from harness.report.limits import phone_limits
from harness.report.meanwhile import events
from harness.report.news_file import NewsFile, read_news
from harness.report.news_words import view_of
from harness.report.recommend_text import choices_of, tables_of, tolerance_of
from harness.report.soak import soaks
from harness.report.summary import headline
from harness.report.threads import speed_up_in_words
from harness.report.tiers import tiers_of
from harness.report.tiers_view import tiers_view
from harness.store.head import RunInfo
from harness.store.runfolder import RunFolder, write_atomically
from harness.store.schema import CellRecord

# Groups of what is wrong that are shown at once; the rest folds away.
_TROUBLES_SHOWN: Final = 6
# So much of what happened to the phones.
_EVENTS_SHOWN: Final = 12


def write_report(run_dir: Path, out: Path | None = None) -> Path:
    """Write ``report.html`` into the run folder, or to ``out``, whole or not at all; return where.

    Raises:
        ConfigError: ``run_dir`` is not a run folder, or its head cannot be read.
    """
    folder = RunFolder.open(run_dir)
    target = out or run_dir / "report.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    raw_base = Path(os.path.relpath(run_dir.resolve(), target.parent.resolve())).as_posix()
    page = report_html(
        folder.read_info(),
        folder.latest(),
        attempts=list(folder.records()),
        news=read_news(run_dir),
        raw_base="" if raw_base == "." else raw_base,
    )
    write_atomically(target, page.encode())
    return target


def report_html(
    info: RunInfo,
    records: Sequence[CellRecord],
    *,
    attempts: Sequence[CellRecord] | None = None,
    raw_base: str = "",
    news: NewsFile | None = None,
) -> str:
    """Return the page.

    ``records`` are the attempts that count, ``attempts`` all of them if there are more; ``raw_base`` leads from the
    page to the run folder; ``news`` are those told at the end of the run.
    """
    labels = phone_labels(records)
    groups = by_phone(records)
    chart = speed_chart(records)
    scripts = [plotly_source(), asset("report.js")] if chart.figure else []
    wrong = view.troubles(records, labels, Verdict.REJECTED, Verdict.FAILED)
    tables = [
        view.phone_table(f"phone-{n}", labels[phone_id], group, raw_base)
        for n, (phone_id, group) in enumerate(groups.items(), start=1)
    ]
    page: str = (
        _environment()
        .get_template("report.html.j2")
        .render(
            info=info,
            headline=headline(records, len(info.fleet) or len(groups)),
            engines=view.engines(records),
            counts=view.counts(records),
            total=len(records),
            missing=max(0, info.cells - len(records)),
            wrong=wrong[:_TROUBLES_SHOWN],
            more_wrong=wrong[_TROUBLES_SHOWN:],
            events=events(records if attempts is None else attempts, info.still_left_out),
            events_shown=_EVENTS_SHOWN,
            fleet=fleet_table(info, labels),
            choices=tables_of(choices_of(records, info.plan), labels),
            tolerance=tolerance_of(info.plan),
            chart=chart,
            figure=Markup(for_script(chart.figure)) if chart.figure else None,  # noqa: S704 -- escaped by for_script
            soaks=soaks(records, labels),
            tables=tables,
            # slots
            expectations=expectation_rows(records, labels),
            news=view_of(news, records) if news is not None else None,
            tiers=tiers_view(tiers_of(info, records, load_tier_rules()), labels),
            limits={
                table.anchor: phone_limits(info, group) for table, group in zip(tables, groups.values(), strict=True)
            },
            spoken=[(labels[phone_id], view.spoken(group)) for phone_id, group in groups.items()],
            refusals=view.refusals(records),
            labels=labels,
            provenance=view.provenance(info, records),
            plan=view.plan_text(info),
            css=Markup(asset("report.css")),  # noqa: S704 -- our own file
            scripts=[Markup(script) for script in scripts],  # noqa: S704 -- our own file and plotly's
            script_hashes=[_csp_hash(script) for script in scripts],
        )
    )
    return page


def _environment() -> Environment:
    environment = page_environment()
    environment.globals.update(
        cell_label=cell_label,
        causes=causes,
        deciding=deciding,
        interval=interval,
        raw_link=view.raw_link,
        speed_up=speed_up_in_words,
    )
    return environment


def _csp_hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
