"""What supervising and stepping cost, on this PC with the tiny model."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness.core.resources import data_root
from harness.payload.models import find_model
from harness.payload.probe_build import build_probe
from harness.payload.probe_events import RunLog
from harness.phone.facts import MACHINE_ABIS

WATCHED_S = 10


def probe_cpu() -> dict[str, Any]:
    """Return the share of one core that the probe takes while it watches a sleeping command at 10 Hz."""
    with tempfile.TemporaryDirectory() as folder:
        argv = [str(build_probe(_abi())), "run", "--dir", f"{folder}/run", "--interval-ms", "100"]
        done = subprocess.run([*argv, "--", "sleep", str(WATCHED_S)], capture_output=True, check=True)
    log = RunLog()
    for line in done.stdout.splitlines():
        log.feed(line + b"\n")
    if log.end is None:
        raise RuntimeError("the probe ended without an end event")
    return {"cpu_share": log.end.probe_cpu_ms / 1000 / WATCHED_S, "samples": log.end.samples}


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


def _abi() -> str:
    return MACHINE_ABIS[platform.machine()]
