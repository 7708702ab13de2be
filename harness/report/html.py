"""``report.html``: one file that asks no other host for anything, made from the run folder alone.

A content security policy with the hashes of our own scripts stands in the page: even if a text from a phone got past
the escaping, no browser would run it or fetch for it.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment
from markupsafe import Markup

from harness.core.reasons import Verdict
from harness.plan.tiers import load_tier_rules
from harness.report import page_assets, view
from harness.report.besides import causes, deciding, remarks
from harness.report.cells import by_phone, cell_label, phone_labels
from harness.report.chart import Chart, for_script, interval, speed_chart
from harness.report.columns import kinds_of
from harness.report.environment import page_environment
from harness.report.expectation_view import expectation_rows
from harness.report.fleet import fleet_table
from harness.report.limits import phone_limits
from harness.report.meanwhile import events
from harness.report.news_file import NewsFile, read_news
from harness.report.news_words import view_of
from harness.report.page_data import FULL, LARGE, page_data
from harness.report.picker import picker
from harness.report.provenance import engines, plan_text, provenance
from harness.report.recommend_text import ChoiceTable, choices_of, tables_of, tolerance_of
from harness.report.soak import Soaks, soaks
from harness.report.summary import headline
from harness.report.threads import speed_up_in_words
from harness.report.tiers import tiers_of
from harness.report.tiers_view import tiers_view
from harness.report.variants_view import TITLES, variants_view
from harness.store.head import RunInfo
from harness.store.runfolder import RunFolder, latest_of, write_atomically
from harness.store.schema import CellRecord

# Runs of up to so many cells are told in full without a script; of larger ones the page's script shows the cells.
_IN_FULL: Final = 300
# Of a larger run: so many cells of one reason, kinds of trouble, things that happened, and curves are listed.
_LISTED: Final = 20
_KINDS_LISTED: Final = 40
_EVENTS_LISTED: Final = 100
_CURVES: Final = 400
# Curves that are drawn at once.
_CURVES_SHOWN: Final = 6
# Groups of what is wrong that are shown at once; the rest folds away.
_TROUBLES_SHOWN: Final = 6
# So much of what happened to the phones.
_EVENTS_SHOWN: Final = 12


def write_report(run_dir: Path | RunFolder, out: Path | None = None) -> Path:
    """Write ``report.html`` into the run folder, or to ``out``, whole or not at all; return where.

    Raises:
        ConfigError: ``run_dir`` is not a run folder, or its head cannot be read.
    """
    folder = RunFolder.open(run_dir)
    target = out or folder.path / "report.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    raw_base = Path(os.path.relpath(folder.path.resolve(), target.parent.resolve())).as_posix()
    with no_garbage():
        page = _page_of(folder, "" if raw_base == "." else raw_base)
    write_atomically(target, page)
    return target


def _page_of(folder: RunFolder, raw_base: str) -> bytes:
    info, attempts = folder.read_info(), list(folder.records())
    news = read_news(folder.path)
    return report_html(info, latest_of(attempts), attempts=attempts, raw_base=raw_base, news=news).encode()


@contextmanager
def no_garbage() -> Iterator[None]:
    """Spare the garbage collector a hundred thousand records that stay: looking through them takes its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


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
    environment = _environment()
    labels = phone_labels(records)
    groups = by_phone(records)
    total = len(records)
    in_full = total <= _IN_FULL
    anchors = {phone_id: f"phone-{n}" for n, phone_id in enumerate(groups, start=1)}
    chart = speed_chart(records) if in_full else Chart(None, (), f"{total} cells are too many for one chart.")
    limits = {anchors[phone_id]: phone_limits(info, group) for phone_id, group in groups.items()}
    curves = soaks(records, labels, at_most=None if in_full else _CURVES)
    data = page_data(records, labels, raw_base, FULL if in_full else LARGE)
    kinds = kinds_of(records)
    with_charts = bool(chart.figure) or not in_full or kinds.tensor
    short_ids = dict(zip((record.cell_id for record in records), data["ids"], strict=True))
    rules = load_tier_rules()
    tiers = tiers_of(info, records, rules)
    fragments = {} if in_full else _fragments(environment, groups, anchors, limits, curves)
    page: str = environment.get_template("report.html.j2").render(
        info=info,
        headline=headline(records, len(info.fleet) or len(groups)),
        engines=engines(records),
        counts=view.counts(records),
        total=total,
        in_full=in_full,
        listed=total if in_full else _LISTED,
        missing=max(0, info.cells - total),
        **_troubles(records, labels, in_full),
        events=events(records if attempts is None else attempts, info.still_left_out),
        events_shown=_EVENTS_SHOWN,
        events_listed=None if in_full else _EVENTS_LISTED,
        fleet=fleet_table(info, labels),
        choices=_choices(records, info, labels, in_full),
        tolerance=tolerance_of(info.plan),
        picker=picker(records, labels, data["ids"]),
        chart=chart,
        figure=Markup(for_script(chart.figure)) if chart.figure else None,  # noqa: S704 -- escaped by for_script
        soaks=curves,
        curves_inline=len(curves.cells) if in_full else _CURVES_SHOWN,
        phones=[view.phone_head(anchors[phone_id], labels[phone_id], group) for phone_id, group in groups.items()],
        tables={
            anchors[phone_id]: view.phone_table(anchors[phone_id], labels[phone_id], group, raw_base, kinds)
            for phone_id, group in (groups.items() if in_full else ())
        },
        short_ids=short_ids,
        kinds=kinds,
        # slots
        expectations=expectation_rows(records, labels),
        news=view_of(news, records) if news is not None else None,
        tiers=tiers_view(tiers, labels),
        variants=variants_view(records, tiers.tiers, rules, labels, short_ids) if kinds.tensor else (),
        variant_titles=TITLES,
        listed_variants=_KINDS_LISTED,
        limits=limits,
        spoken=[(labels[phone_id], view.spoken(group)) for phone_id, group in groups.items()] if in_full else [],
        refusals=view.refusals(records),
        labels=labels,
        provenance=provenance(info, records),
        plan=plan_text(info),
        css=Markup(page_assets.style()),  # noqa: S704 -- our own file
        data=page_assets.packed({**data, "fragments": fragments}) if total else None,
        plotly=page_assets.plotly_packed() if with_charts else None,
        **_scripts(with_charts=with_charts),
    )
    return page


