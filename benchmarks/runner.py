"""What stepping costs, on this PC with the tiny model. What watching costs is in :mod:`benchmarks.overhead`."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness.core.resources import data_root
from harness.payload.models import find_model


def stepping() -> dict[str, Any]:
    """Compare a token's time when stepped from outside with the engine's own loop, same prompt, one process."""
    runner = data_root() / "device_bins" / "runner" / "farm_runner.py"
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, str(runner), "--model", str(find_model("tiny-llama")), "--backend", "cpu"]
        argv += ["--threads", "1", "--precision", "low", "--memory", "low", "--work-dir", folder]
        argv += ["--prompt-tokens", "64", "--generate-tokens", "128", "--warmups", "1", "--repeats", "10"]
        done = subprocess.run(argv, capture_output=True, check=True, cwd=Path(folder))
    events = [json.loads(line) for line in done.stdout.splitlines()]
    stepped = min(sum(e["token_ms"]) / len(e["token_ms"]) for e in events if e.get("kind") == "timed")
    loop = events[-1]["engine_loop"]
    own = loop["decode_ms"] / (loop["generated_tokens"] - 1)
    return {"stepped_ms_per_token": stepped, "engine_loop_ms_per_token": own, "ratio": stepped / own}
