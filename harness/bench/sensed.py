"""What the sensors of a phone said over a run: heat by meaning, cap and clock of the cores that computed. Pure.

The probe reads clocks in every sample and zones once a second; between two readings a zone has its last value. A clock
that cannot be read is not known then, and is not carried on: a core that was switched off has none.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.core.cores import parse_cpu_list
from harness.payload.probe_events import RunLog, Sample
from harness.payload.probe_fields import Numbers
from harness.phone.thermal import Meaning, celsius, leading_zone, meaning_of

# A core on which the first thread was seen less often than this was passed by.
_STAYED = 0.1


@dataclass(frozen=True)
class State:
    """What the sensors had said last at ``at_ns`` (CLOCK_MONOTONIC).

    Attributes:
        celsius: the hottest zone of each meaning that can be read.
        lead_c: the zone that speaks for the phone (:func:`harness.phone.thermal.leading_zone`).
        cap_ratio: the lowest ``scaling_max_freq`` of the busy cores, as a share of their top clock.
        clock_ratio: the highest ``scaling_cur_freq`` of the busy cores, as a share of their top clock: cores that idle
            beside the one that computes have a low one.
    """

    at_ns: int
    celsius: Mapping[Meaning, float] = field(default_factory=dict)
    lead_c: float | None = None
    cap_ratio: float | None = None
    clock_ratio: float | None = None


def states_of(
    run: RunLog, core_max_khz: Mapping[int, int | None], span_ns: tuple[int, int] | None = None
) -> list[State]:
    """Return what each sample tells; ``span_ns`` is when tokens were made, by which busy cores are found."""
    if run.sensors is None:
        return []
    types = [zone.type for zone in run.sensors.zones]
    meanings = [meaning_of(name) for name in types]
    tops = _tops(run, core_max_khz)
    busy = [run.sensors.cpus.index(cpu) for cpu in busy_cores(run, core_max_khz, span_ns)]
    lead = lead_of(run)
    known: list[float | None] = [None] * len(types)
    hottest: dict[Meaning, float] = {}
    states = []
    for sample in run.samples:
        read = [(place, raw) for place, raw in enumerate(sample.milli_c[: len(types)]) if raw is not None]
        for place, raw in read:
            known[place] = celsius(types[place], raw)
        if read:
            hottest = _hottest(meanings, known)
        caps, clocks = _ratios(sample.cap_khz, busy, tops), _ratios(sample.cur_khz, busy, tops)
        states.append(
            State(
                at_ns=sample.mono_ns,
                celsius=hottest,
                lead_c=None if lead is None else known[lead],
                cap_ratio=min(caps, default=None),
                clock_ratio=max(clocks, default=None),
            )
        )
    return states


def _hottest(meanings: Sequence[Meaning], known: Sequence[float | None]) -> dict[Meaning, float]:
    hottest: dict[Meaning, float] = {}
    for meaning, value in zip(meanings, known, strict=True):
        if value is not None:
            hottest[meaning] = max(value, hottest.get(meaning, value))
    return hottest


def lead_of(run: RunLog) -> int | None:
    """Return the position of the zone that speaks for the phone, by the first sample that tells any."""
    if run.sensors is None:
        return None
    types = [zone.type for zone in run.sensors.zones]
    rows = (sample.milli_c for sample in run.samples if any(raw is not None for raw in sample.milli_c))
    row = next(rows, None)
    return None if row is None else leading_zone(types, row)


def busy_cores(
    run: RunLog, core_max_khz: Mapping[int, int | None], span_ns: tuple[int, int] | None = None
) -> tuple[int, ...]:
    """Return the cores that computed, as far as samples tell.

    Those on which the first thread was seen, with all others of their top clock, between which threads wander; else
    the fastest of those that the run may use; else the fastest of all. They share their clock on all phones we know.
    """
    cpus = run.sensors.cpus if run.sensors is not None else ()
    tops = dict(zip(cpus, _tops(run, core_max_khz), strict=True))
    during = [s for s in run.samples if span_ns is None or span_ns[0] <= s.mono_ns <= span_ns[1]]
    seen = Counter(sample.cpu for sample in during if sample.cpu in tops)
    stayed = [cpu for cpu, count in seen.items() if count >= _STAYED * seen.total()]
    clocks = {tops[cpu] for cpu in stayed if cpu is not None}
    allowed = _allowed(during) & set(cpus) or set(cpus)
    if not clocks:
        known = [top for cpu in allowed if (top := tops[cpu]) is not None]
        clocks = {max(known, default=None)}
    return tuple(cpu for cpu in cpus if cpu in allowed and tops[cpu] in clocks and tops[cpu] is not None)


def _allowed(samples: Iterable[Sample]) -> frozenset[int]:
    lists = {text for sample in samples for text in (sample.cpus_allowed, *(sample.threads_allowed or ())) if text}
    return frozenset(cpu for text in lists for cpu in parse_cpu_list(text) or ())


def _tops(run: RunLog, core_max_khz: Mapping[int, int | None]) -> list[int | None]:
    """Return each core's top clock: the kernel's, else the highest cap or clock that was seen of it."""
    cpus = run.sensors.cpus if run.sensors is not None else ()
    tops: list[int | None] = [core_max_khz.get(cpu) or None for cpu in cpus]
    for place, top in enumerate(tops):
        if top is None:
            rows = (row for sample in run.samples for row in (sample.cap_khz, sample.cur_khz))
            tops[place] = max((row[place] or 0 for row in rows if place < len(row)), default=0) or None
    return tops


def _ratios(khz: Numbers, places: Sequence[int], tops: Sequence[int | None]) -> list[float]:
    pairs = ((khz[place], tops[place]) for place in places if place < len(khz))
    return [now / top for now, top in pairs if now and top]


def mean_known(values: Iterable[float | None]) -> float | None:
    """Return the mean of what is known; ``None`` when nothing is."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
