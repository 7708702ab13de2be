"""``pytest --devices`` with a plan and the synthetic runner on virtual phones, to be stopped and gone on with.

The phones are behind the real adb server and outlive every run, as real phones do.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.ordered import ordered_bundle
from harness.store.head import RunInfo
from harness.store.runfolder import RunFolder

DEADLINE_S = 120
PLAN = """
schema = 1
models = ["tiny-llama"]
backends = ["cpu", "vulkan"]
cold_start = false
threads = [1, 2, 3]
prompt_tokens = [16, 32]
generate_tokens = [20]
warmups = 0
repeats = 2
[roofline]
measure = false
"""
# Neither phone has Vulkan; a GPU runs once whatever the threads.
CELLS = 8
CPU_CELLS = 6
# A quarter of a second a cell.
ORDERS = ("load_ms=50", "prefill_ms=5", "first_token_ms=1", "token_ms=5")


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and what its folder holds then."""

    status: int
    text: str
    folder: RunFolder

    @property
    def head(self) -> RunInfo:
        return self.folder.read_info()

    @property
    def verdicts(self) -> list[str]:
        return sorted(record.reason or "ok" for record in self.folder.latest())


class Farm:
    """Starts ``pytest --devices …`` with our plan and bundle."""

    def __init__(self, env: dict[str, str], files: Path) -> None:
        self.env = env
        self.plan = files / "plan.toml"
        self.plan.write_text(PLAN)
        self.bundle = ordered_bundle(files / "bundle", ORDERS)

    @property
    def new(self) -> list[str]:
        """The words that begin a run."""
        return ["--plan", str(self.plan), "--bundle", str(self.bundle)]

    def start(self, folder: Path, devices: str, *words: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--devices", devices]
        return subprocess.Popen(
            [*argv, "--run-dir", str(folder), *words],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, folder: Path, devices: str, *words: str) -> Outcome:
        process = self.start(folder, devices, *words)
        try:
            text, _ = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
        assert "Traceback" not in text, text
        return Outcome(process.returncode, text, RunFolder(folder))

    def refusal(self, *words: str) -> str:
        """Return what a command line is refused with."""
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--devices", "host", *words]
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        assert done.returncode == 4
        assert "Traceback" not in done.stderr
        return done.stderr


def wait_for(condition: Callable[[], object], what: str, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition() and process.poll() is None:
        assert time.monotonic() < end, f"{what} did not come within {DEADLINE_S} s"
        time.sleep(0.01)


def wait_for_growth(folder: RunFolder, process: subprocess.Popen[str]) -> None:
    """Wait until a further cell has its record."""

    def size() -> int:
        return folder.results.stat().st_size if folder.results.exists() else 0

    before = size()
    wait_for(lambda: size() > before, "a cell", process)
