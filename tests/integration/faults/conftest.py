"""Two virtual phones behind a real adb server; one is struck by a fault at an exact moment, the other must not notice.

The moments are the steps that a phone's session tells of, and the events of the run on the phone; the fault is injected
while the harness stands in that very step, so nothing depends on how fast this computer is.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from harness.adb.transport import BASE_DIR, AdbTransport
from harness.bench.context import RunContext
from harness.bench.leave import leave_as_found
from harness.bench.phone import Terms, connect
from harness.bench.session import PhoneSession
from harness.core.deadline import Deadline
from harness.core.errors import FarmError, HostError
from harness.core.provider import Endpoint, load_provider
from harness.core.resources import data_root
from harness.payload.bundle import Bundle, read_bundle
from harness.payload.models import ModelFolder, find_model, read_model
from harness.payload.probe_events import End, Event, Output, Sample, Start
from harness.plan.load import load_plan
from harness.plan.matrix import cells_of
from harness.plan.tiers import load_tier_rules
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord
from harness.virtual.control import PhoneControl

LOAD_MS, PREFILL_MS, TOKEN_MS, TOKENS = 200, 200, 15, 16
WAIT_S, STALL_S = 1.0, 0.8
LANES = 3
ORDERS = (f"load_ms={LOAD_MS}", f"prefill_ms={PREFILL_MS}", f"token_ms={TOKEN_MS}", "first_token_ms=1")
PLAN = f"""
schema = 1
models = ["tiny-llama"]
backends = ["cpu"]
threads = [1, 2]
prompt_tokens = [32]
generate_tokens = [{TOKENS}]
warmups = 0
repeats = 1
cell_timeout_s = 20
[prepare]
airplane = false
animations_off = true
[recovery]
wait_s = {WAIT_S}
stall_s = {STALL_S}
tries = 3
quarantine = false
"""
# What the harness says it does when it stands in that step.
SAID = {
    "connect": "connecting",
    "lease": "taking the phone",
    "facts": "reading facts",
    "prepare": "preparing",
    "verify": "verifying model",
    "push": "pushing model",
    "pull": "reading the phone's log",
    "restore": "leaving the phone",
}


@dataclass
class Striker:
    """Injects a fault once, when its moment has come. ``after`` is called in a thread some time later, as a person is."""

    moment: str
    strike: Callable[[], None]
    struck: bool = False
    begun_ns: int = 0

    def say(self, what: str) -> None:
        word = SAID.get(self.moment)
        if word is not None and what.startswith(word):
            self._now()

    def watch(self, event: Event) -> None:
        if isinstance(event, Start):
            self.begun_ns = event.mono_ns
        loaded = isinstance(event, Output) and b'"load"' in event.data
        decoding_ns = (LOAD_MS + PREFILL_MS + 4 * TOKEN_MS) * 1_000_000
        if (
            (self.moment == "load" and isinstance(event, Start))
            or (self.moment == "prefill" and loaded)
            or (self.moment == "decode" and isinstance(event, Sample) and event.mono_ns - self.begun_ns > decoding_ns)
            or (self.moment == "end" and isinstance(event, End))
        ):
            self._now()

    def _now(self) -> None:
        if not self.struck:
            self.struck = True
            self.strike()


@dataclass(frozen=True)
class Case:
    """A fault, the moment at which it strikes, and what must become of the struck phone.

    Attributes:
        expect: the two cells of the phone (``ok`` or the reason), or one reason for which it is left out.
        heal_after_s: when a person mends it; ``None``: after everything is over.
        orders: what else the synthetic runner is told.
    """

    fault: str
    moment: str
    expect: tuple[str, ...]
    heal_after_s: float | None = None
    orders: tuple[str, ...] = ()


@dataclass
class Played:
    """What became of a case. ``left_out`` is the reason for which the struck phone took no part.

    ``left_running`` is what of ours ran on it when all was over and the fault was mended, ``still_running`` what did when
    the next run had seen it.
    """

    left_out: str | None
    struck: list[CellRecord]
    other: list[CellRecord]
    seconds: float
    left_running: list[str]
    still_running: list[str]
    settings_before: str
    settings_after: str

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The struck phone's cells, ``ok`` or the reason; or the reason for which it was left out."""
        if self.left_out is not None:
            return (self.left_out,)
        return tuple(record.reason or record.verdict.value for record in self.struck)


