"""Many phones at one computer: ``make bench-fleet``, JSON out, a table on stderr; exit 1 on a missed gate.

The same plan through ``pytest --devices`` on one phone, then on all: with cells that only wait, phones and not this
computer are the limit, and many should take little longer than one. The phones are virtual ones behind a real adb
server, which the run meets as it meets any phone. What they and the adb server hold is no part of what is judged.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.fleet_cells import MODEL, Ordered
from benchmarks.process_memory import Tree
from benchmarks.push import Gate
from harness.core.provider import Endpoint, load_provider
from harness.core.resources import cache_dir
from harness.store.runfolder import RunFolder

WALL_RATIO = 1.3
PSS_BYTES = 4 * 1024**3
# What was built, fetched and computed before is taken from the user's own cache.
_SHARED = ("probe", "synthetic", "models", "references")
_TOLD = 10


@dataclass(frozen=True)
class Took:
    """What one run took, and what was wrong with its records. ``cpu_s`` is that of controller and workers."""

    phones: int
    wall_s: float
    cpu_s: float
    pss_bytes: int
    processes: int
    phones_pss_bytes: int
    phones_up_s: float
    exit_status: int
    wrong: tuple[str, ...]
    records: int

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**vars(self), "wrong": list(self.wrong[:_TOLD]), "wrong_records": len(self.wrong)}


@contextmanager
def phones_up(number: int, cache: Path) -> Iterator[list[Endpoint]]:
    """Bring up so many phones in a cache of their own."""
    for shared in _SHARED:
        (cache / shared).symlink_to(cache_dir(shared))
    before = os.environ.get("MNN_FARM_CACHE")
    os.environ["MNN_FARM_CACHE"] = str(cache)
    provider = load_provider("virtual")
    try:
        yield provider.start([str(number)])
    finally:
        provider.stop()
        if before is None:
            del os.environ["MNN_FARM_CACHE"]
        else:
            os.environ["MNN_FARM_CACHE"] = before


def run_on(number: int, ordered: Ordered, folder: Path) -> Took:
    """Run the plan on so many phones, new ones, and return what it took."""
    cache = folder / "cache"
    cache.mkdir(parents=True)
    (folder / "plan.toml").write_text(ordered.plan())
    bundle = ordered.write_bundle(folder / "bundle")
    begun = time.monotonic()
    with phones_up(number, cache) as phones:
        up_s = time.monotonic() - begun
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--devices", "all"]
        argv += ["--adb", f"127.0.0.1:{phones[0].adb_port}", "--plan", str(folder / "plan.toml"), "--model", MODEL]
        argv += ["--bundle", str(bundle), "--run-dir", str(folder / "run")]
        supervisors = [one for one in psutil.Process().children() if "harness.virtual.supervisor" in one.cmdline()]
        env = {**os.environ, "MNN_FARM_STATE": str(folder / "state"), "CI": "true"}
        with (folder / "out.txt").open("wb") as out, Tree(supervisors) as beside:
            begun = time.monotonic()
            process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
            with Tree([psutil.Process(process.pid)]) as tree:
                # The processor time of all workers, which the controller waits for, comes with its own.
                _, ended, usage = os.wait4(process.pid, 0)
            wall_s = time.monotonic() - begun
        status = process.returncode = os.waitstatus_to_exitcode(ended)
    records = list(RunFolder(folder / "run").records()) if (folder / "run").is_dir() else []
    wrong = ordered.what_is_wrong(records, number)
    if status:
        wrong.append(
            f"pytest ended with {status}: {(folder / 'out.txt').read_bytes()[-2000:].decode(errors='replace')}"
        )
    return Took(
        phones=number,
        wall_s=wall_s,
        cpu_s=usage.ru_utime + usage.ru_stime,
        pss_bytes=tree.most_bytes,
        processes=tree.most_processes,
        phones_pss_bytes=beside.most_bytes,
        phones_up_s=up_s,
        exit_status=status,
        wrong=tuple(wrong),
        records=len(records),
    )


def measure(phones: int, ordered: Ordered) -> tuple[dict[str, Any], list[Gate]]:
    """Run the plan on one phone and on many; return all figures, and the gates."""
    took = []
    for number in (1, phones):
        sys.stderr.write(f"{number} phone(s), {ordered.cells} cells of {ordered.seconds:g} s each …\n")
        with tempfile.TemporaryDirectory(prefix="bench-fleet-") as folder:
            took.append(run_on(number, ordered, Path(folder)))
        sys.stderr.write(f"  {took[-1].wall_s:.1f} s\n")
    one, many = took
    gates = [
        Gate("wall time beside one phone's", many.wall_s / one.wall_s, most=WALL_RATIO),
        Gate("controller and workers (GB of PSS)", many.pss_bytes / 1e9, most=PSS_BYTES / 1e9),
        Gate("records that are wrong", len(one.wrong) + len(many.wrong), most=0),
    ]
    figures = {
        "cells": ordered.cells, "cell_s": ordered.seconds, "one": one.as_dict(), "many": many.as_dict(),
        "cpu_s_per_cell": many.cpu_s / (phones * ordered.cells),
        "gates": {gate.name: gate.as_dict() for gate in gates},
    }  # fmt: skip
    return figures, gates


def main() -> int:
    """Print the figures; 1 when a gate is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__.splitlines()[0])
    parser.add_argument("--phones", type=int, default=64)
    parser.add_argument("--cells", type=int, default=10, help="of each phone")
    parser.add_argument("--seconds", type=float, default=20.0, help="that each cell takes on the phone")
    args = parser.parse_args()
    figures, gates = measure(args.phones, Ordered(args.cells, args.seconds))
    host = {"system": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()}
    json.dump({"schema": 1, "host": host, **figures}, sys.stdout, indent=1)
    sys.stdout.write("\n")
    for gate in gates:
        sys.stderr.write(f"{gate.row()}\n")
    for sentence in [*figures["one"]["wrong"], *figures["many"]["wrong"]]:
        sys.stderr.write(f"{sentence}\n")
    return 0 if all(gate.passed for gate in gates) else 1


if __name__ == "__main__":
    sys.exit(main())
