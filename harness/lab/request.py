"""What a controller is asked for, read and checked: plan, models, binaries; and the ids of the cells it means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.bench.context import cell_config, cell_id_of
from harness.bench.target import target_of_member
from harness.lab.matching import Wanted
from harness.payload.bundle import Bundle, best_bundle
from harness.payload.chosen import bundle_source, bundles_of, model_sources, models_of
from harness.payload.models import ModelFolder
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
        return model_sources(self.models)

    @property
    def bundle_source(self) -> Source:
        """The bundle as a run's head holds it."""
        return bundle_source(self.bundles[0])

    def cells(self) -> list[PlannedCell]:
        """The plan's cells, the most wanted first."""
        return cells_of(self.plan)

    def bundle_for(self, member: FleetMember) -> Bundle:
        """Return the bundle that a phone gets."""
        return best_bundle(self.bundles, target_of_member(member.facts))

    def config_on(self, member: FleetMember, cell: PlannedCell) -> CellConfig:
        """Return what is asked of the engine on a phone."""
        clusters = member.facts.get("cpu_clusters") or ()
        return cell_config(cell, self.plan, clusters, model=self.models[cell.model])

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
    return Request(name, read, models_of(read, head if not models else None), bundles_of(bundle, head, read))
