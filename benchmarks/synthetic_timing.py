"""How exactly the synthetic runner keeps to its orders: its error per token against CLOCK_MONOTONIC.

``python benchmarks/synthetic_timing.py`` prints one JSON object; the target is a median of at most 0.2 ms a token.
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
from typing import Any

from harness.core.errors import HostError
from harness.core.resources import data_root
from harness.payload.bundle import read_bundle
from harness.payload.bundle_manifest import Target
from harness.runners.events import parse_runner_output

TOKEN_MS = 5.0
TOKENS = 200
REPEATS = 3
TARGET_MS = 0.2
_TIMEOUT_S = 120.0


def measure() -> dict[str, Any]:
    """Return, for waiting asleep and for burning the processor, the error per token in ms.

    ``median_ms`` and ``p95_ms`` are of the absolute difference between each reported token time and the ordered one;
    ``drift_ms`` is how far the last token of a generation was off its place in the schedule, at most.

    Raises:
        HostError: the runner cannot be built or run here.
    """
    payload = read_bundle(data_root() / "device_bins" / "runner" / "synthetic").payload(Target((platform.machine(),)))
    program = str(payload.root / payload.files[0].path)
    result: dict[str, Any] = {"token_ms": TOKEN_MS, "tokens": TOKENS * REPEATS, "target_median_ms": TARGET_MS}
    for mode in ("sleep", "spin"):
        result[mode] = _measure_mode(program, mode)
    return result


def _measure_mode(program: str, mode: str) -> dict[str, float]:
    argv = [program, "--model", "none", "--warmups", "0", "--repeats", str(REPEATS)]
    argv += ["--generate-tokens", str(TOKENS + 1)]
    for order in (f"token_ms={TOKEN_MS}", f"mode={mode}"):
        argv += ["--synthetic", order]
    done = subprocess.run(argv, capture_output=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise HostError(f"the synthetic runner ended with {done.returncode}")
    timed = parse_runner_output(done.stdout).of_kind("timed")
    errors = sorted(abs(ms - TOKEN_MS) for generation in timed for ms in generation.token_ms)
    drift = max(abs(sum(generation.token_ms) - TOKENS * TOKEN_MS) for generation in timed)
    return {
        "median_ms": statistics.median(errors),
        "p95_ms": errors[int(len(errors) * 0.95)],
        "max_ms": errors[-1],
        "drift_ms": drift,
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))  # noqa: T201  this is its output
