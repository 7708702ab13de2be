"""What the phone's facts or the bundle rule out before anything runs. Unknown is no reason to refuse."""

from __future__ import annotations

from harness.bench.cores_asked import cannot_be_had
from harness.bench.evidence import Objection
from harness.bench.fit import too_big
from harness.bench.limits import model_config
from harness.core.reasons import Reason
from harness.payload.bundle import Bundle
from harness.payload.models import ModelFolder
from harness.phone.facts import Facts
from harness.plan.matrix import PlannedCell


def ruled_out(cell: PlannedCell, facts: Facts, bundle: Bundle, model: ModelFolder) -> Objection | None:
    """Return why ``cell`` cannot run on this phone, ``None`` if nothing speaks against trying."""
    manifest = bundle.manifest
    if manifest.abis and facts.abis and not set(manifest.abis) & set(facts.abis):
        return Objection(
            Reason.ABI_MISMATCH,
            f"bundle {manifest.name} is for {_list(manifest.abis)}, the phone runs {_list(facts.abis)}",
        )
    if manifest.needs_python_mnn and facts.python_mnn is None:
        return Objection(
            Reason.ABI_MISMATCH,
            f"bundle {manifest.name} needs a Python with MNN on the phone; no device binaries for {_list(facts.abis)}",
        )
    if cell.backend not in manifest.backends:
        return Objection(Reason.BACKEND_NOT_BUILT, f"bundle {manifest.name} has {_list(manifest.backends)}")
    driver = {"opencl": facts.opencl, "vulkan": facts.vulkan}.get(cell.backend)
    if driver == "":
        return Objection(Reason.BACKEND_MISSING_ON_PHONE, f"no {_PROPER[cell.backend]} driver on this phone")
    refused = too_big(cell, model, facts.ram_bytes, _abi(facts, manifest.abis))
    if refused is not None:
        return refused
    return _asks_for_what_is_not_there(cell, facts, model)


def _abi(facts: Facts, built: list[str]) -> str | None:
    """Return the ABI of the program that will run: the phone's first that the bundle has."""
    return next((abi for abi in facts.abis if abi in built or not built), None)


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
