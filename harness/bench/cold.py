"""The cold start: the first use of a model on a phone, which is what people feel.

The model's files are dropped from the phone's page cache, which it proves itself; then the runner, in a process of its
own, loads the model and answers the prompt with two tokens. What the engine keeps of that (compiled kernels, tuning,
mapped weights) lies in the work folder, so the run that follows starts warm. It is done once for a configuration, and
for each cell on a GPU backend, whose caches lie in the cell's own work folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from harness.bench.engine_log import find_compiled
from harness.bench.evidence import ColdStart, Evidence, Objection
from harness.bench.metrics import possible_ms
from harness.core.errors import ProbeError
from harness.core.log import phone_logger
from harness.core.reasons import Reason
from harness.payload.probe import Probe, RunSpec
from harness.payload.probe_events import RunLog
from harness.payload.store import SLOWEST_HASH_BYTES_PER_S
from harness.plan.matrix import GPU_MODE, PlannedCell
from harness.plan.model import Plan
from harness.runners.base import MAIN, Order
from harness.runners.registry import runner_of

_EVICT_S = 30.0
# Within a megabyte an engine rewrites headers and clocks; compiled kernels are more.
_GROWN_BYTES = 1 << 20
# The first token comes of the prefill, the second of the first decode step: by then every kernel was made.
_FIRST_TOKENS = 2


def wants_cold_start(cell: PlannedCell, plan: Plan) -> bool:
    """Whether this cell begins with a cold start."""
    return plan.cold_start and (cell.leads or cell.backend in GPU_MODE)


def cold_order(order: Order) -> Order:
    """Return the order that uses the model for the first time: it is loaded, and the prompt gets two tokens.

    An ordinary model is run on its first sample.
    """
    nothing_asked = {"ask": [], "golden": order.plan.golden.model_copy(update={"ask": []})}
    once = {"load_rounds": 1, "warmups": 1, "repeats": 0, "duration_s": None, **nothing_asked}
    plan = order.plan.model_copy(update=once)
    if order.tensors is not None:
        return replace(order, plan=plan, tensors=order.tensors.first())
    return replace(order, cell=replace(order.cell, generate_tokens=_FIRST_TOKENS), plan=plan)


def start_cold(probe: Probe, spec: RunSpec, order: Order, phone: str) -> ColdStart:
    """Load the model once from storage.

    Args:
        probe: the probe on the phone.
        spec: the run that does it.
        order: as :func:`cold_order` made it.
        phone: the phone's name.

    Raises:
        PhoneError: the phone or the connection failed.
    """
    try:
        residency = probe.evict(order.model_dir, _EVICT_S + order.model.folder.size / SLOWEST_HASH_BYTES_PER_S)
        why_not = "" if residency.is_cold else _why_warm(residency.resident_bytes, residency.errors)
        run = probe.run(spec)
    except ProbeError as error:
        phone_logger(__name__, phone).info("no cold start: %s", error)
        return ColdStart(why_not=f"the cold start failed: {error.message}")
    return read_cold(order, run, why_not)


def read_cold(order: Order, run: RunLog, why_warm: str, log: bytes = b"") -> ColdStart:
    """Return what the run of a cold start told; ``log`` is what the engine wrote into the phone's log meanwhile."""
    told = runner_of(order.bundle).read(order, {MAIN: run}, {MAIN: log})
    said = b"\n".join((run.stderr, log, *(line.encode() for line in told.junk)))
    compiled = find_compiled(said) or ""
    done = told.inferences or told.generations
    if told.load is None or not done or told.end is None or told.end.status != "ok":
        why_not = "the cold start did not end well"
        return ColdStart(why_not=why_not, compiled=compiled, run=run, why_warm=why_warm)
    return ColdStart(told.load, done[0], why_warm, compiled, run, why_warm)


def _why_warm(resident_bytes: int | None, errors: object) -> str:
    if errors:
        return "not all of the model's files could be dropped from the phone's file cache"
    if resident_bytes is None:
        return "the phone does not tell what is in its file cache"
    return f"{resident_bytes} bytes of the model stayed in the phone's file cache"


def cold_spec(spec: RunSpec, argv: tuple[str, ...]) -> RunSpec:
    """Return the run of the cold start beside the cell's own: same caches, same folder, events of its own."""
    return replace(spec, argv=argv, work_dir=f"{spec.work_dir}/cold-start", cwd=spec.work_dir)


def loads_of(evidence: Evidence, nulls: dict[str, str]) -> dict[str, float | None]:
    """Return the fields of :class:`~harness.store.schema.Metrics` about loading; reasons for nulls go to ``nulls``."""
    cold, load = evidence.cold, evidence.told.load
    told: dict[str, float | None] = {"load_cold_ms": None, "first_use_ms": None, "tuning_ms": None}
    told["load_ms"] = possible_ms(load.load_ms) if load is not None else None
    nulls["load_ms"] = "the runner told no possible time"
    if cold is None:
        asked = evidence.plan.cold_start
        why = "the first cell of this configuration has it" if asked else "the plan asks for no cold start"
        nulls.update(dict.fromkeys(("load_cold_ms", "first_use_ms", "tuning_ms"), why))
    else:
        told.update(cold.figures)
        nulls["load_cold_ms"] = nulls["first_use_ms"] = cold.why_not or "the runner told no possible time"
        nulls["tuning_ms"] = "the runner does not report it"
    if evidence.cell.backend == "cpu":
        told["tuning_ms"], nulls["tuning_ms"] = None, "the CPU backend has no tuning step"
    for name, value in told.items():
        if value is not None:
            del nulls[name]
    return told


def caches_are_ours(evidence: Evidence) -> Iterator[Objection]:
    """The engine found no cache in the cell's fresh work folder but what its own cold start left there."""
    load = evidence.told.loads[0] if evidence.told.loads else None
    found = (load.cache_before_bytes or 0) if load is not None else 0
    if found and evidence.cold is None:
        yield Objection(Reason.STALE_CACHE, f"{found} bytes of an engine's cache lay in a fresh work folder")


def cache_grew(evidence: Evidence) -> str:
    """Return what a warm run added to the engine's cache: then it was not warm, and is not next time; else ``""``."""
    load, end = evidence.told.load, evidence.told.end
    before = load.cache_before_bytes if load is not None else None
    after = end.cache_after_bytes if end is not None else None
    if not before or after is None or after - before < _GROWN_BYTES:
        return ""
    return f"the engine's cache grew from {before} to {after} bytes in a warm run: it tunes itself again each time"
