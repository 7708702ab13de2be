"""The same work done in several ways, side by side: interleaved in one run, paired by round, medians and ratios.

A round does the work once in each way, so that what the computer does besides meets all of them; the order turns from
round to round. The first round is not counted: files are read and memory is got in it. A ratio is ours ÷ theirs in one
round, below 1 where ours is cheaper; of the rounds' ratios the median counts, with its 95 % bootstrap interval.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.overhead import interval

OURS = "ours"
# Does the work once; returns what counts instead of the wall time, in the measure's unit, or ``None``.
Way = Callable[[], float | None]


@dataclass(frozen=True)
class Sample:
    """The work done once: what counts, and the processor time that this computer's client spent on it, in ms.

    Processor time is this process's and that of the programs it started and waited for; phones and adb's server are
    none of them.
    """

    value: float
    cpu_ms: float


@dataclass(frozen=True)
class Middle:
    """A median and its 95 % interval."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Middle:
        """Return it of at least one value."""
        return cls(statistics.median(values), *interval(values))

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, rounded to what they are worth."""
        return {"median": _short(self.median), "ci95": [_short(self.low), _short(self.high)]}


@dataclass(frozen=True)
class Compared:
    """One measure: ways by name, each with a sample a round, and why others cannot do this work."""

    name: str
    ways: Mapping[str, list[Sample]]
    cannot: Mapping[str, str] = field(default_factory=dict)
    unit: str = "ms"

    @property
    def ours(self) -> Middle:
        """What ours takes."""
        return self.value(OURS)

    @property
    def cpu_ms(self) -> Middle:
        """The processor time that ours takes."""
        return Middle.of([sample.cpu_ms for sample in self.ways[OURS]])

    @property
    def peers(self) -> list[str]:
        """The names of the others that do this work."""
        return [name for name in self.ways if name != OURS]

    def value(self, way: str) -> Middle:
        """Return what one way takes."""
        return Middle.of([sample.value for sample in self.ways[way]])

    def ratio(self, peer: str) -> Middle:
        """Return ours ÷ theirs."""
        pairs = zip(self.ways[OURS], self.ways[peer], strict=True)
        return Middle.of([ours.value / theirs.value for ours, theirs in pairs])

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        ways = {
            name: {
                self.unit: self.value(name).as_dict(),
                "cpu_ms": Middle.of([sample.cpu_ms for sample in samples]).as_dict(),
            }
            for name, samples in self.ways.items()
        }
        ratios = {peer: self.ratio(peer).as_dict() for peer in self.peers}
        rounds = len(self.ways[OURS])
        return {"unit": self.unit, "rounds": rounds, "ways": ways, "ratios": ratios, "cannot": dict(self.cannot)}


def side_by_side(
    name: str,
    ways: Mapping[str, Way],
    rounds: int,
    *,
    before: Callable[[], object] = lambda: None,
    cannot: Mapping[str, str] | None = None,
    unit: str = "ms",
) -> Compared:
    """Do the work ``rounds`` times in each way, one that is not counted before them.

    Args:
        name: of the measure.
        ways: by name; one is :data:`OURS`.
        rounds: how often.
        before: done before each, uncounted.
        cannot: who else there is, and why they cannot do it.
        unit: of what ways return; without a return value it is wall time in ms.
    """
    samples: dict[str, list[Sample]] = {way: [] for way in ways}
    order = list(ways)
    for number in range(-1, rounds):
        for way in order:
            before()
            sample = take(ways[way])
            if number >= 0:
                samples[way].append(sample)
        order = [*order[1:], order[0]]
    return Compared(name, samples, cannot or {}, unit)


def take(way: Way) -> Sample:
    """Do the work once."""
    cpu, begun = _cpu_s(), time.perf_counter()
    told = way()
    wall_ms = (time.perf_counter() - begun) * 1000
    return Sample(wall_ms if told is None else told, (_cpu_s() - cpu) * 1000)


def _cpu_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _short(value: float) -> float:
    return float(f"{value:.4g}")