def _scripts(*, with_charts: bool) -> dict[str, Any]:
    script = page_assets.script()
    hashes = [page_assets.csp_hash(script), *([page_assets.plotly_hash()] if with_charts else [])]
    return {"script": Markup(script), "script_hashes": hashes}  # noqa: S704 -- our own file


def _troubles(records: Sequence[CellRecord], labels: dict[str, str], in_full: bool) -> dict[str, Any]:
    wrong = view.troubles(records, labels, Verdict.REJECTED, Verdict.FAILED)
    more = wrong[_TROUBLES_SHOWN : None if in_full else _KINDS_LISTED]
    shown = wrong[:_TROUBLES_SHOWN]
    return {"wrong": shown, "more_wrong": more, "unlisted": len(wrong) - len(shown) - len(more)}


def _choices(
    records: Sequence[CellRecord], info: RunInfo, labels: Mapping[str, str], in_full: bool
) -> Sequence[ChoiceTable]:
    """Return the tables of configurations; a large run has too many of them, and the picker shows them all."""
    return tables_of(choices_of(records, info.plan), labels) if in_full else ()


def _fragments(
    environment: Environment,
    groups: Mapping[str, Sequence[CellRecord]],
    anchors: Mapping[str, str],
    limits: Mapping[str, Any],
    curves: Soaks,
) -> dict[str, str]:
    """Return the parts of a large page that are put into it when somebody opens what they belong to."""
    about = environment.get_template("phone_about.html.j2")
    found = {
        anchor: about.render(limits=limits[anchor], remarks=remarks(groups[phone_id]))
        for phone_id, anchor in anchors.items()
    }
    curve = environment.get_template("soak_macros.html.j2").module.curve  # type: ignore[attr-defined]
    for nth, soak in enumerate(curves.cells[_CURVES_SHOWN:], start=_CURVES_SHOWN + 1):
        found[f"soak-{nth}"] = str(curve(soak, curves))
    return found


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
