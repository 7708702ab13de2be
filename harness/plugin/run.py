"""One run in the controlling process: prepared before pytest collects, finished when it ends."""

from __future__ import annotations

import os
import pickle
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import harness
from harness.bench.context import RunContext, cell_config, cell_id_of
from harness.bench.estimate import estimate_s
from harness.bench.member import member_of
from harness.bench.phone import ConnectedPhone
from harness.bench.support import ruled_out
from harness.bench.target import target_of
from harness.core.ids import content_id, iso, new_run_id, test_name, utc_now
from harness.fleet.opening import Fleet
from harness.payload.bundle import Bundle
from harness.payload.bundle_manifest import Target
from harness.plan.matrix import Block, PlannedCell, arms_of, cells_of
from harness.plugin.bundles import TwoBuilds
from harness.plugin.options import Request
from harness.report.ab import pairs_of
from harness.report.news_against import LAST, Against, Baseline, baseline_of, find_against
from harness.report.text import distinct
from harness.store.head import RunInfo
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord


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

    ``stop_at`` is the moment after which no cell is started, ``baseline`` what makes a cell red by comparison.
    """

    context: RunContext
    phones: dict[str, ConnectedPhone]
    cells: tuple[BoundCell, ...]
    test_paths: tuple[str, ...]
    stop_at: datetime | None = None
    baseline: Baseline = field(default_factory=Baseline)

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
        against: the run to compare with, ``None`` if there is none.
        baseline: what workers need of it.
        passed_over: lines for people about runs that could not be compared with.
    """

    request: Request
    fleet: Fleet
    context: RunContext
    folder: RunFolder
    planned: tuple[BoundCell, ...]
    cells: tuple[BoundCell, ...]
    members: tuple[str, ...]
    notes: tuple[str, ...] = ()
    against: Against | None = None
    baseline: Baseline = field(default_factory=Baseline)
    passed_over: tuple[str, ...] = ()

    @property
    def shared_phones(self) -> frozenset[str]:
        """Ids of the phones whose speed is not judged by comparison: it is that of a computer with other work."""
        return frozenset(member.phone.id for member in self.folder.read_info().fleet if member.shares_cpu)

    def compare(self) -> None:
        """Find the run to compare with.

        Raises:
            ConfigError: the one that was named cannot be read.
        """
        ids = {bound.cell_id for bound in self.planned}
        self.against, notes = find_against(self.request.against or LAST, self.folder.path, ids)
        self.passed_over = tuple(notes)
        if self.against is not None:
            self.baseline = baseline_of(self.against, ids, self.shared_phones)

    @property
    def busy_phones(self) -> list[str]:
        """Names of the phones that have something to do."""
        busy = {bound.phone for bound in self.cells}
        return [phone.name for phone in self.fleet.phones if phone.name in busy]

    def unfinished(self, records: Iterable[CellRecord]) -> int:
        """Return how many cells of the phones that are here have no final record among ``records``.

        Of two builds that take turns ``records`` are all turns; a cell is final when all of them are.
        """
        if self.request.ab is not None:
            done = {pair.key for pair in pairs_of(records) if pair.done}
            return len({bound.pair for bound in self.planned} - done)
        final = {record.cell_id for record in records if record.final}
        return sum(bound.cell_id not in final for bound in self.planned)

    def worker_run(self, test_paths: Sequence[str]) -> WorkerRun:
        """Return what workers need; ``test_paths`` is what they collect."""
        phones = {phone.name: phone for phone in self.fleet.phones}
        return WorkerRun(self.context, phones, self.cells, tuple(test_paths), self.request.stop_at, self.baseline)


