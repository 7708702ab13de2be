"""Pushing beside ``adb push`` and adbutils: ``make bench-push``, JSON out, a table on stderr; exit 1 on a missed gate.

All on one virtual phone behind the real adb server, in one run, interleaved; a ratio is the median over the rounds,
each of which measures all three one after the other. Ours includes what the others do not do: looking what is there,
making room, the hash of all bytes on the phone, and the move into place.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import adbutils

from benchmarks.adb import provided, timed_ms
from harness.adb.transport import AdbTransport
from harness.core.adbprogram import find_adb
from harness.core.deadline import Deadline
from harness.core.errors import PhoneError
from harness.core.provider import Endpoint
from harness.payload.folder import PayloadFolder, read_folder
from harness.payload.probe import Probe
from harness.payload.store import Stored, ensure_on_phone
from harness.virtual.control import PhoneControl

SIZE = 1 << 30
ROUNDS = 7
RERUNS = 9
SHELLS = 30
REMOTE = "/data/local/tmp/bench-push"
PATIENCE_S = 60.0
# Processes that want to run, by core: from there on others' work is measured, too.
BUSY = 0.5


@dataclass(frozen=True)
class Gate:
    """What was asked for, and what came out. ``least`` or ``most`` is the bound."""

    name: str
    value: float
    least: float | None = None
    most: float | None = None

    @property
    def passed(self) -> bool:
        """Whether the value is within its bound."""
        return (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"value": self.value, "least": self.least, "most": self.most, "passed": self.passed}

    def row(self) -> str:
        """Return the line of the table."""
        bound = f">= {self.least:g}" if self.least is not None else f"<= {self.most:g}"
        return f"{self.name:<44} {self.value:>9.3f}   {bound:<9} {'ok' if self.passed else 'MISSED'}"


class Bench:
    """One phone, and three ways to reach it."""

    def __init__(self, endpoint: Endpoint, folder: Path) -> None:
        self.control = PhoneControl(endpoint.name)
        self.transport = AdbTransport(endpoint)
        self.probe = Probe.install(self.transport)
        self.adb = [str(find_adb(carried_first=True)), "-P", str(endpoint.adb_port), "-s", endpoint.transport_serial]
        self.adbutils = adbutils.AdbClient(port=endpoint.adb_port).device(endpoint.transport_serial)
        self.file = folder / "weights"
        with self.file.open("wb") as file:
            for _ in range(SIZE >> 24):
                file.write(os.urandom(1 << 24))
        self.payload: PayloadFolder = read_folder(folder)

    def remove_all(self) -> None:
        """Have neither payload nor part of one on the phone, and no writing left over from what was before."""
        places = [f"{self.transport.base_dir}/{name}" for name in ("models", "incoming")]
        self.transport.shell(["rm", "-rf", REMOTE, *places], deadline=self._deadline())
        os.sync()

    def ours(self) -> Stored:
        """Bring the payload to the phone."""
        return ensure_on_phone(self.transport, self.probe, self.payload, kind="models", label="the model")

    def adb_push(self) -> None:
        """Push by adb's own program."""
        subprocess.run([*self.adb, "push", str(self.file), REMOTE], check=True, capture_output=True)

    def adbutils_push(self) -> None:
        """Push by adbutils."""
        self.adbutils.sync.push(self.file, REMOTE)

    def first_pushes(self) -> dict[str, list[float]]:
        """Return seconds of each way in each round, the order turned round from one to the next.

        A round before them is not counted: adb's server and the phone's adbd get their memory in it.
        """
        ways: dict[str, Callable[[], object]] = {
            "ours": self.ours, "adb_push": self.adb_push, "adbutils": self.adbutils_push
        }  # fmt: skip
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(-1, ROUNDS):
            for name in ways if number % 2 == 0 else reversed(ways):
                self.remove_all()
                seconds[name].append(timed_ms(ways[name]) / 1000)
            if number < 0:
                seconds = {name: [] for name in ways}
                continue
            sys.stderr.write(", ".join(f"{name} {times[-1]:.2f} s" for name, times in seconds.items()) + "\n")
        return seconds

    def reruns(self) -> tuple[list[float], int]:
        """Return milliseconds of each run with the payload there, and the bytes sent in all of them."""
        self.ours()
        sent: list[int] = []
        return [timed_ms(lambda: sent.append(self.ours().pushed_bytes)) for _ in range(RERUNS)], sum(sent)

    def resumed_share(self) -> float:
        """Pull the cable at half of a push, plug it in, push again; return what was sent then as a share of all.

        Raises:
            RuntimeError: the cable was not pulled.
        """
        self.remove_all()
        self.control.inject(f"cut-push={SIZE // 2}")
        try:
            self.ours()
        except PhoneError:
            deadline = self._deadline()
            while self.control.info().faults != ("cut",):  # it notices a moment later that it was pulled
                deadline.remaining_s()
                time.sleep(0.02)
            self.control.heal()
            self.transport.state()  # it may have a new number
            return self.ours().pushed_bytes / SIZE
        raise RuntimeError("the push was not cut")

    def shells(self) -> dict[str, float]:
        """Return milliseconds of a shell round trip."""
        ways: dict[str, Callable[[], object]] = {
            "ours": lambda: self.transport.shell(["true"], deadline=self._deadline()),
            "adb_shell": lambda: subprocess.run([*self.adb, "shell", "true"], check=True),
            "adbutils": lambda: self.adbutils.shell2("true"),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(SHELLS):
            for name, way in ways.items():
                times[name].append(timed_ms(way))
        return {name: statistics.median(taken) for name, taken in times.items()}

    @staticmethod
    def _deadline() -> Deadline:
        return Deadline(PATIENCE_S, "a benchmark", "the phone")


def measure() -> tuple[list[Gate], dict[str, Any]]:
    """Measure all; return the gates and the figures behind them."""
    with provided("high") as endpoint, tempfile.TemporaryDirectory() as folder:
        bench = Bench(endpoint, Path(folder))
        pushes = bench.first_pushes()
        reruns, rerun_bytes = bench.reruns()
        share = bench.resumed_share()
        shells = bench.shells()
        bench.remove_all()
    gates = [
        Gate("first push, speed ÷ adb push", ratio(pushes, "adb_push"), least=1.0),
        Gate("first push, speed ÷ adbutils sync.push", ratio(pushes, "adbutils"), least=1.0),
        Gate("verified re-run, ms", statistics.median(reruns), most=100.0),
        Gate("verified re-run, payload bytes", rerun_bytes, most=0),
        Gate("cut at half, share sent again", share, most=0.55),
        Gate("shell round trip, time ÷ adb shell", shells["ours"] / shells["adb_shell"], most=1.3),
    ]
    return gates, {
        "payload_bytes": SIZE,
        "first_push_s": pushes,
        "first_push_mb_per_s": {name: SIZE / 1e6 / statistics.median(times) for name, times in pushes.items()},
        "rerun_ms": reruns,
        "shell_ms": {**shells, "adbutils_ratio": shells["adbutils"] / shells["adb_shell"]},
    }


def ratio(seconds: dict[str, list[float]], other: str) -> float:
    """Return how much faster ours is than the other, in the middle one of the rounds."""
    return statistics.median(theirs / ours for theirs, ours in zip(seconds[other], seconds["ours"], strict=True))


def main() -> int:
    """Measure, print, and say by the exit status whether every gate is kept."""
    load = os.getloadavg()[0]
    gates, figures = measure()
    for gate in gates:
        sys.stderr.write(gate.row() + "\n")
    host = {"system": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version(), "load": load}
    if load > BUSY * (os.cpu_count() or 1):
        sys.stderr.write(f"The computer was busy before it began (load {load:.1f}): the speeds are worth little.\n")
    passed = all(gate.passed for gate in gates)
    told = {"schema": 1, "host": host, "passed": passed, "gates": {gate.name: gate.as_dict() for gate in gates}}
    json.dump({**told, "figures": figures}, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
