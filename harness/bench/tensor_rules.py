"""Rules about inferences of ordinary models: all there, none impossibly fast, and every output what it should be."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from harness.bench.engine_log import last_lines
from harness.bench.evidence import Evidence, Objection
from harness.bench.metrics import speed
from harness.bench.physics import IMPOSSIBLE_BYTES_PER_S, untold_inference_time
from harness.bench.roofline import GPU_MARGIN, cached_bytes
from harness.core.reasons import Reason
from harness.plan.matrix import GPU_MODE
from harness.runners.events import Inference

#: One walk through an engine takes longer, inputs and outputs copied, be the model as small as it may.
IMPOSSIBLE_MS = 0.001
#: A weight of 32 bits may be kept and read in 16.
_LEAST_BYTES_A_WEIGHT = {32: 2.0, 16: 2.0, 8: 1.0, 4: 0.5}
#: Times are taken in two processes: those of all inferences may exceed the run's wall time by rounding only.
_CLOCK_SLACK_MS = 50.0


def inferences_were_told(evidence: Evidence) -> Iterator[Objection]:
    """A run that ended well left readable events to its end, none twice and none unasked."""
    end, told, plan = evidence.run.end, evidence.told, evidence.plan
    if end is None or end.why != "exit" or end.exit_code != 0:
        return
    if not evidence.run.stdout.strip() and not told.tool.strip():
        yield Objection(Reason.SILENT_EXIT, "exit code 0 without a word", last_lines(evidence.run.stderr))
        return
    broken = [line for line in told.junk if line.lstrip().startswith('{"event"')]
    indices = Counter(one.index for one in told.inferences)
    if told.unread:
        yield Objection(Reason.UNPARSED_OUTPUT, "a line looks like a figure and is not understood", told.unread[0])
    elif told.hello is None or told.load is None or told.end is None:
        junk = told.junk[0][:500] if told.junk else ""
        yield Objection(Reason.UNPARSED_OUTPUT, "hello, load or end is missing in the runner's output", junk)
    elif broken:
        yield Objection(Reason.UNPARSED_OUTPUT, f"{len(broken)} of the runner's events cannot be read", broken[0][:500])
    elif any(count > 1 for count in indices.values()):
        twice = min(index for index, count in indices.items() if count > 1)
        yield Objection(Reason.UNPARSED_OUTPUT, f"inference {twice} was told twice")
    elif len(evidence.measured) > plan.repeats:
        yield Objection(
            Reason.UNPARSED_OUTPUT, f"asked were {plan.repeats} timed inferences, told were {len(evidence.measured)}"
        )


def inferences_were_run(evidence: Evidence) -> Iterator[Objection]:
    """Every repeat is there, on the sample that was asked for, and every sample was run for its outputs."""
    told, plan, tensors = evidence.told, evidence.plan, evidence.tensors
    if told.load is None or told.errors:
        return
    if len(evidence.measured) < plan.repeats:
        yield Objection(Reason.TOKEN_COUNT_SHORT, f"{len(evidence.measured)} of {plan.repeats} timed inferences")
        return
    if tensors is None or told.tool:
        return
    names = tensors.case.names
    others = [one.sample for one in told.inferences if one.kind != "check" and one.sample != names[0]]
    if others:
        yield Objection(Reason.TOKEN_COUNT_SHORT, f"an inference was timed on {others[0][:60]!r}, asked was {names[0]}")
    checked = {one.sample for one in told.inferences if one.kind == "check"}
    missing = [shown for shown, name in zip(tensors.case.samples, names, strict=True) if name not in checked]
    if missing:
        yield Objection(Reason.TOKEN_COUNT_SHORT, f"sample {missing[0]} was not run, and {len(missing) - 1} more")


def latency_is_possible(evidence: Evidence) -> Iterator[Objection]:
    """Times are finite, positive, within the run's wall time, and as long as the probe saw them take."""
    told = evidence.told
    for one in told.inferences:
        wrong = _wrong_latency(evidence, one)
        if wrong:
            yield Objection(Reason.IMPLAUSIBLE_SPEED, f"inference {one.index} ({one.kind}) {wrong}")
            return
    if told.load is None:
        return
    load_ms = told.load.load_ms
    if load_ms is not None and (not math.isfinite(load_ms) or load_ms < IMPOSSIBLE_MS):
        yield Objection(Reason.IMPLAUSIBLE_SPEED, f"loading took {load_ms:g} ms")
        return
    claimed_ms = (load_ms or 0.0) + sum(one.claimed_ms for one in told.inferences)
    if evidence.wall_ms is not None and claimed_ms > evidence.wall_ms + _CLOCK_SLACK_MS:
        yield Objection(
            Reason.IMPLAUSIBLE_SPEED,
            f"load and inferences claim {claimed_ms:.0f} ms, the whole run took {evidence.wall_ms:.0f} ms",
        )
    untold = untold_inference_time(evidence.run, told.inferences)
    if untold:
        yield Objection(Reason.IMPLAUSIBLE_SPEED, untold)


