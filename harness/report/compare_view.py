"""A comparison of runs: a table for a terminal, Markdown for a pull request, a JSON document for programs."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any, Final

from rich import box
from rich.table import Table
from rich.text import Text

from harness.report.cells import cell_label, phone_labels
from harness.report.compare import Compared, Comparison
from harness.report.compare_figures import MAIN, Figure
from harness.report.text import cut, one_line, plural
from harness.store.schema import CellRecord

_NAME_WIDTH: Final = 60
_MOST_UNMATCHED: Final = 20
# What got worse is always shown; of all other cells the first so many.
_MOST_CELLS: Final = 100
_COLOURS: Final = {"slower": "bold red", "broken": "bold red", "faster": "green", "fixed": "green", "same": "dim"}
# Sizes and scores are not fast or slow.
_OF_NO_SPEED: Final = {
    "peak_rss_bytes": ("less", "more"), "golden": ("better", "worse"), "cosine": ("better", "worse"),
    "same_top1": ("better", "worse"), "sustained_ratio": ("better", "worse"),
}  # fmt: skip
_HEAD: Final = ("phone", "cell", "figure", "base", "new", "change (interval)", "verdict")
_STATES: Final = {"broken": "broken", "fixed": "fixed", "still": "still broken", "cannot tell": "cannot tell"}


def label_of(record: CellRecord) -> str:
    """Return a cell's name; which attempt of it was the last is nothing of its own."""
    return cell_label(record.model_copy(update={"attempt": 1}))


def headline(comparison: Comparison) -> str:
    """Return the comparison in one sentence."""
    cells = comparison.cells
    counts = {
        "broken": sum(cell.regression and cell.state == "broken" for cell in cells),
        "worse": sum(cell.regression and cell.state != "broken" for cell in cells),
        "better": sum(cell.better for cell in cells),
        "not decided": sum(cell.undecided and not cell.regression and not cell.better for cell in cells),
        "still broken": sum(cell.state == "still" for cell in cells),
    }
    counts["without a change beyond " + _percent(comparison.bound)] = len(cells) - sum(counts.values())
    parts = [f"{count} {what}" for what, count in counts.items() if count]
    apart = f"; {plural(len(comparison.unmatched), 'cell')} not compared" if comparison.unmatched else ""
    return f"{plural(len(cells), 'cell')} compared: {', '.join(parts) or 'nothing'}{apart}"


def caveats(comparison: Comparison) -> list[str]:
    """Return what has to be known to read the table."""
    lines = list(comparison.notes)
    hidden = len(comparison.cells) - len(_shown_cells(comparison))
    if hidden:
        lines.append(f"{plural(hidden, 'cell')} that did not get worse {'is' if hidden == 1 else 'are'} only in --json")
    chance = comparison.by_chance
    if chance >= 0.5 and any(cell.worse and cell.check != "confirmed" for cell in comparison.regressions):
        lines.append(
            f"of so many figures about {chance:.1f} would be called worse by chance alone: --verify measures them again"
        )
    return lines


def verdict_of(figure: Figure) -> str:
    """Return the verdict of a figure in words."""
    words = _OF_NO_SPEED.get(figure.name)
    if words is not None and figure.change.verdict in ("faster", "slower"):
        return words[figure.change.verdict == "slower"]
    return one_line(figure.change.words)


def change_text(figure: Figure) -> str:
    """Return a change with its interval, e.g. ``-4.9 % (-6.2 to -3.5)``."""
    if figure.change.ratio is None or figure.change.ci95 is None:
        return figure.note or "—"
    low, high = figure.change.ci95
    return f"{_signed(figure.change.ratio)} % ({_signed(low)} to {_signed(high)})"


