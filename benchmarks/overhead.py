"""What watching costs: ``make bench-overhead``, JSON out.

Two figures. The probe's own CPU time at 10 Hz as a share of one core, beside a command that sleeps and beside a real
MNN run: this is the gate. And how fast the same model decodes with and without sampling: reported only, since a PC
with two shared cores cannot resolve half a percent.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.errors import ConfigError
from harness.core.resources import data_root
from harness.payload.models import find_model
from harness.payload.probe_build import build_probe
from harness.payload.probe_events import RunLog
from harness.phone.facts import MACHINE_ABIS
from harness.runners.events import parse_runner_output

GATE = 0.005
INTERVAL_MS = 100
NEVER_MS = 3_600_000
WATCHED_S = 20
PAIRS = 8
CORES, ZONES, THREADS = 8, 60, 16
_MODELS = ("smollm2-135m", "tiny-llama")
_RESAMPLES, _SEED = 10_000, 1


@dataclass(frozen=True)
class Watched:
    """The probe's own time while it watched one command."""

    cpu_s: float
    elapsed_s: float
    samples: int
    most_threads: int

    @property
    def share(self) -> float:
        """Of one core."""
        return self.cpu_s / self.elapsed_s

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "cpu_share": self.share,
            "elapsed_s": self.elapsed_s,
            "samples": self.samples,
            "threads": self.most_threads,
        }


def phone_tree(root: Path) -> Path:
    """Make a sysfs with as many cores, clocks and thermal zones as a large phone has, and a counter of GPU memory."""
    for core in range(CORES):
        clocks = root / f"devices/system/cpu/cpu{core}/cpufreq"
        clocks.mkdir(parents=True)
        for name in ("scaling_cur_freq", "scaling_max_freq", "cpuinfo_max_freq", "cpuinfo_min_freq"):
            (clocks / name).write_text("1804800\n")
    (root / "devices/system/cpu/present").write_text(f"0-{CORES - 1}\n")
    (root / "class/kgsl/kgsl/proc").mkdir(parents=True)
    for zone in range(ZONES):
        folder = root / f"class/thermal/thermal_zone{zone}"
        folder.mkdir(parents=True)
        (folder / "type").write_text(f"zone-{zone}\n")
        (folder / "temp").write_text("41200\n")
    return root


def watch(command: Sequence[str], interval_ms: int) -> tuple[Watched, RunLog]:
    """Run a command under the probe, on all cores by name so that every thread is looked at, and return both.

    Raises:
        RuntimeError: the command failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        argv = [str(build_probe(MACHINE_ABIS[platform.machine()])), "run", "--dir", f"{folder}/run", "--cwd", folder]
        argv += ["--interval-ms", str(interval_ms), "--cpus", cores, "--sysfs", str(phone_tree(Path(folder) / "sys"))]
        done = subprocess.run([*argv, "--", *command], capture_output=True, check=True)
    log = RunLog.read(done.stdout)
    if log.start is None or log.end is None or log.end.exit_code != 0:
        raise RuntimeError(f"{command[0]} failed under the probe: {log.stderr.decode(errors='replace')[-500:]}")
    elapsed_s = (log.end.mono_ns - log.start.mono_ns) / 1e9
    threads = log.peak("threads") or 0
    return Watched(log.end.probe_cpu_ms / 1000, elapsed_s, log.end.samples, threads), log


def asleep(seconds: int = WATCHED_S) -> Watched:
    """Watch a command of sixteen threads that sleep."""
    script = (
        "import sys, threading, time\n"
        f"threads = [threading.Thread(target=time.sleep, args=({seconds},)) for _ in range({THREADS - 1})]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
    )
    return watch([sys.executable, "-S", "-c", script], INTERVAL_MS)[0]


def model_folder() -> Path:
    """Return the largest model of ours that is on this computer.

    Raises:
        ConfigError: there is none.
    """
    for name in _MODELS[:-1]:
        try:
            return find_model(name)
        except ConfigError:
            continue
    return find_model(_MODELS[-1])


def _decode(model: Path, *, repeats: int, tokens: int, interval_ms: int, threads: int) -> tuple[Watched, float]:
    """Generate under the probe; return its own time and the median decode speed in tok/s."""
    runner = data_root() / "device_bins" / "runner" / "farm_runner.py"
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, str(runner), "--model", str(model), "--backend", "cpu", "--threads", str(threads)]
        argv += ["--precision", "low", "--memory", "low", "--work-dir", folder, "--prompt-tokens", "16"]
        argv += ["--generate-tokens", str(tokens), "--warmups", "1", "--repeats", str(repeats)]
        watched, log = watch(argv, interval_ms)
    timed = parse_runner_output(log.stdout).of_kind("timed")
    return watched, float(np.median([1000 * len(one.token_ms) / sum(one.token_ms) for one in timed]))


def busy(model: Path, seconds: float = WATCHED_S) -> Watched:
    """Watch a real MNN run of sixteen threads and at least ``seconds``."""
    repeats = 2
    while True:
        watched, _ = _decode(model, repeats=repeats, tokens=16, interval_ms=INTERVAL_MS, threads=THREADS)
        if watched.elapsed_s >= seconds:
            return watched
        repeats = min(repeats * 8, int(repeats * 1.3 * seconds / watched.elapsed_s) + 1)


def slowdown(model: Path, pairs: int = PAIRS) -> dict[str, Any]:
    """Compare decode speed with and without sampling, in pairs of runs in the order ABBA.

    The ratio is with ÷ without: 1 is no cost. The interval is a bootstrap of the pairs' median.
    """
    ratios = []
    for pair in range(pairs):
        order = (INTERVAL_MS, NEVER_MS) if pair % 2 == 0 else (NEVER_MS, INTERVAL_MS)
        speeds = {ms: _decode(model, repeats=3, tokens=64, interval_ms=ms, threads=1)[1] for ms in order}
        ratios.append(speeds[INTERVAL_MS] / speeds[NEVER_MS])
        sys.stderr.write(f"pair {pair + 1} of {pairs}: {ratios[-1]:.4f}\n")
    return {"pairs": ratios, "median": float(np.median(ratios)), "ci95": list(interval(ratios))}


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of a median."""
    drawn = np.random.default_rng(_SEED).choice(np.asarray(ratios), size=(_RESAMPLES, len(ratios)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return float(low), float(high)


def verdict(shares: Sequence[float]) -> bool:
    """Return whether every share of a core is within the gate."""
    return max(shares) <= GATE


def measure(pairs: int = PAIRS) -> dict[str, Any]:
    """Return all figures and whether the gate is kept."""
    model = model_folder()
    sleeping, running = asleep(), busy(model)
    return {
        "gate_cpu_share": GATE,
        "passed": verdict([sleeping.share, running.share]),
        "interval_ms": INTERVAL_MS,
        "phone": {"cores": CORES, "zones": ZONES},
        "model": model.name,
        "probe_beside_sleep": sleeping.as_dict(),
        "probe_beside_mnn": running.as_dict(),
        "decode_speed_ratio": slowdown(model, pairs),
    }


def main() -> int:
    """Print the figures; 1 when the gate is missed."""
    measured = measure()
    json.dump({"schema": 1, "cpus": os.cpu_count(), **measured}, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0 if measured["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
