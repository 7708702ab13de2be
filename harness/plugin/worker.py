"""A worker: the process that measures on one phone."""

from __future__ import annotations

from harness.bench.phone import connect
from harness.bench.session import PhoneSession
from harness.plan.tiers import load_tier_rules
from harness.plugin.live import teller
from harness.plugin.run import BoundCell, WorkerRun
from harness.store.schema import CellRecord


class Worker:
    """Holds a session per phone; a phone is connected when its first cell comes."""

    def __init__(self, run: WorkerRun) -> None:
        self.run = run
        self._sessions: dict[str, PhoneSession] = {}

    def measure(self, bound: BoundCell) -> CellRecord:
        """Run a cell and return its record.

        Raises:
            FarmError: the phone could not be connected, or the record could not be written.
        """
        return self._session(bound.phone).run_cell(bound.cell)

    def _session(self, name: str) -> PhoneSession:
        if name not in self._sessions:
            say = teller(name)
            phone = connect(self.run.endpoints[name], load_tier_rules(), say)
            self._sessions[name] = PhoneSession(phone, self.run.context, say)
        return self._sessions[name]
