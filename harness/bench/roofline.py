"""Decoding against the roof that the phone's memory sets: whether it is judged, and how much of it was reached.

Each token reads the weights once, so decoding cannot be faster than bandwidth ÷ bytes read per token. What the caches
between memory and cores hold need not be read again: that much is taken off what has to come from memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from harness.bench.evidence import Evidence, Objection, explain
from harness.bench.limits import Limits
from harness.bench.metrics import decode_tps
from harness.bench.physics import beyond_memory
from harness.core.reasons import Reason

# What a phone's caches may hold when it does not tell: more than any phone has (up to about 40 MiB in 2025).
ASSUMED_CACHE_BYTES = 64 << 20
# A chip's system cache, which no kernel tells, comes on top of what it does tell (4 to 16 MiB in 2025).
SYSTEM_CACHE_BYTES = 32 << 20
# A backend may hold its scales in half the bytes that the file has: in blocks of 32 weights that is a sixth of all.
IN_MEMORY_SHARE = 0.83
# CPU cores reach half of what a phone's memory can give, its GPU up to nine tenths; and what was measured is theirs.
GPU_MARGIN = 2.0


def unjudged(evidence: Evidence) -> str:
    """Return why decoding is not held against the memory's bandwidth, ``""`` where it is."""
    limits = evidence.limits
    reads = limits.read_per_token_bytes
    if not evidence.plan.roofline.measure:
        return "the plan does not measure the phone's memory bandwidth"
    if limits.bandwidth.best_gb_per_s is None:
        return limits.bandwidth.why
    if limits.speculative:
        return f"the model decodes speculatively ({limits.speculative}): its weights, read once, may give more tokens"
    if reads is None:
        return limits.read_why
    granted = cached_bytes(limits)
    if reads * IN_MEMORY_SHARE <= granted:
        told = "" if limits.cache_bytes is not None else "; the phone does not tell its caches"
        return f"the weights read per token ({_mib(reads)}) may fit in the caches ({_mib(granted)} are granted{told})"
    return ""


def cached_bytes(limits: Limits) -> int:
    """Return how many bytes of the weights the phone's caches may hold from one token to the next."""
    return ASSUMED_CACHE_BYTES if limits.cache_bytes is None else limits.cache_bytes + SYSTEM_CACHE_BYTES


def decode_is_below_the_roof(evidence: Evidence) -> Iterator[Objection]:
    """No timed generation decoded faster than the phone's memory can be read."""
    best, reads = evidence.limits.bandwidth.best_gb_per_s, evidence.limits.read_per_token_bytes
    if unjudged(evidence) or best is None or reads is None:
        return
    margin = evidence.plan.roofline.slack * (1.0 if evidence.cell.backend == "cpu" else GPU_MARGIN)
    roof = best * 1e9 * margin / (reads * IN_MEMORY_SHARE - cached_bytes(evidence.limits))
    speeds = [tps for timed in evidence.timed if (tps := decode_tps(timed)) is not None and math.isfinite(tps)]
    beyond = beyond_memory(max(speeds, default=0.0), reads, roof, best)
    if beyond:
        yield Objection(Reason.IMPLAUSIBLE_SPEED, beyond)


def roofline_of(evidence: Evidence, tps: float | None, nulls: dict[str, str]) -> dict[str, float | None]:
    """Return the fields of :class:`~harness.store.schema.Metrics` about the roofline, for a decode speed in tok/s."""
    limits = evidence.limits
    best, why = limits.bandwidth.best_gb_per_s, unjudged(evidence)
    nulls.pop("roofline_ratio", None)
    explain(nulls, best is None, "bandwidth_gb_per_s", why)
    if not why and tps is None:
        why = "no generation was long enough"
    if why or best is None or tps is None or limits.read_per_token_bytes is None:
        nulls["roofline_ratio"] = why
        return {"roofline_ratio": None, "bandwidth_gb_per_s": best}
    return {"roofline_ratio": tps * limits.read_per_token_bytes / (best * 1e9), "bandwidth_gb_per_s": best}


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
