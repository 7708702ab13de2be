"""On one phone: a shell round trip, a push, the same push again, its facts, and meeting it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.beside import OURS, Compared, Way, side_by_side
from benchmarks.peers import ADB, ADBUTILS, MOBLY, Peers, Shell
from harness.adb.transport import AdbTransport
from harness.bench.gather import gather_facts
from harness.bench.phone import Terms, connect
from harness.core.deadline import Deadline
from harness.core.provider import Endpoint
from harness.core.transport import ShellResult
from harness.payload.folder import read_folder
from harness.payload.probe import Probe
from harness.payload.store import ensure_on_phone
from harness.plan.tiers import load_tier_rules

ROUNDS = 40
FACTS_ROUNDS = 15
PUSH_ROUNDS = 9
PUSH_BYTES = 64 << 20
REMOTE = "/data/local/tmp/bench-peer"
PATIENCE_S = 120.0
# The sources of our facts, as far as they can be asked without a program of ours; a script asks one after the other.
SOURCES: tuple[list[str], ...] = (
    ["getprop"],
    ["cat", "/proc/meminfo", "/proc/cpuinfo", "/proc/sys/kernel/random/boot_id"],
    [
        "sh",
        "-c",
        "cat /sys/class/thermal/thermal_zone*/temp /sys/devices/system/cpu/cpu*/cpufreq/*max* 2>/dev/null; true",
    ],
    ["df", "/data"],
    ["dumpsys", "SurfaceFlinger"],
    ["dumpsys", "thermalservice"],
    ["dumpsys", "battery"],
)


class Counting(AdbTransport):
    """Counts what is opened on the phone."""

    calls = 0

    def shell(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> ShellResult:
        """Run a command; see the protocol."""
        self.calls += 1
        return super().shell(argv, deadline=deadline, stdin=stdin)


def deadline() -> Deadline:
    """Return one that is long enough for anything here."""
    return Deadline(PATIENCE_S, "a benchmark", "the phone")


def measures(endpoint: Endpoint, peers: Peers) -> Iterator[Compared]:
    """Measure one after the other."""
    transport = AdbTransport(endpoint)
    probe = Probe.install(transport)
    yield side_by_side("shell round trip", _shells(transport, peers), ROUNDS, cannot=peers.cannot)
    with tempfile.TemporaryDirectory() as folder:
        yield from _pushes(transport, probe, peers, Path(folder))
    ours: Way = lambda: _nothing(gather_facts(transport, probe, deadline()))  # noqa: E731
    asked = {name: partial(_ask_all, shell) for name, shell in peers.shells.items()}
    yield side_by_side("facts of a phone", {OURS: ours, **asked}, FACTS_ROUNDS, cannot=peers.cannot)
    yield _meeting(endpoint, peers)


def facts_calls(endpoint: Endpoint) -> int:
    """Return how many shell calls the facts of a phone cost."""
    transport = Counting(endpoint)
    probe = Probe.install(transport)
    transport.calls = 0
    gather_facts(transport, probe, deadline())
    return transport.calls


def _shells(transport: AdbTransport, peers: Peers) -> dict[str, Way]:
    ours: Way = lambda: _nothing(transport.shell(["true"], deadline=deadline()))  # noqa: E731
    return {OURS: ours, **{name: partial(_ask, shell, ["true"]) for name, shell in peers.shells.items()}}


def _pushes(transport: AdbTransport, probe: Probe, peers: Peers, folder: Path) -> Iterator[Compared]:
    local = folder / "weights"
    with local.open("wb") as file:
        for _ in range(PUSH_BYTES >> 20):
            file.write(os.urandom(1 << 20))
    payload = read_folder(folder)

    def remove() -> None:
        places = [f"{transport.base_dir}/{name}" for name in ("models", "incoming")]
        transport.shell(["rm", "-rf", REMOTE, *places], deadline=deadline())

    def ours() -> None:
        ensure_on_phone(transport, probe, payload, kind="models", label="the file")

    ways: dict[str, Way] = {OURS: ours}
    ways |= {name: partial(_push, push, local) for name, push in peers.pushes.items()}
    size = f"{PUSH_BYTES >> 20} MiB"
    yield side_by_side(f"push of {size}", ways, PUSH_ROUNDS, before=remove, cannot=peers.cannot)
    no_check = {ADBUTILS: "it has no push that looks whether the file is there"}
    if MOBLY not in peers.cannot:
        no_check[MOBLY] = "as adb: it hands the words on to adb push --sync"
    again: Way = lambda: _nothing(peers.push_again(local, REMOTE))  # noqa: E731
    yield side_by_side(f"push of {size} again", {OURS: ours, ADB: again}, ROUNDS, cannot=no_check | peers.cannot)
    remove()


def _meeting(endpoint: Endpoint, peers: Peers) -> Compared:
    rules = load_tier_rules()
    ours: Way = lambda: _nothing(connect(endpoint, rules, terms=Terms(purpose="")))  # noqa: E731
    ways: dict[str, Way] = {OURS: ours}
    cannot = {ADB: "it keeps nothing about a phone", ADBUTILS: "its device object asks the phone nothing"}
    if MOBLY not in peers.cannot:
        ways[MOBLY] = lambda: _nothing(peers.mobly_device())
    return side_by_side("meeting a phone", ways, FACTS_ROUNDS, cannot=cannot | peers.cannot)


def _ask(shell: Shell, argv: Sequence[str]) -> None:
    shell(argv)


def _ask_all(shell: Shell) -> None:
    for argv in SOURCES:
        shell(argv)


def _push(push: Callable[[Path, str], object], local: Path) -> None:
    push(local, REMOTE)


def _nothing(_: Any) -> None:
    """Take what a way came to, so that its time counts."""
