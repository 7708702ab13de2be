"""``make bench``: what the harness costs, beside adb, adbutils and mobly. A table on stderr, JSON on stdout.

Exit 1 when a gate is missed. See docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks import suite_cells, suite_phone, suite_start
from benchmarks.adb import provided
from benchmarks.against import Change, baseline_of, read_baseline, worse
from benchmarks.beside import Compared
from benchmarks.peers import Peers
from benchmarks.push import BUSY, Gate

BASELINE = Path(__file__).with_name("baseline.json")
# By measure: the most ms that ours may take in the middle.
MOST_MS = {
    "overhead of a cell": 100.0,
    "overhead of a cell, with push": 250.0,
    "facts of a phone": 400.0,
    "start: --help": 300.0,
    f"start: --dry-run-plan, {suite_start.PHONES} phones": 2000.0,
}
MOST_FACTS_CALLS = 3


def measures() -> Iterator[Compared | Mapping[str, Any]]:
    """Measure all, one after the other; what is no measure with ways is a mapping of figures."""
    with provided("high") as endpoint:
        peers = Peers(endpoint)
        yield from suite_phone.measures(endpoint, peers)
        yield {"facts_shell_calls": suite_phone.facts_calls(endpoint)}
        yield from suite_cells.measures(endpoint, peers)
        yield from suite_start.starts(peers)
        yield {"memory_pss_mb": suite_start.memory(endpoint, peers)}
    yield suite_start.dry_run()


def gates_of(measured: Iterable[Compared], figures: Mapping[str, Any]) -> list[Gate]:
    """Return the gates with what came out."""
    timed = [
        Gate(f"{one.name}, ms", one.ours.median, most=MOST_MS[one.name]) for one in measured if one.name in MOST_MS
    ]
    return [*timed, Gate("facts of a phone, shell calls", figures["facts_shell_calls"], most=MOST_FACTS_CALLS)]


def table(measured: Iterable[Compared]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"{'':<36}{'ours':>10}   beside others: ours ÷ theirs (95 % interval)"
    for one in measured:
        ratios = [
            f"{peer} {one.ratio(peer).median:.2f} ({one.ratio(peer).low:.2f} to {one.ratio(peer).high:.2f})"
            for peer in one.peers
        ]
        yield f"{one.name:<36}{one.ours.median:>7.1f} {one.unit}   {', '.join(ratios) or '–'}"
        for peer, why in one.cannot.items():
            yield f"{'':<49}{peer}: {why}"


def host() -> dict[str, Any]:
    """Return what was measured on and with; no names or paths of this computer."""
    found = {}
    for package in ("adbutils", "mobly", "pytest"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    system = {"system": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()}
    return {**system, "load_before": round(os.getloadavg()[0], 2), "versions": found}


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, and say by the exit status whether every gate is kept."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, help="write the JSON there instead of to stdout")
    parser.add_argument(
        "--against", type=Path, help=f"mark what got worse since that run or baseline ({BASELINE.name})"
    )
    parser.add_argument("--save-baseline", type=Path, help="write what later runs compare with")
    options = parser.parse_args(words)
    try:
        before = read_baseline(options.against) if options.against else None
    except ValueError as error:
        parser.error(str(error))
    about = host()
    measured: list[Compared] = []
    figures: dict[str, Any] = {}
    for one in measures():
        if isinstance(one, Compared):
            measured.append(one)
            sys.stderr.write(f"… {one.name}: {one.ours.median:.1f} {one.unit}\n")
        else:
            figures |= one
    gates = gates_of(measured, figures)
    changes = worse(measured, before) if before is not None else []
    _show(measured, figures, gates, changes, about)
    told = {
        "schema": 1,
        "host": about,
        "passed": all(gate.passed for gate in gates),
        "gates": {gate.name: gate.as_dict() for gate in gates},
        "measures": {one.name: one.as_dict() for one in measured},
        **figures,
        "worse": [change.sentence() for change in changes],
        "baseline": baseline_of(measured),
    }
    text = json.dumps(told, indent=1, ensure_ascii=False) + "\n"
    if options.json:
        options.json.write_text(text)
    else:
        sys.stdout.write(text)
    if options.save_baseline:
        options.save_baseline.write_text(json.dumps(told["baseline"], indent=1, ensure_ascii=False) + "\n")
    return 0 if told["passed"] else 1


def _show(
    measured: Sequence[Compared],
    figures: Mapping[str, Any],
    gates: Sequence[Gate],
    changes: Sequence[Change],
    about: Mapping[str, Any],
) -> None:
    memory = ", ".join(f"{name} {value} MB" for name, value in figures["memory_pss_mb"].items() if name != "cannot")
    lines = ["", *table(measured), f"{'memory (PSS)':<36}{memory}", "", *(gate.row() for gate in gates)]
    lines += [change.sentence() for change in changes]
    if about["load_before"] > BUSY * (about["cpus"] or 1):
        lines.append(f"The computer was busy before it began (load {about['load_before']}): times are worth little.")
    sys.stderr.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
