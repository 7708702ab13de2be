"""A worker: the process that measures on one phone."""

from __future__ import annotations

from datetime import datetime, timezone

from harness.bench.estimate import estimate_s
from harness.bench.session import PhoneSession
from harness.bench.support import ruled_out
from harness.core.errors import FarmError
from harness.core.reasons import Reason
from harness.plan.matrix import PlannedCell
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
        session = self._session(bound.phone)
        late = too_late(bound.cell, session, self.run.stop_at, datetime.now(timezone.utc))
        return session.run_cell(bound.cell) if late is None else session.record_failure(bound.cell, late)

    def close(self) -> None:
        """Leave all phones of this worker as they were found."""
        while self._sessions:
            self._sessions.popitem()[1].close()

    def _session(self, name: str) -> PhoneSession:
        if name not in self._sessions:
            self._sessions[name] = PhoneSession(self.run.phones[name], self.run.context, teller(name))
        return self._sessions[name]


def too_late(cell: PlannedCell, session: PhoneSession, stop_at: datetime | None, now: datetime) -> FarmError | None:
    """Return why a cell is not started, if it would not be done by ``stop_at``; ``None`` when it may start.

    A cell that is known to be unsupported, or whose phone was given up, takes no time.
    """
    if stop_at is None or session.gone is not None:
        return None
    context, phone = session.context, session.phone
    model = context.models[cell.model]
    if ruled_out(cell, phone.facts, context.bundle, model) is not None:
        return None
    needs_s = estimate_s(cell, context.plan, model, phone.tier)
    left_s = (stop_at - now).total_seconds()
    if needs_s <= left_s:
        return None
    ends = f"{stop_at.astimezone():%H:%M:%S}"
    return FarmError(
        f"this cell takes about {needs_s:.0f} s and the run's time ends in {left_s:.0f} s, at {ends}"
        if left_s > 0
        else f"the run's time ended at {ends}",
        remedy="finish the run with --resume",
        reason=Reason.OUT_OF_TIME,
    )
