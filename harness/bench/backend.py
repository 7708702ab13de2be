"""Which backend really ran a cell, and what proves it: for the record, and as a rule."""

from __future__ import annotations

from collections.abc import Iterator

from harness.bench.engine_log import find_compiled, find_fallback, find_mixed
from harness.bench.evidence import Evidence, Objection
from harness.core.reasons import Reason
from harness.plan.matrix import GPU_MODE
from harness.store.schema import BackendProof

MIXED = "mixed"
_SHOWN = 5


def backend_proof(evidence: Evidence) -> BackendProof | None:
    """Return what was asked, what ran and what proves it; ``None`` when the runner never came so far.

    The engine's admission in its log counts most: that it took another backend, or left single operators to the CPU.
    Then comes what the runner says, and at last a log in which a GPU's runtime keeps the kernels it compiled.
    """
    asked, log, load = evidence.cell.backend, evidence.engine_log, evidence.told.load
    mark = find_fallback(log, asked)
    if mark is not None:
        return BackendProof(requested=asked, actual=mark.used, strength="log", proof=mark.line)
    left = find_mixed(log) if asked in GPU_MODE else []
    if left:
        proof = "\n".join(left[:_SHOWN])
        return BackendProof(requested=asked, actual=MIXED, strength="log", proof=proof)
    if load is None:
        return None
    compiled = _compiled(evidence) if asked in GPU_MODE and load.strength in ("inferred", "none") else None
    if compiled is not None and load.backend_actual in (None, asked):
        return BackendProof(requested=asked, actual=asked, strength="log", proof=compiled)
    return BackendProof(requested=asked, actual=load.backend_actual, strength=load.strength, proof=load.proof)


def _compiled(evidence: Evidence) -> str | None:
    """Return the line in which kernels were kept: in this run, or of a tool in the cold start that it goes on from."""
    cold = evidence.cold.compiled if evidence.cold is not None and evidence.told.tool else ""
    return find_compiled(evidence.engine_log) or cold or None


def backend_was_used(evidence: Evidence) -> Iterator[Objection]:
    """The engine ran the backend that was asked for, all of the model on it, and something proves it."""
    asked, found = evidence.cell.backend, backend_proof(evidence)
    denied = [error.message for error in evidence.told.errors if error.stage == "fallback"]
    if found is None:
        if denied:
            yield Objection(Reason.BACKEND_UNPROVEN, f"asked for {asked}; the runner did not take it", denied[0])
        return
    if found.actual == MIXED:
        says = f"asked for {asked}; operators of the model ran on the CPU"
        yield Objection(Reason.BACKEND_FALLBACK, says, found.proof)
    elif found.actual is not None and found.actual != asked:
        yield Objection(Reason.BACKEND_FALLBACK, f"asked for {asked}, ran on {found.actual}", found.proof)
    elif found.actual is None or found.strength not in ("engine", "log"):
        yield Objection(Reason.BACKEND_UNPROVEN, f"asked for {asked}; proof is {found.strength}", found.proof)
    elif denied:
        yield Objection(Reason.BACKEND_UNPROVEN, f"asked for {asked}; the runner contradicts itself", denied[0])
