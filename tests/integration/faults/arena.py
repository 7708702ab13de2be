"""Two virtual phones behind a real adb server; one is struck by a fault at an exact moment, the other must not notice.

The moments are the steps that a phone's session tells of, and the events of the run on the phone; the fault is injected
while the harness stands in that very step, so nothing depends on how fast this computer is.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.ordered import ordered_bundle
from harness.adb.transport import BASE_DIR, AdbTransport
from harness.bench.context import RunContext
from harness.bench.lease import lease_file
from harness.bench.leave import leave_as_found
from harness.bench.phone import Terms, connect
from harness.bench.session import PhoneSession
from harness.core.deadline import Deadline
from harness.core.errors import FarmError
from harness.core.provider import Endpoint
from harness.core.reasons import Fault, Reason
from harness.payload.bundle import Bundle, read_bundle
from harness.payload.models import ModelFolder, find_model, read_model
from harness.payload.probe import Probe
from harness.payload.probe_events import End, Event, Output, Sample, Start
from harness.plan.load import load_plan
from harness.plan.matrix import cells_of
from harness.plan.model import Plan
from harness.plan.tiers import load_tier_rules
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord
from harness.virtual.control import PhoneControl

LOAD_MS, PREFILL_MS, TOKEN_MS, TOKENS = 200, 200, 15, 16
STALL_S = 0.8
# How long the harness waits for a phone that comes back, and for one that does not.
PATIENCE_S, IMPATIENCE_S = 30.0, 1.0
ORDERS = (f"load_ms={LOAD_MS}", f"prefill_ms={PREFILL_MS}", f"token_ms={TOKEN_MS}", "first_token_ms=1")
PLAN = f"""
schema = 1
models = ["tiny-llama"]
backends = ["cpu"]
cold_start = false
threads = [1, 2]
prompt_tokens = [32]
generate_tokens = [{TOKENS}]
warmups = 0
repeats = 1
cell_timeout_s = 20
[roofline]
measure = false
[prepare]  # few changes, since each is several commands; all of them are tested in test_prepare.py
screen = "keep"
stay_awake = false
doze_off = false
animations_off = true
[recovery]
wait_s = {PATIENCE_S}
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
    """Injects a fault once, when its moment has come."""

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

    @property
    def wait_s(self) -> float:
        """How long the harness waits for the phone."""
        lost = {"device_lost", "device_offline", "unauthorized", "link_stalled", "adb_error"}
        comes_back = self.fault == "replaced"  # though as another one
        return IMPATIENCE_S if lost & set(self.expect) and not comes_back else PATIENCE_S


@dataclass
class Played:
    """What became of a case. ``left_out`` is the reason for which the struck phone took no part.

    ``left_running`` is what of ours ran on it when all was over and the fault was mended, ``still_running`` what did
    when the next run had seen it.
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


def synthetic_bundle(folder: Path, orders: tuple[str, ...]) -> Bundle:
    """The synthetic runner with these orders, in a folder of its own."""
    target = folder / f"bundle-{abs(hash(orders))}"
    if not target.exists():
        ordered_bundle(target, orders)
    return read_bundle(target)


def unseen_model(folder: Path, extra_bytes: int = 600_000) -> ModelFolder:
    """A model that no phone has yet: it must be pushed."""
    target = folder / "tiny-llama"
    shutil.copytree(find_model("tiny-llama"), target)
    (target / "extra.bin").write_bytes(os.urandom(extra_bytes))
    return read_model(target)


def running_on(endpoint: Endpoint) -> list[str]:
    """What of ours runs on a phone."""
    phone = AdbTransport(endpoint)
    phone.state()  # it may have a new number
    listed = phone.shell(["ps", "-A", "-o", "PID,ARGS"], deadline=Deadline(20, "a look", phone.name)).stdout
    return [line for line in listed.decode("utf-8", "replace").splitlines() if BASE_DIR in line]


def settings_of(endpoint: Endpoint) -> str:
    """What a phone's settings are."""
    phone = AdbTransport(endpoint)
    phone.state()
    script = "for n in global system secure; do settings list $n; done; dumpsys deviceidle enabled deep"
    said = phone.shell(["sh", "-c", script], deadline=Deadline(20, "a look", phone.name)).stdout
    return said.decode("utf-8", "replace")


