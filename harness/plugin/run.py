"""One run in the controlling process: prepared before pytest collects, finished when it ends."""

from __future__ import annotations

import os
import pickle
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import harness
from harness.bench.context import RunContext, cell_config, cell_id_of
from harness.bench.estimate import estimate_s
from harness.bench.phone import ConnectedPhone
from harness.bench.support import ruled_out
from harness.bench.target import target_of
from harness.core.ids import iso, new_run_id, test_name, utc_now
from harness.fleet.opening import Fleet
from harness.payload.bundle import Bundle
from harness.payload.bundle_manifest import Target
from harness.plan.matrix import PlannedCell, cells_of
from harness.plugin.options import Request
from harness.store.head import FleetMember, RunInfo
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord


@dataclass(frozen=True)
class BoundCell:
    """A cell of the plan on one phone, with the id by which pytest names it."""

    phone: str
    cell: PlannedCell
    cell_id: str
    test_id: str


@dataclass(frozen=True)
class WorkerRun:
    """What a worker needs: plain values that pickle. ``stop_at`` is the moment after which no cell is started."""

    context: RunContext
    phones: dict[str, ConnectedPhone]
    cells: tuple[BoundCell, ...]
    test_paths: tuple[str, ...]
    stop_at: datetime | None = None

    def dump(self) -> bytes:
        """Return it as bytes for a worker of the same code."""
        return pickle.dumps(self)

    @staticmethod
    def load(data: bytes) -> WorkerRun:
        """Read what :meth:`dump` wrote; it comes from our own controller over a pipe."""
        loaded = pickle.loads(data)  # noqa: S301
        assert isinstance(loaded, WorkerRun)  # noqa: S101
        return loaded


@dataclass
class Run:
    """The run as the controller holds it.

    Attributes:
        planned: every cell of the phones that are here, the most wanted first.
        cells: those of them that are to be done now: all, or what an earlier start left.
        members: ids of all phones that ever took part, in the order in which they came.
        notes: lines for people about what was found in the run folder.
    """

    request: Request
    fleet: Fleet
    context: RunContext
    folder: RunFolder
    planned: tuple[BoundCell, ...]
    cells: tuple[BoundCell, ...]
    members: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def busy_phones(self) -> list[str]:
        """Names of the phones that have something to do."""
        busy = {bound.phone for bound in self.cells}
        return [phone.name for phone in self.fleet.phones if phone.name in busy]

    def unfinished(self, records: Iterable[CellRecord]) -> int:
        """Return how many cells of the phones that are here have no final record among ``records``."""
        final = {record.cell_id for record in records if record.final}
        return sum(bound.cell_id not in final for bound in self.planned)

    def worker_run(self, test_paths: Sequence[str]) -> WorkerRun:
        """Return what workers need; ``test_paths`` is what they collect."""
        phones = {phone.name: phone for phone in self.fleet.phones}
        return WorkerRun(self.context, phones, self.cells, tuple(test_paths), self.request.stop_at)


def cell_ids(request: Request, phone_id: str, target: Target, clusters: Iterable[Any] = ()) -> list[str]:
    """Return the ids of a phone's cells, the most wanted first; the phone need not be here.

    ``target`` decides which device binaries it gets. ``clusters`` are the ``cpu_clusters`` of its facts, which say what
    a plan's ``affinity`` means on it.
    """
    bundle = request.bundle_for(target)
    return [_cell_id(request, phone_id, bundle, clusters, cell) for cell in cells_of(request.plan)]


def _cell_id(request: Request, phone_id: str, bundle: Bundle, clusters: Iterable[Any], cell: PlannedCell) -> str:
    config = cell_config(cell, request.plan, clusters)
    return cell_id_of(phone_id, request.models[cell.model], bundle, config)