class Lane:
    """Two phones: one that is struck, and one that must not notice."""

    def __init__(self, victim: Endpoint, other: Endpoint, folder: Path) -> None:
        self.victim, self.other, self.folder = victim, other, folder
        self.control = PhoneControl(victim.name)
        (folder / "plan.toml").write_text(PLAN)
        self.plan = load_plan(folder / "plan.toml")
        self._count = 0
        self.settings = self._look()[1]

    def play(self, case: Case) -> Played:
        """Let both phones run the plan, and strike one of them."""
        self._count += 1
        folder = RunFolder.create(self.folder / f"run-{self._count}")
        context = RunContext("faults", folder.path, self.plan, self._bundle(case.orders), {"tiny-llama": self._model()})
        timers: list[threading.Timer] = []

        def strike() -> None:
            self.control.inject(case.fault)
            if case.heal_after_s is not None:
                timers.append(threading.Timer(case.heal_after_s, self.control.heal))
                timers[-1].start()

        striker = Striker(case.moment, strike)
        outcome: dict[str, str] = {}
        begun = time.monotonic()
        threads = [
            threading.Thread(target=self._one, args=(self.victim, context, striker, outcome)),
            threading.Thread(target=self._one, args=(self.other, context, Striker("never", lambda: None), outcome)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive(), "a phone did not come to an end"
        seconds = time.monotonic() - begun
        for timer in timers:
            timer.join(20)
        assert striker.struck, f"the moment {case.moment} never came"
        records = list(folder.records())
        self.control.heal()
        left_running = self._running()
        still_running, settings = self._look()
        return Played(
            outcome.get(self.victim.name),
            [record for record in records if record.phone.name == self.victim.name],
            [record for record in records if record.phone.name == self.other.name],
            seconds,
            left_running,
            still_running,
            self.settings,
            settings,
        )

    @staticmethod
    def _one(endpoint: Endpoint, context: RunContext, striker: Striker, outcome: dict[str, str]) -> None:
        terms = Terms("a test", recovery=context.plan.recovery)
        try:
            phone = connect(endpoint, load_tier_rules(), striker.say, terms)
        except FarmError as error:
            outcome[endpoint.name] = error.reason.code
            return
        session = PhoneSession(phone, context, striker.say, striker.watch)
        try:
            for cell in cells_of(context.plan):
                session.run_cell(cell)
        finally:
            session.close()

    def _bundle(self, orders: tuple[str, ...]) -> Bundle:
        folder = self.folder / f"bundle-{abs(hash(orders))}"
        if not folder.exists():
            shutil.copytree(data_root() / "device_bins" / "runner" / "synthetic", folder)
            words = [word for order in (*ORDERS, *orders) for word in ("--synthetic", order)]
            manifest = folder / "bundle.toml"
            manifest.write_text(manifest.read_text().replace("extra_args = []", f"extra_args = {json.dumps(words)}"))
        return read_bundle(folder)

    def _model(self) -> ModelFolder:
        """A model that no phone has yet: it must be pushed."""
        folder = self.folder / f"model-{self._count}" / "tiny-llama"
        shutil.copytree(find_model("tiny-llama"), folder)
        (folder / "extra.bin").write_bytes(os.urandom(600_000))
        return read_model(folder)

    def _running(self) -> list[str]:
        """What of ours runs on the struck phone."""
        phone = AdbTransport(self.victim)
        phone.state()  # it has a new number now
        listed = phone.shell(["ps", "-A", "-o", "PID,ARGS"], deadline=Deadline(20, "a look", phone.name)).stdout
        return [line for line in listed.decode("utf-8", "replace").splitlines() if BASE_DIR in line]

    def _look(self) -> tuple[list[str], str]:
        """See the phone next, as any later run does; then what of ours runs on it, and its settings."""
        phone = connect(self.victim, load_tier_rules(), lambda _: None, Terms("a look", recovery=self.plan.recovery))
        leave_as_found(phone, lambda _: None)
        script = "for n in global system secure; do settings list $n; done; dumpsys deviceidle enabled deep"
        said = phone.transport.shell(["sh", "-c", script], deadline=Deadline(20, "a look", phone.name)).stdout
        return self._running(), said.decode("utf-8", "replace")


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest, farm_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[tuple[Any, ...]], Played]]:
    """Play the module's ``CASES``, some of them at a time (they mostly wait); the tests look at what came of each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MNN_FARM_CACHE", str(farm_cache))
        patch.setattr("harness.adb.transport.OPEN_S", 2.0)
        patch.setattr("harness.adb.transport.TRANSFER_STALL_S", 2.0)
        provider = load_provider("virtual")
        try:
            # The synthetic runner waits and computes nothing: two at once do not measure each other.
            phones = [replace(one, contention_group="") for one in provider.start(["high"] * LANES + ["mid"] * LANES)]
        except HostError as error:
            pytest.skip(f"no virtual phone on this computer: {error}")
        try:
            lanes: Queue[Lane] = Queue()
            for victim, other in zip(phones[:LANES], phones[LANES:], strict=True):
                lanes.put(Lane(victim, other, tmp_path_factory.mktemp("lane")))

            def play(case: Case) -> Played:
                lane = lanes.get()
                try:
                    return lane.play(case)
                finally:
                    lane.control.heal()
                    lanes.put(lane)

            with ThreadPoolExecutor(LANES) as pool:
                futures = {case: pool.submit(play, Case(*case)) for case in request.module.CASES}
                yield lambda case: futures[case].result()
        finally:
            provider.stop()
