"""``mnn-farm diff``: what differs between a phone that works and one that does not, and could matter."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.commands.diff_sides import read_side
from harness.commands.output import Adb, Json, print_json, say
from harness.triage.difference import Comparison, Difference, Unknown, as_json, compare, ratio_of
from harness.triage.entry import printable
from harness.triage.side import Side, Value

_NARROWEST = 120
_HASH_LENGTH = 12
_MOST_TEXT = 80
# Fields that are unknown are named from this weight on; the rest is a count.
_WORTH_NAMING = 60
_WHAT = "SERIAL, RUN:PHONE, RUN#CELL, FILE.json or FILE.json:PHONE."


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help=f"What works: {_WHAT}")],
    b: Annotated[str, typer.Argument(metavar="B", help="What does not: likewise.")],
    as_json_: Json = False,
    everything: Annotated[bool, typer.Option("--all", help="Show differences that hardly matter too.")] = False,
    adb: Adb = None,
) -> None:
    """Say what differs between two phones, or two cells of runs, that could matter; what explains a failure first.

    SERIAL: any phone that --device takes; its facts are read now.

    RUN: a run folder or its results.jsonl. RUN:PHONE is a phone in it (name, serial or id).

    RUN#CELL: a cell of it, by the first digits of its id.

    FILE.json: what `mnn-farm devices --json` printed.

    Exit status 0: no difference that could matter; 1: there is one.
    """
    found = compare(read_side(a, adb), read_side(b, adb))
    if as_json_:
        print_json(as_json(found))
    else:
        _print(found, everything)
    raise typer.Exit(1 if found.matters else 0)


def _print(found: Comparison, everything: bool) -> None:
    for letter, side in (("A", found.a), ("B", found.b)):
        say(f"{letter}: {printable(side.name)}{_ended(side)}")
    for line in _measured(found):
        say(f"   {line}")
    shown = found.differences if everything else found.matters
    if shown:
        console = Console(highlight=False)
        if not console.is_terminal:
            console = Console(highlight=False, width=max(console.width, _NARROWEST))
        console.print(_table(shown, explained=bool(found.kinds)))
    else:
        say("No difference that could matter is known.")
    folded = len(found.differences) - len(shown)
    hidden = f"; {folded} more differ and hardly matter (--all shows them)" if folded else ""
    say(f"{found.same} compared the same{hidden}")
    for line in _unknown(found.unknown, everything):
        say(line)


def _ended(side: Side) -> str:
    verdict = side.outcomes.get("verdict")
    if verdict is None:
        return ""
    return f": {verdict}" + (f" ({side.reason})" if side.reason else "")


def _measured(found: Comparison) -> list[str]:
    lines = []
    for name in found.a.outcomes:
        ratio = ratio_of(found.a, found.b, name)
        if ratio is not None:
            values = (shown(name, side.outcomes[name]) for side in (found.a, found.b))
            lines.append(f"{name}: {' → '.join(values)} (B is {ratio:.2f} times A)")
    return lines


def _table(differences: tuple[Difference, ...], explained: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("field", "A", "B", "why it matters"):
        table.add_column(title, overflow="fold")
    # CPU features that one side lacks and that mean the same are one row.
    for _, alike in groupby(differences, key=lambda one: (one.ranking, one.a, one.b, one.name.rpartition(".")[0])):
        one, *others = alike
        mark = "* " if one.told else "  " if explained else ""
        name = ", ".join([one.name, *(other.name.rpartition(".")[2] for other in others)])
        row = (f"{mark}{name}", shown(one.name, one.a), shown(one.name, one.b), one.ranking.why)
        # Texts, so that a bracket in a phone's word is no markup.
        table.add_row(*(Text(printable(cell)) for cell in row))
    if explained:
        table.caption = "* explains this kind of failure"
        table.caption_justify = "left"
    return table


def _unknown(unknown: tuple[Unknown, ...], everything: bool) -> list[str]:
    named = [one for one in unknown if everything or one.told or one.weight >= _WORTH_NAMING]
    alike: dict[str, list[str]] = {}
    for one in named:
        whys = [f"{letter}: {why}" for letter, why in (("A", one.why_a), ("B", one.why_b)) if why is not None]
        why = f"both: {one.why_a}" if one.why_a == one.why_b else "; ".join(whys)
        alike.setdefault(why, []).append(one.name)
    lines = [printable(f"not compared: {', '.join(names)} ({why})") for why, names in alike.items()]
    if len(named) < len(unknown):
        lines.append(f"not compared: {len(unknown) - len(named)} more (--all shows them)")
    return lines


def shown(name: str, value: Value) -> str:
    """Return a value as people read it: by the unit in its field's name."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value in ("", ()):
        return "none"
    if isinstance(value, tuple):
        return ", ".join(value)[:_MOST_TEXT]
    if isinstance(value, str):
        return value[:_HASH_LENGTH] if name.endswith("hash") else value[:_MOST_TEXT]
    if name.endswith("_bytes") or name == "page_size":
        return _size(value)
    if name.endswith("_khz"):
        return f"{value / 1e6:.2f} GHz"
    for ending, unit in (("_pct", "%"), ("_c", "°C"), ("_ms", "ms"), ("_tps", "tok/s")):
        if name.endswith(ending):
            return f"{value:.4g} {unit}"
    return str(value)


def _size(count: float) -> str:
    for unit, size in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if abs(count) >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count:g} B"
