"""How long cells should take, roughly: for ``--dry-run-plan``. Decode is bound by reading the weights."""

from __future__ import annotations

from harness.payload.models import ModelFolder
from harness.plan.matrix import PlannedCell, questions_of
from harness.plan.model import Plan
from harness.plan.tiers import TierName

# Bytes of weights a phone of this tier reads per second: low end of published decode figures.
_BYTES_PER_S: dict[TierName, float] = {"high": 20e9, "mid": 10e9, "low": 4e9}
# A small model is bound by the engine's overhead per token, not by memory.
_LEAST_MS_PER_TOKEN = 2.0
_PREFILL_SPEEDUP = 5.0
# Ordinary models compute with each weight many times; how often only a run tells. Most take some tens of ms.
_LEAST_INFERENCE_S = 0.03
_START_S = 1.5
_LOAD_BYTES_PER_S = 300e6


def estimate_s(cell: PlannedCell, plan: Plan, model: ModelFolder, tier: TierName) -> float:
    """Return seconds for one cell, without waiting and cooling."""
    token_s = max(model.weight_bytes / _BYTES_PER_S[tier], _LEAST_MS_PER_TOKEN / 1000)
    read_tokens = cell.context_tokens + cell.prompt_tokens
    generation_s = read_tokens * token_s / _PREFILL_SPEEDUP + cell.generate_tokens * token_s
    # A sustained cell does not cut off the generation that is under way when its time is over.
    timed_s = plan.duration_s + generation_s / 2 if plan.duration_s is not None else plan.repeats * generation_s
    asked_s = sum(ask.max_tokens for ask in questions_of(cell, plan)) * token_s
    load_s = _START_S + plan.load_rounds * model.weight_bytes / _LOAD_BYTES_PER_S
    if cell.tensor:
        return load_s + (plan.warmups + plan.repeats + plan.tensor.samples) * max(token_s, _LEAST_INFERENCE_S)
    return load_s + plan.warmups * generation_s + timed_s + asked_s
