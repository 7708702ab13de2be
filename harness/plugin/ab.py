"""What a run with ``--ab`` tells in the end: the table of what B changed against A, and ``ab.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from harness.plugin.bundles import TwoBuilds
from harness.report.ab import pairs_of
from harness.report.compare import Comparison, compare_builds
from harness.report.compare_view import as_json, caveats, comparison_table, headline
from harness.store.runfolder import write_atomically
from harness.store.schema import CellRecord

AB_JSON = "ab.json"


def compared(builds: TwoBuilds, records: Iterable[CellRecord]) -> Comparison:
    """Return what the build B changed against A, from all attempts in the order written."""
    names = tuple(f"{arm}: {one.manifest.name} ({one.hash[:8]})" for arm, one in (("A", builds.a), ("B", builds.b)))
    return compare_builds(records, names=(names[0], names[1]), alike=builds.a.hash == builds.b.hash)


def write_ab(folder: Path, comparison: Comparison) -> Path:
    """Write ``ab.json`` into a run folder and return its path.

    Raises:
        OSError: it cannot be written.
    """
    path = folder / AB_JSON
    write_atomically(path, json.dumps(as_json(comparison), indent=1).encode() + b"\n")
    return path


def lines_of(comparison: Comparison, console: Console) -> list[str]:
    """Return the table and what has to be known to read it, line by line."""
    with console.capture() as capture:
        console.print(comparison_table(comparison))
    table = [line for line in capture.get().rstrip("\n").split("\n") if line.strip()]
    return [f"{comparison.base} → {comparison.new}", *table, headline(comparison), *caveats(comparison)]


def counting(records: Iterable[CellRecord]) -> list[CellRecord]:
    """Return every latest turn of both builds: each of them says what became of its cell."""
    return [record for pair in pairs_of(records) for record in pair.records]
