"""A night of faults at random moments on four phones: no cell is lost, none is done twice, nobody is blamed wrongly.

Seeded by ``SOAK_SEED``; ``SOAK_INJECTIONS`` says how many faults (``make soak N=1000``). Whatever a fault leaves
unfinished is done again, as ``--resume`` does it, until every cell has its final record.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.bench.context import RunContext
from harness.bench.phone import Terms, connect
from harness.bench.session import PhoneSession
from harness.core.errors import FarmError
from harness.core.provider import Endpoint
from harness.core.reasons import Fault
from harness.plan.load import load_plan
from harness.plan.matrix import cells_of
from harness.plan.tiers import load_tier_rules
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord
from harness.virtual.control import PhoneControl

PLAN = """
schema = 1
models = ["tiny-llama"]
backends = ["cpu"]
threads = [1, 2, 3, 4, 5, 6]
prompt_tokens = [32]
generate_tokens = [8]
warmups = 0
repeats = 1
cell_timeout_s = 20
[recovery]
wait_s = 3
stall_s = 0.8
tries = 3
quarantine = false
"""
ORDERS = ("load_ms=60", "prefill_ms=60", "token_ms=10", "first_token_ms=1", "peak_mb=48")
# What ends by itself or is mended after a moment, and what stays until the phone was given up.
BRIEF = (
    "cut", "cut=0.2", "offline", "unauthorized", "reboot=0.2", "full-disk", "read-only", "slow=400000", "stalled",
    "exit-lost", "garbage", "truncated", "clock-jumped", "adbd-restarted", "thermal-shutdown", "corrupt", "lmkd-kill",
)  # fmt: skip
# Not `replaced`: before it is known who a phone is, another one in its place rightly counts as another phone.
LASTING = ("cut", "offline", "unauthorized", "stalled", "full-disk", "thermal-shutdown")
# What a fault may be taken for that is the product's own.
PRODUCT = {"lmkd-kill": "out_of_memory", "thermal-shutdown": "thermal_shutdown"}
MOST_PASSES = 40


class Agitator:
    """Strikes one phone at moments that it draws, never while an earlier fault is still there."""

    def __init__(self, control: PhoneControl, rng: random.Random, budget: threading.Semaphore) -> None:
        self.control, self.rng, self.budget = control, rng, budget
        self.done: list[tuple[float, str]] = []
        self.blamed: list[tuple[Fault, str]] = []
        """Whose fault it was that a phone could not be connected."""
        self._mending: threading.Thread | None = None
        self._lasting = False

    def say(self, _: str) -> None:
        self._perhaps(0.12)

    def watch(self, _: object) -> None:
        self._perhaps(0.06)

    def calm(self) -> None:
        """Have everything mended."""
        if self._mending is not None:
            self._mending.join(60)
        self._mending, self._lasting = None, False
        self.control.heal()

    def _perhaps(self, chance: float) -> None:
        mending = self._mending is not None and self._mending.is_alive()
        if self._lasting or mending or self.rng.random() >= chance or not self.budget.acquire(blocking=False):
            return
        self._lasting = self.rng.random() < 0.08
        fault = self.rng.choice(LASTING if self._lasting else BRIEF)
        try:
            self.control.inject(fault)
        except FarmError:  # nothing runs that could be killed, no file that could be spoilt
            self.budget.release()
            self._lasting = False
            return
        self.done.append((time.time(), fault))
        if not self._lasting:
            self._mending = threading.Thread(target=self._mend, args=(self.rng.uniform(0.05, 0.5),))
            self._mending.start()

    def _mend(self, after_s: float) -> None:
        time.sleep(after_s)
        self.control.heal()


def unfinished(folder: RunFolder, endpoint: Endpoint, plan: Any) -> list[Any]:
    done = {r.config.threads for r in folder.records() if r.phone.name == endpoint.name and r.final}
    return [cell for cell in cells_of(plan) if cell.threads not in done]


def spend(endpoint: Endpoint, context: RunContext, agitator: Agitator) -> int:
    """Run a phone's cells until each has its final record; return how often the phone was begun with."""
    terms = Terms("a soak", wait_lease_s=30.0, recovery=context.plan.recovery)
    folder = RunFolder(context.run_dir)
    for passes in range(1, MOST_PASSES):
        try:
            phone = connect(endpoint, load_tier_rules(), agitator.say, terms)
        except FarmError as error:
            agitator.blamed.append((error.reason.fault, str(error)))
            agitator.calm()
            continue
        session = PhoneSession(phone, context, agitator.say, agitator.watch)
        for cell in unfinished(folder, endpoint, context.plan):
            session.run_cell(cell)
        session.close()
        agitator.calm()
        if not unfinished(folder, endpoint, context.plan):
            return passes
    raise AssertionError(f"{endpoint.name} did not finish in {MOST_PASSES} passes")


