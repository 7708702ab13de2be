"""What a controller orders of a host, and what a host tells of it. Plain values that pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.bench.context import RunContext
from harness.lab.parcel import bundle_at, model_at
from harness.payload.bundle import Bundle
from harness.payload.models import ModelFolder
from harness.plan.matrix import PlannedCell
from harness.plan.model import Plan


@dataclass(frozen=True)
class Work:
    """One cell on one phone.

    Attributes:
        cell_id: the planned cell's id, for which the record counts.
        ran_id: the id of the same work on the phone that does it: another one where the cell was moved.
    """

    cell_id: str
    ran_id: str
    cell: PlannedCell


@dataclass(frozen=True)
class Order:
    """The cells of one phone, one task for Dask.

    Attributes:
        planned_phone: whose cells they are; ``None``: the phone's own.
        bundle: the device binaries that the phone gets; ``bundle_hash`` is what they must be on the host too.
        parcels: by ``bundle`` and by the plan's names of models, under which hash the host has them.
        wait_lease_s: patience with a phone that somebody else is using.
    """

    id: str
    run_id: str
    plan_name: str
    plan: Plan
    phone_id: str
    phone_name: str
    planned_phone: str | None
    work: tuple[Work, ...]
    bundle: Bundle
    bundle_hash: str
    models: dict[str, ModelFolder]
    parcels: dict[str, str]
    wait_lease_s: float = 0.0

    def context(self, run_dir: Path, place_of: Mapping[str, Path]) -> RunContext:
        """Return the run's context on a host that has the parcels there."""
        models = {name: model_at(model, place_of[self.parcels[f"model {name}"]]) for name, model in self.models.items()}
        bundle = bundle_at(self.bundle, place_of[self.parcels["bundle"]])
        return RunContext(self.run_id, run_dir, self.plan, bundle, models)


@dataclass(frozen=True)
class Ended:
    """How an order ended. ``refused``: why no cell was begun; ``stopped``: it was ended early on request or for us."""

    refused: str = ""
    code: str = ""
    stopped: str = ""


@dataclass(frozen=True)
class RawFile:
    """A file of raw output on a host: its path below the attempt's folder, and its size."""

    path: str
    size: int


@dataclass(frozen=True)
class Item:
    """A finished attempt on a host.

    Attributes:
        number: of the attempt within the order, from 0.
        cell_id: the planned cell for which it counts.
        record: as the host wrote it, one line of JSON.
        raw: its raw output, as far as it is not too much; ``left`` says how many files are.
        small: contents of files that are sent along.
    """

    order_id: str
    number: int
    phone_id: str
    planned_phone: str | None
    cell_id: str
    record: bytes
    raw: tuple[RawFile, ...] = ()
    left: int = 0
    small: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class News:
    """What a host tells a controller: at most one finished attempt an order, and what each order is doing."""

    items: tuple[Item, ...]
    doing: dict[str, str]
    over: frozenset[str]


@dataclass(frozen=True)
class Announcement:
    """What a host tells the scheduler when it comes: its name, its version, its phones as run heads hold them."""

    host: str
    version: str
    phones: tuple[dict[str, Any], ...]
    left_out: tuple[dict[str, Any], ...] = ()