def _wrong_latency(evidence: Evidence, one: Inference) -> str:
    """Return what is wrong with the time of one inference by itself, ``""`` if nothing."""
    ms = one.latency_ms
    if not math.isfinite(ms) or ms <= 0:
        return f"took {ms:g} ms"
    read = _read_bytes(evidence) / ms * 1000
    if ms < IMPOSSIBLE_MS or read > IMPOSSIBLE_BYTES_PER_S:
        return f"in {ms:g} ms would read {read / 1e9:.0f} GB of weights a second"
    return ""


def latency_is_above_the_floor(evidence: Evidence) -> Iterator[Objection]:
    """No timed inference was faster than the phone's memory gives the weights that it multiplies with."""
    best = evidence.limits.bandwidth.best_gb_per_s
    reads = _read_bytes(evidence) - cached_bytes(evidence.limits)
    if not evidence.plan.roofline.measure or best is None or reads <= 0:
        return
    margin = evidence.plan.roofline.slack * (GPU_MARGIN if evidence.cell.backend in GPU_MODE else 1.0)
    floor_ms = reads / (best * 1e9 * margin) * 1000
    fastest = min((one.claimed_ms for one in evidence.measured), default=math.inf)
    if fastest < floor_ms:
        yield Objection(
            Reason.IMPLAUSIBLE_SPEED,
            f"an inference in {fastest:.3g} ms would read {reads / 1e6:.0f} MB of weights, caches granted; the phone's "
            f"memory gives {best:.1f} GB/s, which takes {floor_ms:.3g} ms, slack included",
        )


def _read_bytes(evidence: Evidence) -> float:
    """Return how many bytes of weights each inference reads at least; 0 where that is not known."""
    bits = 32 if evidence.tensors is None else evidence.tensors.case.bits
    return evidence.multiplied_weights * _LEAST_BYTES_A_WEIGHT[bits]


def outputs_vary(evidence: Evidence) -> Iterator[Objection]:
    """No output holds one number everywhere where the reference's does not."""
    if evidence.tensors is not None:
        for says in evidence.tensors.degenerate():
            yield Objection(Reason.OUTPUT_DEGENERATE, says)
            return


def outputs_match_reference(evidence: Evidence) -> Iterator[Objection]:
    """Every output is there, has its shape and type, and is what is demanded of it."""
    tensors, end = evidence.tensors, evidence.run.end
    if tensors is None:
        if end is not None and end.why == "exit" and end.exit_code == 0:
            yield Objection(Reason.OUTPUT_WRONG, "the outputs were not compared")
        return
    told = [*tensors.pulled.problems, *tensors.wrong()]
    if told:
        evidence_of = f"{tensors.demand.words}; reference: {tensors.case.reference}"
        yield Objection(Reason.OUTPUT_WRONG, "; ".join(told[:3])[:1000], "\n".join([evidence_of, *told])[:2000])


def latencies_agree(evidence: Evidence) -> Iterator[Objection]:
    """The repeats spread no more than the plan allows."""
    limit = evidence.plan.cv_limit
    summary = speed([one.claimed_ms for one in evidence.measured if math.isfinite(one.claimed_ms)])
    if limit is not None and summary is not None and summary.cv is not None and summary.cv > limit:
        yield Objection(
            Reason.NOISY, f"latency spreads {summary.cv:.1%} over {summary.n} inferences (limit {limit:.1%})"
        )