def cell_ids(request: Request, phone_id: str, target: Target, clusters: Iterable[Any] = ()) -> list[str]:
    """Return the ids of a phone's cells, the most wanted first; the phone need not be here.

    ``target`` decides which device binaries it gets. ``clusters`` are the ``cpu_clusters`` of its facts, which say what
    a plan's ``affinity`` means on it. Where two builds take turns a cell of the plan has an id with each.
    """
    clusters = tuple(clusters)
    bundles = (request.ab.a, request.ab.b) if request.ab is not None else (request.bundle_for(target),)
    ids = [_cell_id(request, phone_id, bundle, clusters, cell) for cell in cells_of(request.plan) for bundle in bundles]
    return distinct(ids)


def _cell_id(request: Request, phone_id: str, bundle: Bundle, clusters: Iterable[Any], cell: PlannedCell) -> str:
    model = request.models[cell.model]
    return cell_id_of(phone_id, model, bundle, cell_config(cell, request.plan, clusters, model=model))


def bind_cells(request: Request, phones: Sequence[ConnectedPhone]) -> tuple[BoundCell, ...]:
    """Return every cell on every phone: the most wanted cell of each phone, then the next of each.

    So a process that runs them all by itself gives every phone its first figures first, as workers side by side do.
    """
    if request.ab is not None:
        return tuple(_bind_turns(request, request.ab, phones))
    bundles = {phone.name: request.bundle_for(target_of(phone.facts)) for phone in phones}
    return tuple(
        _bind(request, phone, bundles[phone.name], cell) for cell in cells_of(request.plan) for phone in phones
    )


def _bind_turns(request: Request, ab: TwoBuilds, phones: Sequence[ConnectedPhone]) -> Iterator[BoundCell]:
    """Yield the turns of both builds, those of a cell on a phone one after the other."""
    arms = arms_of(ab.rounds)
    for cell in cells_of(request.plan):
        firsts = {phone.name: [_bind(request, phone, bundle, cell) for bundle in (ab.a, ab.b)] for phone in phones}
        for number, arm in enumerate(arms):
            for phone in phones:
                a, b = firsts[phone.name]
                pair = content_id({"a": a.cell_id, "b": b.cell_id})
                bound = a if arm == "A" else b
                turn = replace(cell, block=Block(pair, arm, number, len(arms)))
                yield replace(bound, cell=turn, test_id=f"{bound.test_id}-{arm}{number + 1}")


def _bind(request: Request, phone: ConnectedPhone, bundle: Bundle, cell: PlannedCell) -> BoundCell:
    cell_id = _cell_id(request, phone.identity.id, bundle, phone.facts.cpu_clusters, cell)
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
    return BoundCell(phone.name, cell, cell_id, name)


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
        cells=len({bound.cell_id for bound in cells}),
        models=request.model_sources,
        bundle=request.bundle_source,
        against=request.against,
        ab=request.second_build,
    )
    folder.write_info(info)
    return Run(request, fleet, context, folder, cells, cells, tuple(phone.identity.id for phone in fleet.phones))


def context_of(request: Request, run_id: str, folder: RunFolder) -> RunContext:
    """Return what all phones of a run have in common."""
    where = folder.path.resolve()
    second = None if request.ab is None else request.ab.b
    return RunContext(run_id, where, request.plan, request.bundle, request.models, request.more_bundles, second)


def command_line() -> list[str]:
    """Return how this process was started, as a person would type it."""
    return [Path(sys.argv[0]).name, *sys.argv[1:]]


def describe_dry_run(
    request: Request, phones: Sequence[ConnectedPhone], is_left: Callable[[BoundCell], bool] = lambda _: True
) -> Iterator[str]:
    """Yield, line by line, the cells per phone and the time they should take.

    ``is_left`` tells whether a cell is to be done, in a run that was begun before.
    """
    busy: dict[str, float] = {}
    for phone in phones:
        yield f"{phone.name}: {phone.facts.model or 'unknown model'}, {phone.tier} tier"
        for bound in bind_cells(request, [phone]):
            model, bundle = request.models[bound.cell.model], request.bundle_for(target_of(phone.facts))
            if request.ab is not None and bound.cell.block is not None and bound.cell.block.arm == "B":
                bundle = request.ab.b
            if not is_left(bound):
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
