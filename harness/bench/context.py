"""What all phones of a run have in common, and by which id a cell on a phone goes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.bench.cores_asked import resolve
from harness.bench.target import target_of
from harness.core.errors import HarnessError
from harness.core.ids import content_id
from harness.payload.bundle import Bundle, best_bundle
from harness.payload.models import ModelFolder
from harness.payload.tensor_case import inputs_hash
from harness.phone.facts import Facts
from harness.plan.matrix import PlannedCell
from harness.plan.model import Plan
from harness.runners.farm_runner import prompt_hash
from harness.store.schema import LATER_CONFIG, CellConfig


@dataclass(frozen=True)
class RunContext:
    """What all phones of a run have in common. It crosses process borders.

    A phone on which ``bundle`` cannot run gets the first of ``more_bundles`` that can. ``ab`` is the build that
    takes turns with ``bundle``, if one does.
    """

    run_id: str
    run_dir: Path
    plan: Plan
    bundle: Bundle
    models: dict[str, ModelFolder]
    more_bundles: tuple[Bundle, ...] = ()
    ab: Bundle | None = None

    def bundle_for(self, facts: Facts, cell: PlannedCell) -> Bundle:
        """Return the bundle that a phone gets for a cell: the one whose turn it is, else the first that runs on it."""
        if self.ab is not None and cell.block is not None and cell.block.arm == "B":
            return self.ab
        return best_bundle((self.bundle, *self.more_bundles), target_of(facts))


def cell_config(
    cell: PlannedCell, plan: Plan, clusters: Iterable[Any] = (), *, model: ModelFolder | None = None
) -> CellConfig:
    """Return everything that is asked of the engine in this cell, on a phone with these ``cpu_clusters``.

    ``model`` is needed of a tensor cell alone, which is asked what lies in the model's folder.
    """
    tensors = model.tensor if cell.tensor and model is not None else None
    if cell.tensor and tensors is None:
        raise HarnessError(f"{cell.model} holds no inputs of a tensor cell")
    return CellConfig(
        kind=plan.kind,
        backend=cell.backend,
        threads=cell.threads,
        precision=cell.precision,
        memory=cell.memory,
        affinity=resolve(cell.affinity, clusters),
        engine=dict(cell.engine),
        prompt_hash=(
            prompt_hash(plan, cell) if tensors is None else inputs_hash(tensors, plan.tensor.samples, plan.tensor.seed)
        ),
        prompt_tokens=cell.prompt_tokens,
        generate_tokens=cell.generate_tokens,
        context_tokens=cell.context_tokens,
        warmups=plan.warmups,
        repeats=plan.repeats,
        duration_s=plan.duration_s,
        load_rounds=plan.load_rounds,
    )


def cell_id_of(phone_id: str, model: ModelFolder, bundle: Bundle, config: CellConfig) -> str:
    """Return the id of a cell on a phone: what is measured, never where it is plugged in or when."""
    return content_id(
        {
            "phone": phone_id,
            "model": model.folder.hash,
            "bundle": bundle.hash,
            "runner": bundle.runner,
            "config": _hashed(config),
        }
    )


def _hashed(config: CellConfig) -> dict[str, Any]:
    """Return what of a configuration counts: what an older version did not know counts where it is asked for."""
    asked = config.model_dump(mode="json")
    return {key: value for key, value in asked.items() if key not in LATER_CONFIG or value != LATER_CONFIG[key]}
