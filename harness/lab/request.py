"""What a controller is asked for, read and checked: plan, models, binaries; and the ids of the cells it means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.bench.context import cell_config, cell_id_of
from harness.bench.target import target_of_member
from harness.core.errors import ConfigError
from harness.lab.matching import Wanted
from harness.payload.bundle import Bundle, best_bundle, default_bundle, read_bundle
from harness.payload.bundles_place import find_bundle, imported_bundles
from harness.payload.models import ModelFolder, find_model, read_model
from harness.plan.golden import with_golden
from harness.plan.load import find_plan, load_plan, make_plan
from harness.plan.matrix import PlannedCell, cells_of
from harness.plan.model import Plan
from harness.store.head import FleetMember, RunInfo, Source
from harness.store.schema import CellConfig

DEFAULT_PLAN = "quick"


@dataclass(frozen=True)
class Request:
    """Plan, models and bundles of a run. A phone gets the first bundle that runs on it."""

    plan_name: str
    plan: Plan
    models: dict[str, ModelFolder]
    bundles: tuple[Bundle, ...]

    @property
    def plan_values(self) -> dict[str, Any]:
        """The plan as a run's head holds it."""
        return self.plan.model_dump(mode="json", by_alias=True)

    @property
    def model_sources(self) -> dict[str, Source]:
        """The models as a run's head holds them, by the plan's names."""
        return {
            name: Source(name=model.name, hash=model.folder.hash, folder=str(model.folder.root))
            for name, model in self.models.items()
        }

    @property
    def bundle_source(self) -> Source:
        """The bundle as a run's head holds it."""
        first = self.bundles[0]
        return Source(name=first.manifest.name, hash=first.hash, folder=str(first.folder.root.resolve()))

    def cells(self) -> list[PlannedCell]:
        """The plan's cells, the most wanted first."""
        return cells_of(self.plan)

    def bundle_for(self, member: FleetMember) -> Bundle:
        """Return the bundle that a phone gets."""
        return best_bundle(self.bundles, target_of_member(member.facts))

    def config_on(self, member: FleetMember, cell: PlannedCell) -> CellConfig:
        """Return what is asked of the engine on a phone."""
        return cell_config(cell, self.plan, member.facts.get("cpu_clusters") or ())

    def cell_ids(self, member: FleetMember) -> list[str]:
        """Return the ids of a phone's cells, the most wanted first."""
        bundle = self.bundle_for(member)
        return [
            cell_id_of(member.phone.id, self.models[cell.model], bundle, self.config_on(member, cell))
            for cell in self.cells()
        ]


def wanted_cells(request: Request, members: Sequence[FleetMember]) -> list[Wanted]:
    """Return every cell of every phone, broad before deep, and on which other phones it would be the very same work."""
    cells = request.cells()
    ids = {member.phone.id: request.cell_ids(member) for member in members}
    hashes = {member.phone.id: request.bundle_for(member).hash for member in members}
    found = []
    for number, cell in enumerate(cells):
        same: dict[str, dict[str, str]] = {}
        keys = {}
        for member in members:
            mine = member.phone.id
            keys[mine] = f"{hashes[mine]} {request.config_on(member, cell).model_dump_json()}"
            same.setdefault(keys[mine], {})[mine] = ids[mine][number]
        found += [Wanted(ids[mine][number], mine, number, same[key]) for mine, key in keys.items()]
    return found


def read_request(
    plan: str | None,
    models: Sequence[str],
    bundle: str | None,
    golden: str | None = None,
    head: RunInfo | None = None,
) -> Request:
    """Read plan, models and bundle; those of the run that ``head`` began unless others are named.

    Raises:
        ConfigError: one sentence with what is wrong, where, and what to do.
    """
    overrides: dict[str, tuple[str, Any]] = {"models": ("--model", list(models))} if models else {}
    name = plan or (head.plan_name if head is not None else DEFAULT_PLAN)
    if head is not None and plan is None:
        read = make_plan(head.plan, "the plan of this run (run.json)", overrides)
    else:
        read = load_plan(find_plan(name), overrides)
    read = with_golden(read, golden)
    sources: Mapping[str, Source] = head.models if head is not None and not models else {}
    found = {wanted: read_model(_model_path(wanted, sources.get(wanted))) for wanted in read.models}
    if len({model.folder.hash for model in found.values()}) < len(found):
        raise ConfigError("two of the models are the same files", remedy="name each model once")
    return Request(name, read, found, _bundles(bundle, head, read))


def _model_path(wanted: str, source: Source | None) -> Path:
    there = Path(source.folder) if source is not None else None
    return there if there is not None and there.is_dir() else find_model(wanted)


def _bundles(given: str | None, head: RunInfo | None, plan: Plan) -> tuple[Bundle, ...]:
    """Return the bundle that was named, else that of the run, else our own and all imported ones."""
    ours = default_bundle()
    of_run = Path(head.bundle.folder) if head is not None and head.bundle is not None else None
    if given:
        found = [read_bundle(find_bundle(given))]
    elif of_run is not None and of_run.is_dir() and of_run.resolve() != ours.folder.root.resolve():
        found = [read_bundle(of_run)]
    else:
        found = [ours, *imported_bundles()]
    if plan.runner == "auto":
        return tuple(found)
    if given or len(found) == 1:
        return tuple(bundle.with_runner(plan.runner) for bundle in found)
    able = tuple(bundle.with_runner(plan.runner) for bundle in found if plan.runner in bundle.manifest.runners)
    if not able:
        raise ConfigError(f"no device binaries here have {plan.runner}", remedy="run: mnn-farm bins import PATH")
    return able
