"""What a worker is given: the cells of the plan bound to phones, and all that measuring them takes. Plain values."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from harness.bench.context import RunContext
from harness.bench.phone import ConnectedPhone
from harness.plan.matrix import PlannedCell
from harness.report.news_against import Baseline


@dataclass(frozen=True)
class BoundCell:
    """A cell of the plan on one phone, with the id by which pytest names it."""

    phone: str
    cell: PlannedCell
    cell_id: str
    test_id: str

    @property
    def pair(self) -> str | None:
        """What names it together with the other build's turns; ``None`` where one build is measured."""
        return None if self.cell.block is None else self.cell.block.pair

    @property
    def turn(self) -> tuple[str, int]:
        """What its records go by: the cell's id, and which turn of it this is."""
        return self.cell_id, 0 if self.cell.block is None else self.cell.block.number


@dataclass(frozen=True)
class WorkerRun:
    """What a worker needs: plain values that pickle.

    ``stop_at`` is the moment after which no cell is started, ``baseline`` what makes a cell red by comparison,
    ``before`` how many records each turn of a cell had when this start began. With ``phone_after_phone`` a worker
    leaves a phone before it takes the next.
    """

    context: RunContext
    phones: dict[str, ConnectedPhone]
    cells: tuple[BoundCell, ...]
    test_paths: tuple[str, ...]
    stop_at: datetime | None = None
    baseline: Baseline = field(default_factory=Baseline)
    before: Mapping[tuple[str, int], int] = field(default_factory=dict)
    phone_after_phone: bool = False

    def dump(self) -> bytes:
        """Return it as bytes for a worker of the same code."""
        return pickle.dumps(self)

    @staticmethod
    def load(data: bytes) -> WorkerRun:
        """Read what :meth:`dump` wrote; it comes from our own controller over a pipe."""
        loaded = pickle.loads(data)  # noqa: S301
        assert isinstance(loaded, WorkerRun)  # noqa: S101
        return loaded
