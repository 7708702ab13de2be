"""``mnn-farm compare``: what changed from one run to another, or between the two builds of a run with ``--ab``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness.commands.output import Adb, Json, print_json, say, tell
from harness.core.errors import ConfigError
from harness.report.compare import Comparison, compare_builds, compare_runs
from harness.report.compare_history import between_of
from harness.report.compare_view import as_json, as_markdown, caveats, comparison_table, headline, unmatched_lines
from harness.store.head import RunInfo
from harness.store.runfolder import RunFolder, write_atomically
from harness.store.schema import CellRecord


@dataclass(frozen=True)
class Run:
    """A run as it was read: ``records`` are all attempts, in the order written."""

    folder: RunFolder
    info: RunInfo
    records: tuple[CellRecord, ...]


_NARROWEST = 120


def compare(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="The run folder from before.")],
    new: Annotated[
        Path | None, typer.Argument(metavar="NEW", help="That of now; leave it out for a run with --ab: B against A.")
    ] = None,
    as_json_: Json = False,
    bound: Annotated[str, typer.Option("--bound", help="A change by less is none, e.g. 3% or 0.03.")] = "3%",
    across: Annotated[
        bool, typer.Option("--across", help="Compare phones of the same model with each other, too; it is marked.")
    ] = False,
    history: Annotated[
        list[Path] | None,
        typer.Option("--history", help="A run of an unchanged build, to learn how far runs differ; again for more."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--verify", help="Measure what got worse again on the same phone, both builds by turns.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write it as Markdown, too, for a pull request.")] = None,
    adb: Adb = None,
) -> None:
    """Compare two runs cell by cell: faster, slower, same, or cannot tell and how many more repeats it takes.

    Exit status 1: something got worse and measuring again has not refuted it; 0: nothing did; 2: wrong usage.
    """
    share = read_share("--bound", bound)
    before = _read(base)
    now = before if new is None else _read(new)
    comparison = _compare(before, now, share, across, history or [])
    if check:
        # What reaches phones is imported when it is needed: the rest does without.
        from harness.commands.compare_verify import verify

        comparison = verify(comparison, before, now, tell, adb)
    if out is not None:
        _write(out, comparison)
    if as_json_:
        print_json(as_json(comparison))
    else:
        _print(comparison)
    raise typer.Exit(1 if comparison.regressions else 0)


def read_share(option: str, text: str) -> float:
    """Read a share: ``3%`` or ``0.03``.

    Raises:
        ConfigError: it is none between 0 and 1.
    """
    number, percent = text.strip().removesuffix("%").strip(), text.strip().endswith("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise ConfigError(f"{option} {text}: it is no share between 0 and 1", remedy="write it like 3% or 0.03")
    return share


def _read(path: Path) -> Run:
    folder = RunFolder.open(path.parent if path.name == "results.jsonl" else path)
    return Run(folder, folder.read_info(), tuple(folder.records()))


def _compare(before: Run, now: Run, share: float, across: bool, history: Sequence[Path]) -> Comparison:
    names = (f"{before.info.run_id} ({before.folder.path})", f"{now.info.run_id} ({now.folder.path})")
    if before.folder.path.resolve() == now.folder.path.resolve():
        if now.info.ab is None or now.info.bundle is None:
            raise ConfigError(
                f"{before.folder.path} is a run of one build: there is nothing to compare it with",
                remedy="name another run, or one that was made with --ab",
            )
        second = now.info.ab.bundle
        builds = (f"A: {now.info.bundle.name} ({now.info.bundle.hash[:8]})", f"B: {second.name} ({second.hash[:8]})")
        alike = second.hash == now.info.bundle.hash
        return compare_builds(now.records, names=builds, bound=share, alike=alike)
    between = between_of([_read(path).records for path in history]) if history else {}
    comparison = compare_runs(before.records, now.records, names=names, bound=share, across=across, between=between)
    if not history:
        return comparison
    told = (
        ", ".join(f"{name} {cv * 100:.2g} %" for name, cv in between.items()) or "nothing, too few cells are in several"
    )
    return comparison.with_cells(comparison.cells, f"the history says of the spread between runs: {told}")


def _write(out: Path, comparison: Comparison) -> None:
    try:
        write_atomically(out, as_markdown(comparison).encode())
    except OSError as error:
        raise ConfigError(f"--out {out} cannot be written ({error.strerror})", remedy="name another file") from error


def _print(comparison: Comparison) -> None:
    say(f"{comparison.base} → {comparison.new}")
    if comparison.cells:
        console = Console(highlight=False)
        if not console.is_terminal:
            console = Console(highlight=False, width=max(console.width, _NARROWEST))
        console.print(comparison_table(comparison))
    for line in (*unmatched_lines(comparison), *caveats(comparison), headline(comparison)):
        say(line)
