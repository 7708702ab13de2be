"""What limits a cell on its phone, as far as it is known before the run: memory, caches and cores."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from harness.bench.bandwidth import Bandwidth
from harness.bench.cores_asked import resolve
from harness.payload.model_memory import Needs, Use, needs_of
from harness.payload.models import ModelFolder
from harness.phone.facts import Facts
from harness.plan.matrix import PlannedCell

# MNN's key (3.6.1, ``llmconfig.hpp``); empty or missing is ordinary decoding.
_SPECULATIVE = "speculative_type"


@dataclass(frozen=True)
class Limits:
    """What limits a cell on its phone.

    Attributes:
        bandwidth: how fast the phone's memory can be read.
        cache_bytes: what its cores' caches hold; ``None``: the phone does not tell.
        read_per_token_bytes: weights that are read for each token; ``None``: see ``read_why``.
        speculative: MNN's word for the kind of speculative decoding, ``""`` for none.
        cpus: the list of cores that the cell may use; ``None``: any.
        needs: the memory that the model needs; ``None``: nobody knows.
    """

    bandwidth: Bandwidth = field(default_factory=Bandwidth)
    cache_bytes: int | None = None
    read_per_token_bytes: int | None = None
    read_why: str = "it is not known how many of its weights the model reads per token"
    speculative: str = ""
    cpus: str | None = None
    needs: Needs | None = None


def limits_of(cell: PlannedCell, model: ModelFolder, facts: Facts, bandwidth: Bandwidth) -> Limits:
    """Return what limits ``cell`` on a phone."""
    asked = {**model_config(model), **cell.engine}
    kind = asked.get(_SPECULATIVE)
    return Limits(
        bandwidth=bandwidth,
        cache_bytes=facts.llc_bytes,
        read_per_token_bytes=model.read_per_token_bytes,
        read_why=model.read_per_token_why,
        speculative=kind if isinstance(kind, str) else "",
        cpus=resolve(cell.affinity, facts.cpu_clusters),
        needs=needs_of(model.shape, use_of(cell, model)) if model.shape is not None else None,
    )


def use_of(cell: PlannedCell, model: ModelFolder) -> Use:
    """Return how a cell uses a model: the plan's keys over the model's own."""
    return Use(
        backend=cell.backend,
        precision=cell.precision,
        memory=cell.memory,
        threads=cell.threads,
        context_tokens=cell.context_tokens,
        prompt_tokens=cell.prompt_tokens,
        generate_tokens=cell.generate_tokens,
        settings={**model_config(model), **cell.engine},
    )


def model_config(model: ModelFolder) -> dict[str, Any]:
    """Return the model's settings as MNN merges them: ``llm_config.json``, and ``config.json`` over it.

    What is missing or no JSON object counts as empty: reading a model folder refuses it before.
    """
    own = _read(model, "config.json")
    name = own.get("llm_config", "llm_config.json")
    return {**_read(model, str(name)), **own}


def _read(model: ModelFolder, name: str) -> dict[str, Any]:
    try:
        value = json.loads((model.folder.root / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
