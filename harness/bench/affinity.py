"""Whether the phone kept a cell on the cores that it asked for."""

from __future__ import annotations

from collections.abc import Iterator

from harness.bench.evidence import Evidence, Objection
from harness.bench.moments import timed_span
from harness.core.cores import parse_cpu_list
from harness.core.reasons import Reason
from harness.payload.probe_events import Sample


def affinity_held(evidence: Evidence) -> Iterator[Objection]:
    """While generations were timed, no thread was allowed on another core than the cell asked for.

    Threads that bind themselves to some of those cores are within. A phone that moves threads does so for its own
    reasons (cpusets, a vendor's scheduler), and perhaps not the next time: the lab's fault, and the cell is done again.
    """
    asked = parse_cpu_list(evidence.limits.cpus) if evidence.limits.cpus is not None else None
    if asked is None:
        return
    span = timed_span(evidence)
    samples = span.samples(evidence.run) if span is not None else []
    told = [allowed for sample in samples for allowed in _allowed(sample)]
    if not told:
        told = [allowed for sample in evidence.run.samples for allowed in _allowed(sample)]
    outside = [allowed for allowed in dict.fromkeys(told) if not (parse_cpu_list(allowed) or frozenset({-1})) <= asked]
    if outside:
        yield Objection(
            Reason.NOISY,
            f"affinity did not hold: asked were cores {evidence.limits.cpus}, threads were allowed on {outside[0]}",
            f"Cpus_allowed_list of its threads meanwhile: {'; '.join(dict.fromkeys(told))}"[:2000],
        )
    elif not told and evidence.measured:
        yield Objection(Reason.NOISY, f"no sample proves that it ran on cores {evidence.limits.cpus} only")


def _allowed(sample: Sample) -> tuple[str, ...]:
    """Return the lists of cores that a sample tells: those of all threads once a second, the first one's always."""
    first = (sample.cpus_allowed,) if sample.cpus_allowed else ()
    return (*(sample.threads_allowed or ()), *first)