def comparison_table(comparison: Comparison) -> Table:
    """Return a row per cell and figure, the worst first. What was no change at all is told by speed alone."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1))
    for title in _HEAD:
        right = title in ("base", "new", "change (interval)")
        table.add_column(title, justify="right" if right else "left", overflow="fold")
    for row in _rows(comparison):
        table.add_row(*(Text(text) for text in row.texts[:-1]), Text(row.texts[-1], style=row.style))
    return table


class _Row:
    def __init__(self, texts: Sequence[str], style: str) -> None:
        self.texts, self.style = tuple(texts), style


def _rows(comparison: Comparison) -> list[_Row]:
    labels = phone_labels(record for cell in comparison.cells for record in (cell.base, cell.new))
    rows = []
    for cell in _shown_cells(comparison):
        name = [labels[cell.new.phone.id], cut(label_of(cell.new), _NAME_WIDTH)]
        if cell.state != "compared":
            verdict = f"{_STATES[cell.state]}: {cell.words}{_checked(cell)}"
            rows.append(_Row([*name, "", "", "", "", verdict], _COLOURS.get(cell.state, "")))
        for figure in worth_showing(cell):
            note = f" ({figure.note})" if figure.note and figure.change.ratio is not None else ""
            checked = note + (_checked(cell) if figure.worse else "")
            texts = [*name, figure.title, figure.base or "—", figure.new or "—", change_text(figure)]
            rows.append(_Row([*texts, verdict_of(figure) + checked], _COLOURS.get(figure.change.verdict, "")))
            name = ["", ""]
        rows += [_Row(["", text, "", "", "", "", ""], "") for text in (*cell.differs, *cell.marks)]
    return rows


def _shown_cells(comparison: Comparison) -> tuple[Compared, ...]:
    return comparison.cells[: max(_MOST_CELLS, len(comparison.regressions))]


def worth_showing(cell: Compared) -> list[Figure]:
    """Return the figures that a row is worth: what the cell is about, and whatever changed."""
    return [one for one in cell.figures if one.name in MAIN or one.change.verdict in ("faster", "slower")]


def _checked(cell: Compared) -> str:
    return "" if not cell.check else f" ({cell.check}{': ' + one_line(cell.checked) if cell.checked else ''})"


def unmatched_lines(comparison: Comparison) -> list[str]:
    """Return which cells are not compared, each with its reason."""
    lines = [
        f"not compared: {one_line(each.record.phone.name)} {label_of(each.record)} ({each.side}): {each.why}"
        for each in comparison.unmatched[:_MOST_UNMATCHED]
    ]
    more = len(comparison.unmatched) - len(lines)
    return lines + ([f"not compared: {more} more (--json names them)"] if more > 0 else [])


def as_markdown(comparison: Comparison) -> str:
    """Return the comparison for a pull request. What comes from a phone or a model is escaped."""
    mark = "🔴" if comparison.regressions else "🟢"
    runs = f"`{_code(comparison.base)}` → `{_code(comparison.new)}`"
    lines = [f"## {mark} {_md(headline(comparison))}", "", runs, ""]
    if comparison.cells:
        lines += [f"| {' | '.join(_HEAD)} |", "| --- | --- | --- | ---: | ---: | ---: | --- |"]
        for row in _rows(comparison):
            bold = "**" if row.style.startswith("bold") else ""
            texts = [_md(text) for text in row.texts]
            lines.append("| " + " | ".join([*texts[:-1], f"{bold}{texts[-1]}{bold}" if texts[-1] else ""]) + " |")
        lines.append("")
    lines += [f"- {_md(line)}" for line in (*caveats(comparison), *unmatched_lines(comparison))]
    return "\n".join(lines).rstrip() + "\n"


def _md(text: str) -> str:
    """Return text that is no markup in a cell of a Markdown table."""
    escaped = html.escape(one_line(text), quote=False)
    for character in "\\`*_[]|~#@":
        escaped = escaped.replace(character, f"\\{character}")
    return escaped


def _code(text: str) -> str:
    return one_line(text).replace("`", "'")


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as one document; ``regression`` is what the exit status says."""
    return {
        "schema": 1,
        "base": comparison.base,
        "new": comparison.new,
        "bound": comparison.bound,
        "regression": bool(comparison.regressions),
        "summary": headline(comparison),
        "worse_by_chance": round(comparison.by_chance, 2),
        "notes": list(comparison.notes),
        "cells": [_cell(cell) for cell in comparison.cells],
        "not_compared": [{"side": each.side, **_named(each.record), "why": each.why} for each in comparison.unmatched],
    }


def _named(record: CellRecord) -> dict[str, Any]:
    return {
        "phone": {"id": record.phone.id, "name": record.phone.name, "model": record.phone.model},
        "cell": label_of(record),
        "cell_id": record.cell_id,
    }


def _cell(cell: Compared) -> dict[str, Any]:
    return {
        **_named(cell.new),
        "base_cell_id": cell.base.cell_id,
        "run_ids": [cell.base.run_id, cell.new.run_id],
        "raw": [cell.base.raw, cell.new.raw],
        "state": cell.state,
        "words": cell.words,
        "regression": cell.regression,
        "check": cell.check or None,
        "checked": cell.checked,
        "differs": list(cell.differs),
        "marks": list(cell.marks),
        "figures": [_figure(figure) for figure in cell.figures],
    }


def _figure(figure: Figure) -> dict[str, Any]:
    change = figure.change
    return {
        "name": figure.name,
        "base": figure.values[0],
        "new": figure.values[1],
        "shown": [figure.base, figure.new],
        "verdict": change.verdict,
        "words": verdict_of(figure),
        "ratio": change.ratio,
        "ci95": list(change.ci95) if change.ci95 is not None else None,
        "more_repeats": change.more_repeats,
        "why": change.why,
        "note": figure.note,
    }


def _percent(share: float) -> str:
    return f"{share * 100:g} %"


def _signed(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f}"
