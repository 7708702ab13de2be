"""When things happened in a run, by the probe's clock: what lets samples be joined to generations. Pure.

A runner that tells when a prompt was submitted is taken at its word; else the moment counts at which the probe read
the event, which is when the generation ended. Of MNN's tools, which print no events, it is the first token's; where not
even that is known, the whole run stands for what was timed in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.bench.evidence import Evidence
from harness.payload.probe_events import RunLog, Sample
from harness.runners.events import Generation, Inference, Load, parse_runner_output

# A time beyond this is none.
_MOST_MS = 1e12


@dataclass(frozen=True)
class Span:
    """A stretch of time, CLOCK_MONOTONIC in ns."""

    begin_ns: int
    end_ns: int

    def samples(self, run: RunLog) -> list[Sample]:
        """Return the samples that were taken in it."""
        return [sample for sample in run.samples if self.begin_ns <= sample.mono_ns <= self.end_ns]


def timed_span(evidence: Evidence) -> Span | None:
    """Return the time from the first timed generation's prompt to the last one's end; ``None`` when there is none."""
    timed = evidence.measured
    if timed and timed[0].begun_ns is not None and timed[-1].begun_ns is not None:
        took_ms = timed[-1].claimed_ms
        if 0 < took_ms <= _MOST_MS:  # NaN is not
            return Span(timed[0].begun_ns, timed[-1].begun_ns + round(took_ms * 1e6))
    if evidence.told.tool and timed:
        return _span_of_tool(evidence)
    before: int | None = None
    begin: int | None = None
    end: int | None = None
    for read_ns, event in _told(evidence.run):
        if isinstance(event, Generation | Inference) and event.kind == "timed":
            begin = begin if begin is not None else before
            end = read_ns
        elif begin is None:
            before = read_ns
    return Span(begin, end) if begin is not None and end is not None and begin < end else None


def _span_of_tool(evidence: Evidence) -> Span | None:
    begins = [one.first_token_ns for one in evidence.timed if one.first_token_ns is not None]
    ends = [end_ns for one in evidence.timed if (end_ns := _end_ns(one)) is not None]
    if begins and ends and min(begins) < max(ends):
        return Span(min(begins), max(ends))
    start, end = evidence.run.start, evidence.run.end
    return Span(start.mono_ns, end.mono_ns) if start is not None and end is not None else None


def _end_ns(generation: Generation) -> int | None:
    """Return when the last token came, where the moments of the tokens are known."""
    took_ms = sum(generation.token_ms)
    if generation.first_token_ns is None or not 0 < took_ms <= _MOST_MS:
        return None
    return generation.first_token_ns + round(took_ms * 1e6)


def first_load_ns(evidence: Evidence) -> int | None:
    """Return when the first load of the model began; ``None`` when the runner told of none."""
    for read_ns, event in _told(evidence.run):
        if isinstance(event, Load):
            if event.begun_ns is not None:
                return event.begun_ns
            load_ms = event.load_ms
            is_possible = load_ms is not None and 0 <= load_ms <= _MOST_MS  # NaN is not
            return read_ns - int(load_ms * 1e6) if load_ms is not None and is_possible else None
    return None


def timed_ends_ns(evidence: Evidence) -> list[int]:
    """Return when the end of each timed generation was read; empty where that is not known of each."""
    if evidence.told.tool:
        ends = [end_ns for one in evidence.timed if (end_ns := _end_ns(one)) is not None]
        return ends if len(ends) == len(evidence.timed) else []
    told = _told(evidence.run)
    return [ns for ns, event in told if isinstance(event, Generation | Inference) and event.kind == "timed"]


def _told(run: RunLog) -> Iterator[tuple[int, Generation | Inference | Load]]:
    for read_ns, line in run.stamped_lines():
        log = parse_runner_output(line)
        yield from ((read_ns, load) for load in log.loads)
        yield from ((read_ns, generation) for generation in log.generations)
        yield from ((read_ns, inference) for inference in log.inferences)
