"""How fast a phone's memory can be read, measured once per phone and boot: the roof over its decode speed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.core.cores import cpu_list, fast_cpus, groups_of
from harness.core.errors import PhoneError
from harness.payload.probe import Probe
from harness.phone.facts import Facts

_log = logging.getLogger(__name__)

# All numbers of threads together; the probe's memory is got ready besides.
MEASURE_S = 1.0
_MOST_S_EACH = 0.3
_MOST_MEGABYTES = 256
_LEAST_MEGABYTES = 32
# So that measuring kills no app on a phone that is short of memory.
_SHARE_OF_AVAILABLE = 8


@dataclass(frozen=True)
class Bandwidth:
    """Memory read bandwidth in GB/s (10^9 bytes) by number of threads; ``why`` says why there is none."""

    gb_per_s: Mapping[int, float] = field(default_factory=dict)
    why: str = "the phone's memory bandwidth was not measured"

    @property
    def best_gb_per_s(self) -> float | None:
        """The most that any number of threads read."""
        return max(self.gb_per_s.values(), default=None)

    def or_better(self, again: Bandwidth) -> Bandwidth:
        """Return the best of both for each number of threads: what disturbs a measurement only lowers it."""
        if not self.gb_per_s or not again.gb_per_s:
            return self if self.gb_per_s else again
        threads = sorted({*self.gb_per_s, *again.gb_per_s})
        return Bandwidth({n: max(self.gb_per_s.get(n, 0.0), again.gb_per_s.get(n, 0.0)) for n in threads})


def threads_to_try(cores: int, fast: int) -> tuple[int, ...]:
    """Return 1, 2, 4 … up to the fast cores, their number, and all cores."""
    doubled = [1 << n for n in range(7) if 1 << n <= fast]
    return tuple(sorted({*doubled, max(fast, 1), max(cores, 1)}))


def measure_bandwidth(probe: Probe, facts: Facts) -> Bandwidth:
    """Measure it, on the fast cores as long as there are enough of them. A failure costs only this figure."""
    fast = fast_cpus(groups_of(facts.cpu_clusters))
    threads = threads_to_try(facts.cores, len(fast) or facts.cores)
    seconds = round(min(_MOST_S_EACH, MEASURE_S / len(threads)), 3)
    found: dict[int, float] = {}
    why = ""
    few = [n for n in threads if n <= len(fast)]
    # Where a phone keeps nobody on those cores (some are off, or not ours) they may run where it likes.
    for numbers, cpus in ((few, cpu_list(fast)), (threads, None)):
        left = [n for n in numbers if n not in found]
        try:
            if left:
                found |= probe.bandwidth(left, seconds=seconds, megabytes=_megabytes(facts), cpus=cpus)
        except PhoneError as error:
            why = error.message
            _log.info("the memory's bandwidth on %s: %s", "any core" if cpus is None else f"cores {cpus}", why)
    return Bandwidth(dict(sorted(found.items()))) if found else Bandwidth(why=why)


def _megabytes(facts: Facts) -> int:
    available = (facts.available_bytes or 0) >> 20
    return max(_LEAST_MEGABYTES, min(_MOST_MEGABYTES, available // _SHARE_OF_AVAILABLE or _MOST_MEGABYTES))
