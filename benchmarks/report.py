"""What ``report.html`` costs for runs of 1 000 and 100 000 cells: seconds, bytes, first paint. Exit 1 on a missed gate.

Seconds are of processor time, in a process of its own as ``mnn-farm report`` would be: of reading the run folder and
writing the page. First paint is the browser's own performance entry, from a file, on an idle computer; of several
openings the median counts. Without Chromium there is no first paint, and that gate is missed.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.browser import CHROMIUM, Browser
from benchmarks.made_up_run import write_run

# Cells, phones, seconds at most.
RUNS = ((1_000, 20, 2.0), (100_000, 200, 20.0))
MOST_BYTES = 15_000_000
MOST_PAINT_MS = 2_000.0
_OPENINGS = 3
_MEASURE = """
import resource, sys, time
from pathlib import Path
from harness.report.html import write_report
begun = time.process_time()
write_report(Path(sys.argv[1]))
print(time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def measure(cells: int, phones: int, most_s: float) -> dict[str, Any]:
    """Return what a report of a made-up run of that size costs, and whether each gate holds."""
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        write_run(run, cells, phones)
        done = subprocess.run([sys.executable, "-c", _MEASURE, str(run)], capture_output=True, check=True, text=True)
        seconds, peak_bytes = done.stdout.split()
        page = run / "report.html"
        size = page.stat().st_size
        opened = [_open(page, Path(scratch) / f"browser-{n}") for n in range(_OPENINGS)] if CHROMIUM else []
    paint_ms = statistics.median(each["first_paint_ms"] for each in opened) if opened else None
    console = [line for each in opened for line in each["console"]]
    gates = {
        "seconds": float(seconds) <= most_s,
        "bytes": size <= MOST_BYTES,
        "first_paint": paint_ms is not None and paint_ms <= MOST_PAINT_MS,
        "console": bool(opened) and not console,
        "all_cells": bool(opened) and all(each["cells"] == cells for each in opened),
    }
    return {
        "cells": cells,
        "phones": phones,
        "cpu_s": round(float(seconds), 2),
        "most_s": most_s,
        "peak_mb": round(int(peak_bytes) / 1e6),
        "bytes": size,
        "most_bytes": MOST_BYTES,
        "first_paint_ms": None if paint_ms is None else round(paint_ms),
        "most_paint_ms": MOST_PAINT_MS,
        "table_ready_ms": round(statistics.median(each["ready_ms"] for each in opened)) if opened else None,
        "console": console,
        "gates": gates,
        "ok": all(gates.values()),
    }


def _open(page: Path, scratch: Path) -> dict[str, Any]:
    with Browser(scratch) as browser:
        browser.size(1400)
        browser.open(page.as_uri())
        browser.until("!document.querySelector('.loading')")
        ready_ms = browser.ask("performance.now()")
        paint_ms = browser.until(
            "performance.getEntriesByType('paint').filter((e) => e.name === 'first-paint').map((e) => e.startTime)[0]"
        )
        count = browser.ask("document.querySelector('#cells .count').textContent.split(' of ').pop()")
        cells = int("".join(filter(str.isdigit, count)))
        return {"first_paint_ms": paint_ms, "ready_ms": ready_ms, "console": list(browser.console), "cells": cells}


if __name__ == "__main__":
    results = [measure(*run) for run in RUNS]
    print(json.dumps(results, indent=1))  # noqa: T201 (the benchmark's answer)
    sys.exit(not all(result["ok"] for result in results))
