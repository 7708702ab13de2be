"""``summary.md``: the run as a comment of a pull request. Red or green, whose fault, what to use, top figures.

What comes from phones, models and logs stands in ``<code>``, every character that means anything in Markdown or HTML as
a numeric entity: none of it can break a table, make a link or call somebody by name (code is not searched for names).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.core.reasons import Verdict
from harness.plan.tiers import load_tier_rules
from harness.report.cells import by_phone, cell_label, phone_labels, value_at
from harness.report.news_file import NewsFile, read_news
from harness.report.news_words import Group, NewsView, view_of
from harness.report.recommend_text import choices_of, lines_of
from harness.report.summary import headline
from harness.report.tensors import accuracy_of, cosine_text, is_tensor, latency_at, ms_text
from harness.report.text import cut, mebibytes, number, one_line, plural
from harness.report.tiers import tiers_of, variant_lines
from harness.report.variants import models_of, setting_of
from harness.store.head import RunInfo
from harness.store.runfolder import RunFolder, write_atomically
from harness.store.schema import CellRecord

# What forges take as one comment is 65536 characters; a character has up to four bytes.
MAX_BYTES: Final = 60_000
_GROUPS: Final = 12
_FIGURES: Final = 12
_CELLS_NAMED: Final = 30
_DETAILS: Final = 60
_WIDTH: Final = 200
# Harmless are letters, digits and these; a colon and a full stop where they cannot be part of an address, an underscore
# within a word.
_SPECIAL: Final = re.compile(r"[^\w\s,;()/%:.\-→·°—–…±_]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?!\s|$)|\.(?!\d|\s|$)")
_LEFT_OUT: Final = "\n_The rest is in the run folder's report._\n"


def write_summary(run_dir: Path | RunFolder, out: Path | None = None) -> Path:
    """Write ``summary.md`` (or ``out``), whole or not at all; return where.

    Raises:
        ConfigError: ``run_dir`` is not a run folder, or its head cannot be read.
    """
    folder = RunFolder.open(run_dir)
    target = out or folder.path / "summary.md"
    write_atomically(target, summary_md(folder.read_info(), folder.latest(), read_news(folder.path)).encode())
    return target


def summary_md(info: RunInfo, records: Sequence[CellRecord], news: NewsFile | None = None) -> str:
    """Return the summary, at most :data:`MAX_BYTES` long in UTF-8; what does not fit is left out from the end."""
    view = view_of(news, records) if news is not None else None
    counted = headline(records, len(info.fleet) or len(by_phone(records)))
    blocks = [
        f"### {plain(view.headline.text if view is not None else counted)}\n",
        *([f"{plain(counted)}\n"] if view is not None else []),
        *(_news_table(view) if view is not None else ()),
        *_choices(info, records),
        *_figures(records),
        *_variants(info, records),
        *(_details(view) if view is not None else ()),
        _provenance(info),
    ]
    return _fitting(blocks)


def plain(text: str) -> str:
    """Return ``text`` on one line as text: every character that Markdown or HTML could read as more is an entity."""
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", one_line(text))


def code(text: str) -> str:
    """Return a text from a phone, a model or a log: cut, on one line, in a code element."""
    return f"<code>{plain(cut(text, _WIDTH))}</code>" if text else ""


def _fitting(blocks: Sequence[str]) -> str:
    """Join blocks while they fit; one that does not is left out whole, so that no table or element is cut open."""
    room = MAX_BYTES - len(_LEFT_OUT.encode())
    taken: list[str] = []
    for block in blocks:
        size = len(block.encode()) + 1
        if size > room:
            return "\n".join(taken) + _LEFT_OUT
        room -= size
        taken.append(block)
    return "\n".join(taken)


def _news_table(view: NewsView) -> list[str]:
    if not view.groups:
        return []
    rows = ["| news | whose fault | what | where | what to do |", "| --- | --- | --- | --- | --- |"]
    rows += [_news_row(group, compared=view.against is not None) for group in view.groups[:_GROUPS]]
    if len(view.groups) > _GROUPS:
        rows.append(f"| | | {plural(len(view.groups) - _GROUPS, 'more group')} in the report | | |")
    return ["\n".join(rows) + "\n"]


def _news_row(group: Group, *, compared: bool) -> str:
    ticket = f" {plain(group.ticket)}" if group.ticket is not None else ""
    what = " ".join(filter(None, (code(group.what), code(group.words))))
    # Our own advice is Markdown; what triage found in a log is not.
    do = code(group.do) if group.from_logs else group.do
    return (
        f"| **{group.label(compared)}**{ticket} | {group.whose or '—'} | {what} | {code(group.where)} | {do or '—'} |"
    )


def _choices(info: RunInfo, records: Sequence[CellRecord]) -> list[str]:
    lines = lines_of(choices_of(records, info.plan)) if records else []
    return ["**What to use**\n", "".join(f"- {code(line.strip())}\n" for line in lines)] if lines else []


def _figures(records: Sequence[CellRecord]) -> list[str]:
    """Return the fastest proven cell of each phone and model."""
    labels = phone_labels(records)
    best: dict[tuple[str, str], CellRecord] = {}
    for record in records:
        key = (record.phone.id, record.model.hash)
        if (
            record.verdict is Verdict.OK
            and not is_tensor(record)
            and (key not in best or _decode(record) > _decode(best[key]))
        ):
            best[key] = record
    if not best:
        return []
    rows = [
        "| phone | fastest proven cell | TTFT ms | prefill tok/s | decode tok/s | peak MiB |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for record in list(best.values())[:_FIGURES]:
        figures = [_shown(record, path) for path in ("ttft_ms.p50", "prefill_tps.median", "decode_tps.median")]
        figures.append(_mib(value_at(record, "metrics", "peak_rss_bytes")))
        rows.append(f"| {code(labels[record.phone.id])} | {code(cell_label(record))} | {' | '.join(figures)} |")
    if len(best) > _FIGURES:
        rows.append(f"| {len(best) - _FIGURES} more in the report | | | | | |")
    return ["\n".join(rows) + "\n"]


def _variants(info: RunInfo, records: Sequence[CellRecord]) -> list[str]:
    """Return the variants of each model side by side, tier by tier, and which one to ship."""
    cells = [record for record in records if is_tensor(record)]
    if not cells:
        return []
    rows = [
        "| model | variant | tier, worst phone | weights | fastest setting | latency ms | p90 | peak MiB | cosine |",
        "| --- | --- | --- | ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    found = [(model, side, tier) for model in models_of(cells) for side in model.sides for tier in side.tiers]
    for model, side, tier in found[:_FIGURES]:
        accuracy = accuracy_of(tier.least) if tier.least is not None else None
        peak = value_at(tier.largest, "metrics", "peak_rss_bytes") if tier.largest is not None else None
        cosine = "—" if accuracy is None or accuracy.cosine is None else cosine_text(accuracy.cosine)
        words = (code(model.name), code(side.variant.stored or side.variant.name), code(tier.tier))
        size, setting = mebibytes(side.variant.weight_bytes), code(setting_of(tier.slowest))
        latency = (latency_at(tier.slowest, name) for name in ("p50", "p90"))
        figures = (*("—" if one is None else ms_text(one) for one in latency), _mib(peak), cosine)
        rows.append(f"| {' | '.join((*words, size, setting, *figures))} |")
    if len(found) > _FIGURES:
        rows.append(f"| {len(found) - _FIGURES} more in the report | | | | | | | | |")
    lines = [line for tier in tiers_of(info, cells, load_tier_rules()).tiers for line in variant_lines(tier)]
    ship = "".join(f"- {code(line)}\n" for line in lines[:_FIGURES])
    return ["\n".join(rows) + "\n"] * bool(found) + (["**What to ship**\n", ship] if ship else [])


def _mib(size: float | None) -> str:
    return "—" if size is None else number(size / 2**20)


def _decode(record: CellRecord) -> float:
    return float(value_at(record, "metrics", "decode_tps.median") or 0.0)


def _shown(record: CellRecord, path: str) -> str:
    value = value_at(record, "metrics", path)
    return "—" if value is None else number(value)


def _details(view: NewsView) -> list[str]:
    """Return a folded list of cells per group, and what is to be done about known issues."""
    blocks = []
    for group in view.groups[:_DETAILS]:
        cells = [
            f"- {code(f'{cell.phone}: {cell.cell}')}" + (f" {code(cell.words)}" if cell.words else "")
            for cell in group.cells[:_CELLS_NAMED]
        ]
        if len(group.cells) > _CELLS_NAMED:
            cells.append(f"- {len(group.cells) - _CELLS_NAMED} more in the report")
        title = " ".join(filter(None, (group.label(view.against is not None), code(group.what), code(group.where))))
        blocks.append(f"<details><summary>{title}</summary>\n\n" + "\n".join(cells) + "\n\n</details>\n")
    if view.issues:
        blocks.append("".join(f"- {code(line)}\n" for line in view.issues[:_CELLS_NAMED]))
    return blocks


def _provenance(info: RunInfo) -> str:
    return f"<sub>run {code(info.run_id)}, plan {code(info.plan_name)}, mnn-farm {code(info.harness_version)}</sub>\n"
