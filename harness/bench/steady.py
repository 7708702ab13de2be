"""Rules about the phone while it measured: cool, awake and, in a burst cell, at its own speed.

In a sustained cell throttling is the result and no objection; a hot start is one in both.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from harness.bench.evidence import Evidence, Objection
from harness.bench.throttle import CAP_FELL
from harness.core.reasons import Reason
from harness.payload.probe_events import RunLog

# CLOCK_BOOTTIME runs during sleep, CLOCK_MONOTONIC does not; both are read one after the other.
_SLEEP_MS = 100.0
# The probe sleeps between its samples and does little: a phone that lets it wait for so long let everything wait.
_STANDSTILL_MS = 2000.0


def phone_was_steady(evidence: Evidence) -> Iterator[Objection]:
    """The phone started cool, did not sleep and, in a burst cell, did not throttle."""
    if evidence.started_hot:
        yield Objection(Reason.HOT_START, evidence.started_hot)
    start, end = evidence.run.start, evidence.run.end
    if start is not None and end is not None:
        slept_ms = ((end.boot_ns - start.boot_ns) - (end.mono_ns - start.mono_ns)) / 1e6
        if slept_ms > _SLEEP_MS:
            yield Objection(Reason.SUSPENDED, f"the phone slept {slept_ms:.0f} ms during the run")
    still_ms = longest_standstill_ms(evidence.run)
    if still_ms > _STANDSTILL_MS or evidence.stood_still:
        yield Objection(Reason.SUSPENDED, f"the phone stood still for {still_ms:.0f} ms during the run")
    throttled = why_throttled(evidence)
    if throttled and evidence.plan.kind != "sustained":
        yield Objection(Reason.THROTTLED, throttled)


def why_throttled(evidence: Evidence) -> str:
    """Return by what a burst cell was throttled, ``""`` if it was not: any core's cap at its end, or the judgement."""
    seen = evidence.throttling
    fell = last_cap_ratio(evidence.run, evidence.timeline.timed_end_ns)
    if fell is not None and fell < CAP_FELL:
        return f"the clock's cap fell to {fell:.0%} of what it was at the start"
    return f"it throttled after {seen.onset_s:.1f} s, judged by {seen.judged_by}" if seen.throttled else ""


def longest_standstill_ms(run: RunLog) -> float:
    """Return by how much the probe was late with a sample at worst: while it stands still, everything does."""
    if run.start is None:
        return 0.0
    stamps = [sample.mono_ns for sample in run.samples]
    gaps = [(after - before) / 1e6 for before, after in itertools.pairwise(stamps)]
    return max(0.0, max(gaps, default=0.0) - run.start.interval_ms)


def last_cap_ratio(run: RunLog, until_ns: int | None = None) -> float | None:
    """Return any core's cap at the end relative to its own at the start, the lowest; ``None`` when none is readable.

    The end is the first sample after ``until_ns``, when the last timed token was there: a phone that throttles over the
    questions which follow was at its own speed while it was timed.
    """
    samples = [sample for sample in run.samples if any(sample.cap_khz)]
    if not samples:
        return None
    late = (sample for sample in samples if until_ns is not None and sample.mono_ns >= until_ns)
    last = next(late, samples[-1])
    ratios = [now / then for now, then in zip(last.cap_khz, samples[0].cap_khz, strict=False) if now and then]
    return min(ratios, default=None)
