"""A worker: the process that measures on one phone."""

from __future__ import annotations

from harness.bench.session import PhoneSession
from harness.plugin.live import teller
from harness.plugin.run import BoundCell, WorkerRun
from harness.store.schema import CellRecord


class Worker:
    """Holds a session per phone, which begins with the phone's first cell."""

    def __init__(self, run: WorkerRun) -> None:
        self.run = run
        self._sessions: dict[str, PhoneSession] = {}

    def measure(self, bound: BoundCell) -> CellRecord:
        """Run a cell and return its record.

        Raises:
            FarmError: the record could not be written.
        """
        return self._session(bound.phone).run_cell(bound.cell)

    def close(self) -> None:
        """Leave all phones of this worker as they were found."""
        while self._sessions:
            self._sessions.popitem()[1].close()

    def _session(self, name: str) -> PhoneSession:
        if name not in self._sessions:
            self._sessions[name] = PhoneSession(self.run.phones[name], self.run.context, teller(name))
        return self._sessions[name]
