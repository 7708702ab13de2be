"""A worker: the process that measures on one phone."""

from __future__ import annotations

from datetime import datetime, timezone

from harness.bench.estimate import estimate_s
from harness.bench.session import PhoneSession
from harness.bench.support import ruled_out
from harness.core.errors import FarmError
from harness.core.reasons import Reason
from harness.plan.matrix import PlannedCell
from harness.plugin.bound import BoundCell, WorkerRun
from harness.plugin.progress import teller
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord

# The key under which a worker tells the controller why it stopped by itself.
WORKER_OUTPUT = "mnn_farm_stopped"


class Worker:
    """Holds a session per phone, which begins with the phone's first cell.

    Attributes:
        stopped: why no further cell should be begun on any phone; empty while all is well.
    """

    def __init__(self, run: WorkerRun) -> None:
        self.run = run
        self.stopped = ""
        self._sessions: dict[str, PhoneSession] = {}

    def measure(self, bound: BoundCell) -> CellRecord:
        """Run a cell and return its record; that of this very start, if it was written before and only not told.

        When this computer's disk is full, :attr:`stopped` says afterwards why no further cell should be begun.

        Raises:
            FarmError: the record could not be written.
        """
        written = self._written(bound)
        if written is not None:
            return written
        session = self._session(bound.phone)
        late = too_late(bound.cell, session, self.run.stop_at, datetime.now(timezone.utc))
        try:
            record = session.run_cell(bound.cell) if late is None else session.record_failure(bound.cell, late)
        except FarmError as error:
            if error.reason is Reason.HOST_DISK_FULL:
                self.stopped = f"no further cell is begun: {error}"
            raise
        if record.why is Reason.HOST_DISK_FULL:
            where = self.run.context.run_dir
            self.stopped = f"no further cell is begun: {record.why.says}; make room where {where} lies and run again"
        return record

    def close(self) -> None:
        """Leave all phones of this worker as they were found."""
        while self._sessions:
            self._sessions.popitem()[1].close()

    def _written(self, bound: BoundCell) -> CellRecord | None:
        """Return what a worker before this one has written of a cell, if it was run in this start.

        What a worker that died left is no result: its cell is run again, as a new attempt.
        """
        of_turn = [
            record
            for record in RunFolder(self.run.context.run_dir).records_of(bound.cell_id)
            if record.turn == bound.turn
        ]
        new = of_turn[self.run.before.get(bound.turn, 0) :]
        return new[-1] if new and new[-1].why is not Reason.HARNESS_ERROR else None

    def _session(self, name: str) -> PhoneSession:
        if name not in self._sessions:
            if self.run.phone_after_phone:
                self.close()
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
    if ruled_out(cell, context.plan, phone.facts, context.bundle_for(phone.facts, cell), model) is not None:
        return None
    # Turns that two builds take mean nothing without those that follow.
    turns = 1 if cell.block is None else cell.block.of - cell.block.number
    needs_s = turns * estimate_s(cell, context.plan, model, phone.tier)
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