def blamed_wrongly(record: CellRecord, injected: list[tuple[float, str]]) -> bool:
    """Whether a record blames the product for what the lab did, or us, or the plan."""
    if record.fault is None or record.fault is Fault.INFRA:
        return False
    return record.reason not in {PRODUCT.get(fault) for _, fault in injected}


def test_a_night_of_faults(
    arena: ModuleType, four_phones: list[Endpoint], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted, seed = int(os.environ.get("SOAK_INJECTIONS", "24")), int(os.environ.get("SOAK_SEED", "1"))
    (tmp_path / "plan.toml").write_text(PLAN)
    plan = load_plan(tmp_path / "plan.toml")
    bundle = arena.synthetic_bundle(tmp_path, ORDERS)
    settings = {phone.name: arena.seen_next(phone, plan)[1] for phone in four_phones}
    budget = threading.Semaphore(wanted)
    agitators = [
        Agitator(PhoneControl(phone.name), random.Random(f"{seed} {number}"), budget)  # noqa: S311  a test's dice
        for number, phone in enumerate(four_phones)
    ]
    begun, verdicts, passes, rounds = time.monotonic(), Counter[str](), 0, 0
    while sum(len(agitator.done) for agitator in agitators) < wanted:
        rounds += 1
        assert rounds <= wanted, "the dice never fall"
        model = arena.unseen_model(tmp_path / f"model-{rounds}", 200_000)
        folder = RunFolder.create(tmp_path / f"run-{rounds}")
        context = RunContext(f"soak-{rounds}", folder.path, plan, bundle, {"tiny-llama": model})
        with ThreadPoolExecutor(len(four_phones)) as pool:
            passes += sum(pool.map(spend, four_phones, [context] * len(four_phones), agitators))
        records = list(folder.records())
        verdicts.update(record.reason or "ok" for record in records)
        final = Counter((record.phone.name, record.config.threads) for record in records if record.final)
        assert final == {(phone.name, cell.threads): 1 for phone in four_phones for cell in cells_of(plan)}
        attempts = Counter((record.cell_id, record.attempt) for record in records)
        assert set(attempts.values()) == {1}
        assert len({record.cell_id for record in records}) == len(final)
        by_name = {phone.name: agitator.done for phone, agitator in zip(four_phones, agitators, strict=True)}
        wrong = [record for record in records if blamed_wrongly(record, by_name[record.phone.name])]
        assert not wrong, [(record.reason, record.detail, by_name[record.phone.name][-5:]) for record in wrong]
    for phone in four_phones:
        running, after = arena.seen_next(phone, plan)
        assert (phone.name, running, after) == (phone.name, [], settings[phone.name])
    assert [entry for agitator in agitators for entry in agitator.blamed if entry[0] is not Fault.INFRA] == []
    injected = Counter(fault for agitator in agitators for _, fault in agitator.done)
    with capsys.disabled():
        print(  # noqa: T201  the figures that `make soak` is for
            f"\nsoak: seed {seed}, {sum(injected.values())} faults on {len(four_phones)} phones in "
            f"{time.monotonic() - begun:.0f} s, {rounds} runs of {len(cells_of(plan))} cells a phone, "
            f"phones begun with {passes} times\n"
            f"  faults:   {dict(injected.most_common())}\n  verdicts: {dict(verdicts.most_common())}\n"
            "  every cell has one final record, none is lost, none is doubled, no fault is wrong"
        )
