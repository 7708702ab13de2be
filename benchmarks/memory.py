"""How long a virtual phone's lmkd takes from a process crossing the limit to its death."""

from __future__ import annotations

import json
import statistics
from typing import Any

from benchmarks.adb import provided
from benchmarks.onphone import run_synthetic
from harness.bench.phone import connect
from harness.plan.tiers import load_tier_rules

PROFILE = "low-hot"
PEAK_MB = 260
ROUNDS = 5
TARGET_MS = 200.0


def measure() -> dict[str, Any]:
    """Return the times in ms from the runner's word that it holds its memory to its death by signal 9.

    The memory was crossed a little before that word, by the time that touching the last pages takes; polling is part
    of what is measured.

    Raises:
        RuntimeError: the process was not killed.
    """
    lags_ms = []
    with provided(PROFILE) as endpoint:
        phone = connect(endpoint, load_tier_rules())
        for _ in range(ROUNDS):
            run = run_synthetic(phone, (f"peak_mb={PEAK_MB}", "load_ms=0", "fault=hang", "at=prefill"), tokens=1)
            loaded = next((out for out in run.outputs if b'"load"' in out.data), None)
            if run.end is None or run.end.signal != 9:
                raise RuntimeError(f"lmkd did not kill a process of {PEAK_MB} MB on {PROFILE}: {run.end}")
            # Killed before it could say that it holds all: from its start, which is longer.
            begun = loaded if loaded is not None else run.start
            lags_ms.append((run.end.mono_ns - begun.mono_ns) / 1e6 if begun is not None else float("nan"))
    return {"lags_ms": lags_ms, "median_ms": statistics.median(lags_ms), "max_ms": max(lags_ms), "target_ms": TARGET_MS}


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))  # noqa: T201
