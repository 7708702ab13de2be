"""What the phone's facts or the bundle rule out before anything runs. Unknown is no reason to refuse."""

from __future__ import annotations

from harness.bench.cores_asked import cannot_be_had
from harness.bench.evidence import Objection
from harness.bench.fit import engine_cannot, too_big
from harness.bench.limits import model_config
from harness.bench.target import target_of
from harness.core.errors import ConfigError
from harness.core.reasons import Reason
from harness.payload.bundle import Bundle
from harness.payload.models import ModelFolder
from harness.phone.facts import Facts
from harness.plan.matrix import PlannedCell
from harness.plan.model import Plan
from harness.runners.registry import runner_of


def ruled_out(cell: PlannedCell, plan: Plan, facts: Facts, bundle: Bundle, model: ModelFolder) -> Objection | None:
    """Return why ``cell`` cannot run on this phone, ``None`` if nothing speaks against trying."""
    target = target_of(facts)
    try:
        bundle.check(target)
        backends = bundle.backends(target)
    except ConfigError as error:
        return Objection(error.reason, str(error))
    if cell.backend not in backends:
        return Objection(Reason.BACKEND_NOT_BUILT, f"bundle {bundle.manifest.name} has {_list(backends)}")
    cannot = runner_of(bundle).cannot(bundle, cell, plan)
    if cannot is not None:
        return Objection(*cannot)
    driver = {"opencl": facts.opencl, "vulkan": facts.vulkan}.get(cell.backend)
    if driver == "":
        return Objection(Reason.BACKEND_MISSING_ON_PHONE, f"no {_PROPER[cell.backend]} driver on this phone")
    refused = engine_cannot(model, bundle.manifest.engine_version)
    if refused is None:
        refused = too_big(cell, model, facts.ram_bytes, bundle.abi(target))
    if refused is not None:
        return refused
    return _asks_for_what_is_not_there(cell, facts, model)


def _asks_for_what_is_not_there(cell: PlannedCell, facts: Facts, model: ModelFolder) -> Objection | None:
    no_cores = cannot_be_had(cell.affinity, facts.cpu_clusters, facts.core_max_khz)
    if no_cores:
        return Objection(Reason.BAD_PLAN, no_cores)
    # What llmexport notes of the model. MNN's own max_all_tokens refuses nothing (3.6.1).
    longest = model_config(model).get(_CONTEXT_KEY)
    needed = cell.context_tokens + cell.prompt_tokens + cell.generate_tokens
    if type(longest) is int and 0 < longest < needed:
        return Objection(
            Reason.BAD_PLAN,
            f"the model's context is {longest} tokens ({_CONTEXT_KEY}); {cell.context_tokens} of history, "
            f"{cell.prompt_tokens} of prompt and {cell.generate_tokens} to generate are {needed}",
        )
    return None


_CONTEXT_KEY = "max_position_embeddings"
_PROPER = {"opencl": "OpenCL", "vulkan": "Vulkan"}


def _list(names: object) -> str:
    return ", ".join(names) if isinstance(names, (list, tuple)) and names else "none"