def bind_cells(request: Request, phones: Sequence[ConnectedPhone]) -> tuple[BoundCell, ...]:
    """Return every cell on every phone: the most wanted cell of each phone, then the next of each.

    So a process that runs them all by itself gives every phone its first figures first, as workers side by side do.
    """
    bound = []
    bundles = {phone.name: request.bundle_for(target_of(phone.facts)) for phone in phones}
    for cell in cells_of(request.plan):
        for phone in phones:
            cell_id = _cell_id(request, phone.identity.id, bundles[phone.name], phone.facts.cpu_clusters, cell)
            name = test_name(
                phone.name,
                request.models[cell.model].name,
                cell.backend,
                cell.threads,
                cell.precision,
                cell.prompt_tokens,
                cell.generate_tokens,
                cell_id,
            )
            bound.append(BoundCell(phone.name, cell, cell_id, name))
    return tuple(bound)


def member_of(phone: ConnectedPhone) -> FleetMember:
    """Return a phone as a run's head holds it."""
    return FleetMember(
        phone=phone.info,
        provider=phone.endpoint.provider,
        facts=phone.facts.as_dict(),
        nulls={**phone.nulls, **phone.facts.nulls},
        tier_because=phone.placement.because,
    )


def default_run_dir(root: Path, run_id: str) -> Path:
    """Return where a run's folder goes when nobody says."""
    return root / "reports" / run_id


def begin(request: Request, fleet: Fleet, run_dir: Path | None, root: Path, command: list[str]) -> Run:
    """Make the run folder and write its head.

    Raises:
        ConfigError: the folder holds something else.
    """
    run_id = new_run_id()
    folder = RunFolder.create(run_dir or default_run_dir(root, run_id))
    context = context_of(request, run_id, folder)
    cells = bind_cells(request, fleet.phones)
    info = RunInfo(
        run_id=run_id,
        started=iso(utc_now()),
        command=tuple(command),
        harness_version=harness.__version__,
        versions={"python": platform.python_version(), **{name: version(name) for name in ("pytest", "adbutils")}},
        host={"system": platform.platform(), "machine": platform.machine(), "cpus": str(os.cpu_count())},
        plan_name=request.plan_name,
        plan=request.plan_values,
        fleet=tuple(member_of(phone) for phone in fleet.phones),
        left_out=tuple(fleet.left_out),
        cells=len(cells),
        models=request.model_sources,
        bundle=request.bundle_source,
    )
    folder.write_info(info)
    return Run(request, fleet, context, folder, cells, cells, tuple(phone.identity.id for phone in fleet.phones))


def context_of(request: Request, run_id: str, folder: RunFolder) -> RunContext:
    """Return what all phones of a run have in common."""
    where = folder.path.resolve()
    return RunContext(run_id, where, request.plan, request.bundle, request.models, request.more_bundles)


def command_line() -> list[str]:
    """Return how this process was started, as a person would type it."""
    return [Path(sys.argv[0]).name, *sys.argv[1:]]


def describe_dry_run(
    request: Request, phones: Sequence[ConnectedPhone], is_left: Callable[[str], bool] = lambda _: True
) -> Iterator[str]:
    """Yield, line by line, the cells per phone and the time they should take.

    ``is_left`` tells by its id whether a cell is to be done, in a run that was begun before.
    """
    busy: dict[str, float] = {}
    for phone in phones:
        yield f"{phone.name}: {phone.facts.model or 'unknown model'}, {phone.tier} tier"
        for bound in bind_cells(request, [phone]):
            model, bundle = request.models[bound.cell.model], request.bundle_for(target_of(phone.facts))
            if not is_left(bound.cell_id):
                yield f"  {model.name} {bound.cell.label}  done before"
                continue
            refused = ruled_out(bound.cell, request.plan, phone.facts, bundle, model)
            if refused is not None:
                yield f"  {model.name} {bound.cell.label}  {refused.reason.code}: {refused.detail}"
                continue
            seconds = estimate_s(bound.cell, request.plan, model, phone.tier)
            # Phones that share a processor take turns; the others run side by side.
            key = phone.endpoint.contention_group or phone.name
            busy[key] = busy.get(key, 0.0) + seconds
            yield f"  {model.name} {bound.cell.label}  about {seconds:.0f} s"
    total = max(busy.values(), default=0.0)
    yield f"{len(phones)} phones, about {total:.0f} s in all, without pushing, waiting and cooling; nothing was run"