def seen_next(endpoint: Endpoint, plan: Plan) -> tuple[list[str], str]:
    """See a phone next, as any later run does; then what of ours runs on it, and its settings."""
    terms = Terms("a look", wait_lease_s=20.0, recovery=plan.recovery)
    phone = connect(endpoint, load_tier_rules(), lambda _: None, terms)
    leave_as_found(phone, lambda _: None)
    return running_on(endpoint), settings_of(endpoint)


class Lane:
    """Two phones: one that is struck, and one that must not notice."""

    def __init__(self, victim: Endpoint, other: Endpoint, folder: Path) -> None:
        self.victim, self.other, self.folder = victim, other, folder
        self.control = PhoneControl(victim.name)
        (folder / "plan.toml").write_text(PLAN)
        self.plan = load_plan(folder / "plan.toml")
        self._count = 0
        self.settings = seen_next(victim, self.plan)[1]

    def play(self, case: Case) -> Played:
        """Let both phones run the plan, and strike one of them."""
        self._count += 1
        folder = RunFolder.create(self.folder / f"run-{self._count}")
        recovery = self.plan.recovery.model_copy(update={"wait_s": case.wait_s})
        plan = self.plan.model_copy(update={"recovery": recovery})
        model = unseen_model(self.folder / f"model-{self._count}")
        bundle = synthetic_bundle(self.folder, (*ORDERS, *case.orders))
        context = RunContext("faults", folder.path, plan, bundle, {"tiny-llama": model})
        timers: list[threading.Timer] = []

        def strike() -> None:
            if case.fault == "lease-stolen":
                self._steal_lease()
            else:
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
        left_running = running_on(self.victim)
        lost = len(case.expect) == 1 or case.expect[-1] != "ok" or case.moment == "restore"
        still_running, settings = (
            seen_next(self.victim, self.plan) if lost else (left_running, settings_of(self.victim))
        )
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

    def _steal_lease(self) -> None:
        """Somebody on another computer has the phone now, and soon no more."""
        probe = Probe.install(AdbTransport(self.victim))
        holder = probe.show_lease(lease_file(BASE_DIR)).holder
        assert holder is not None
        probe.end_lease(lease_file(BASE_DIR), holder.id)
        taken = probe.take_lease(lease_file(BASE_DIR), owner="bob", host="lab-2", purpose="play", ttl_s=9)
        assert taken.state == "taken"


LONGEST_S = 90.0
INTO = {"suspended": "rejected", "phone_gone": "skipped"}


def check_verdicts(done: Any, case: tuple[Any, ...]) -> None:
    """The struck phone gets what the case says, the other phone's cells are as they were going to be.

    Nothing of ours runs on afterwards and the settings are as before. What a lost phone still owes is put back by
    whoever sees it next.
    """
    expected = case[2]
    assert done.verdicts == expected, [record.detail for record in done.struck]
    for record, code in zip(done.struck, expected, strict=False):
        if code == "ok":
            assert (record.verdict.value, record.reason, record.fault) == ("ok", None, None)
        else:
            reason = Reason.from_code(code)
            assert (record.verdict, record.reason, record.fault) == (reason.verdict, code, reason.fault)
            assert record.verdict.value == INTO.get(code, "failed")
    product = {"crash", "out_of_memory", "thermal_shutdown"}
    assert {record.reason for record in done.struck if record.fault is Fault.PRODUCT} <= product
    assert [record.reason for record in done.other] == ["crash" if case[-1] == ("fault=SIGSEGV",) else None] * 2
    assert done.seconds < LONGEST_S
    # A phone that was given up could not be tidied up; one that answers to the end is left with nothing of ours.
    lost = len(expected) == 1 or expected[-1] != "ok" or case[1] == "restore"
    if not lost:
        assert done.left_running == []
    assert done.still_running == []
    assert done.settings_after == done.settings_before
