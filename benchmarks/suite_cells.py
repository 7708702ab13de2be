"""What a cell costs besides the run itself: the wall time of all of it minus the time between the run's start and end.

Beside it the same by hand, as a script would do it: battery, thermal status and a mark in the log, a folder, the same
program under the same probe, its output, and battery, thermal status and log again; and before it, where the payload
is not there, the push. What ours does besides is not in that: looking whose phone it is, the lease, ending what ran
before, settings, the hash of every byte, the judgement, and the record on the disk.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.beside import OURS, Compared, Way, side_by_side
from benchmarks.known import plan_of, runners
from benchmarks.peers import Peers, Shell
from benchmarks.suite_phone import REMOTE, deadline
from harness.bench.context import RunContext
from harness.bench.phone import ConnectedPhone, connect
from harness.bench.session import PhoneSession
from harness.bench.target import target_of
from harness.core.provider import Endpoint
from harness.core.transport import Transport
from harness.payload.bundle import read_bundle
from harness.payload.models import find_model, read_model
from harness.payload.probe import RunSpec
from harness.payload.probe_events import RunLog
from harness.plan.matrix import cells_of
from harness.plan.tiers import load_tier_rules
from harness.store.runfolder import RunFolder

ROUNDS_THERE = 25
ROUNDS_NEW = 11
MODEL = "tiny-llama"
RUN_S = 60.0
_WORK = re.compile(r".*/work/[^/]+")
_BEFORE: tuple[list[str], ...] = (
    ["dumpsys", "battery"], ["dumpsys", "thermalservice"], ["log", "-p", "i", "-t", "script", "begin"]
)  # fmt: skip
_AFTER: tuple[list[str], ...] = (
    ["dumpsys", "battery"], ["dumpsys", "thermalservice"], ["logcat", "-d", "-v", "threadtime", "-b", "all", "-t", "99"]
)  # fmt: skip


class Bench:
    """Cells of the synthetic runner on one phone, by the harness and by hand."""

    def __init__(self, phone: ConnectedPhone, peers: Peers, folder: Path) -> None:
        self._phone = phone
        self._peers = peers
        self.transport: Transport = phone.transport
        self._folder = RunFolder.create(folder / "run")
        plan = plan_of(prepare={})
        self._cell = cells_of(plan)[0]
        bundle = read_bundle(runners() / "synthetic")
        models = {name: read_model(find_model(name)) for name in plan.models}
        self._context = RunContext("bench", self._folder.path, plan, bundle, models)
        self._payloads = {"bundles": bundle.payload(target_of(phone.facts)), "models": models[MODEL].folder}
        self._argv: list[str] = []
        self.session = self.begin()

    def begin(self) -> PhoneSession:
        """Begin a session, which knows nothing of what is on the phone."""
        return PhoneSession(self._phone, self._context, lambda _: None)

    def cell(self, session: PhoneSession) -> float:
        """Run a cell; return the ms of its run on the phone.

        Raises:
            RuntimeError: it was not ok.
        """
        record = session.run_cell(self._cell)
        if record.reason is not None or record.raw is None:
            raise RuntimeError(f"the cell was {record.verdict.value}: {record.reason}: {record.detail}")
        raw = self._folder.path / record.raw
        self._argv = json.loads((raw / "command.json").read_text())["argv"]
        return _run_ms((raw / "events.jsonl").read_bytes())

    def cell_by_hand(self, shell: Shell) -> float:
        """Do by single commands what a script would do; return the ms of its run."""
        work = f"{REMOTE}/work"
        for argv in (*_BEFORE, ["mkdir", "-p", work]):
            shell(argv)
        spec = RunSpec(tuple(self._by_hand(word) for word in self._argv), work, RUN_S)
        said = shell(spec.command(self._phone.probe.path))
        for argv in (["rm", "-rf", work], *_AFTER):
            shell(argv)
        return _run_ms(said)

    def push_by_hand(self, shell: Shell, push: Callable[[Path, str], object]) -> None:
        """Bring the payloads file by file."""
        for kind, payload in self._payloads.items():
            folders = sorted({f"{REMOTE}/{kind}/{file.path}".rpartition("/")[0] for file in payload.files})
            shell(["mkdir", "-p", *folders])
            for file in payload.files:
                push(payload.root / file.path, f"{REMOTE}/{kind}/{file.path}")
        shell(["chmod", "-R", "755", f"{REMOTE}/bundles"])

    def forget(self) -> None:
        """Remove the payloads and what others pushed, and have the session bring them again."""
        self.session._stored.clear()
        places = [f"{self.transport.base_dir}/{name}" for name in ("models", "bundles", "incoming")]
        self.transport.shell(["rm", "-rf", REMOTE, *places], deadline=deadline())

    def _by_hand(self, word: str) -> str:
        for kind, payload in self._payloads.items():
            word = word.replace(f"{self.transport.base_dir}/{kind}/{payload.hash[:32]}", f"{REMOTE}/{kind}")
        return _WORK.sub(f"{REMOTE}/work", word)


def measures(endpoint: Endpoint, peers: Peers) -> Iterator[Compared]:
    """Measure cells whose payload is there, then cells whose payload is not."""
    phone = connect(endpoint, load_tier_rules())
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(phone, peers, Path(folder))
        bench.cell(bench.session)  # its payload is there from now on
        shells, pushes = peers.shells, peers.pushes
        for name, shell in shells.items():
            bench.push_by_hand(shell, pushes[name])
        there: dict[str, Way] = {OURS: _besides(lambda: bench.cell(bench.session))}
        there |= {name: _besides(partial(bench.cell_by_hand, shell)) for name, shell in shells.items()}
        yield side_by_side("overhead of a cell", there, ROUNDS_THERE, cannot=peers.cannot)

        def by_hand(name: str) -> float:
            bench.push_by_hand(shells[name], pushes[name])
            return bench.cell_by_hand(shells[name])

        new: dict[str, Way] = {OURS: there[OURS], **{name: _besides(partial(by_hand, name)) for name in shells}}
        yield side_by_side("overhead of a cell, with push", new, ROUNDS_NEW, before=bench.forget, cannot=peers.cannot)
        first: dict[str, Way] = {OURS: _besides(lambda: bench.cell(bench.begin()))}
        no = dict.fromkeys((*shells, *peers.cannot), "it prepares no phone")
        yield side_by_side("overhead of a session's first cell", first, ROUNDS_NEW, cannot=no)
        bench.forget()
        bench.session.close()


def _besides(run: Callable[[], float]) -> Way:
    """Return a way that counts its wall time without that of the run on the phone, which it returns."""

    def way() -> float:
        begun = time.perf_counter()
        run_ms = run()
        return (time.perf_counter() - begun) * 1000 - run_ms

    return way


def _run_ms(events: bytes) -> float:
    log = RunLog.read(events)
    if log.start is None or log.end is None or log.end.exit_code != 0:
        raise RuntimeError(f"the run did not end well: {log.end}")
    return (log.end.mono_ns - log.start.mono_ns) / 1e6
