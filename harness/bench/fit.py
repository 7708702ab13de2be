"""Whether a model fits into a phone and its engine: refused before the run only where nothing could make it work."""

from __future__ import annotations

from collections.abc import Iterator

from harness.bench.evidence import Evidence, Objection
from harness.bench.limits import use_of
from harness.core.reasons import Reason
from harness.payload.engine_needs import too_old
from harness.payload.model_memory import WAYS_OUT, amount, cannot_be_addressed, cannot_fit, may_not_fit, needs_of
from harness.payload.models import ModelFolder
from harness.plan.matrix import PlannedCell
from harness.store.schema import Finding


def too_big(cell: PlannedCell, model: ModelFolder, ram_bytes: int | None, abi: str | None) -> Objection | None:
    """Return why a model cannot be held by a phone with so much memory, or by a program of an ABI."""
    if model.shape is None:
        if ram_bytes is None or model.weight_bytes <= ram_bytes:
            return None
        said = f"{amount(model.weight_bytes)} of weights, the phone has {amount(ram_bytes)} of memory"
        return Objection(Reason.MODEL_TOO_BIG, said)
    use = use_of(cell, model)
    says = cannot_be_addressed(model.shape, use, abi) if abi is not None else None
    if says is not None:
        return Objection(Reason.MODEL_TOO_BIG, says)
    says = cannot_fit(needs_of(model.shape, use), ram_bytes) if ram_bytes is not None else None
    return Objection(Reason.MODEL_TOO_BIG, f"{says}: {WAYS_OUT}") if says is not None else None


def engine_cannot(model: ModelFolder, engine_version: str | None) -> Objection | None:
    """Return what an engine of this version surely does not know of a model."""
    found = too_old(engine_version, model.engine_version, model.engine_needs)
    return (
        Objection(Reason.BUNDLE_MISMATCH, f"{found.says}: {found.fix}") if found is not None and found.surely else None
    )


def remarks_on_fit(evidence: Evidence) -> Iterator[Finding]:
    """Yield that the phone had less memory available, when the run began, than the model needs at least."""
    available = next((s.mem_available_bytes for s in evidence.run.samples if s.mem_available_bytes is not None), None)
    needs = evidence.limits.needs
    says = may_not_fit(needs, available) if needs is not None and available is not None else None
    if says is not None:
        yield Finding(code="memory_short", severity="warning", title=says[:500], advice=WAYS_OUT)


def remarks_on_engine(model: ModelFolder, engine_version: str | None) -> Iterator[Finding]:
    """Yield that the engine that ran is older than the converter that wrote the model."""
    found = too_old(engine_version, model.engine_version, model.engine_needs)
    if found is not None:
        yield Finding(code=found.code, severity="warning", title=found.says[:500], advice=found.fix)
