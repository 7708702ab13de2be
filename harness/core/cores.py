"""A phone's cores: which of them are fast, and lists of them as the kernel writes them. Pure.

A leaf, because a cell's configuration, its verdict and the report ask it the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

# Middle cores of chips since 2019 have 0.80 to 0.90 of the fastest one's top clock, little ones 0.45 to 0.69.
FAST_SHARE = 0.75
# In-order cores, which are little whatever their clock: in a chip of A76 and A55 these may have 0.9 of the top clock.
_LITTLE = re.compile(r"^(Cortex-A(7|32|34|35|53|55|320|510|520)|C1-Nano|Kryo( \dxx)? Silver)$")
_MAKER = re.compile(r"^Cortex-| \(.*\)$")


@dataclass(frozen=True)
class CoreGroup:
    """Cores of one kind: their numbers, the kind's name and its top clock in kHz, where they are known."""

    cpus: tuple[int, ...]
    core: str | None = None
    max_khz: int | None = None


def groups_of(clusters: Iterable[Any]) -> tuple[CoreGroup, ...]:
    """Return the groups of ``cpu_clusters`` of facts, be they objects or, in a run's head, mappings."""
    found = []
    for cluster in clusters:
        get = cluster.get if isinstance(cluster, Mapping) else lambda name, of=cluster: getattr(of, name, None)
        found.append(CoreGroup(tuple(get("cpus") or ()), get("core"), get("max_khz")))
    return tuple(found)


def fast_groups(groups: Sequence[CoreGroup]) -> tuple[CoreGroup, ...]:
    """Return the groups of fast cores, the fastest first; empty when nothing tells them apart.

    A group is fast when its top clock is at least :data:`FAST_SHARE` of the highest one and it is none of the in-order
    kinds, unless the phone has no other. Where a clock is not known the name alone decides.
    """
    named = [group for group in groups if group.core is not None]
    all_little = len(named) == len(groups) and all(_LITTLE.match(group.core or "") for group in groups)
    clocks = [group.max_khz for group in groups if group.max_khz]
    if len(groups) > 1 and any(group.core is None and group.max_khz is None for group in groups):
        return ()
    fast = []
    for group in groups:
        slow = bool(clocks and group.max_khz and group.max_khz < FAST_SHARE * max(clocks))
        little = not all_little and group.core is not None and _LITTLE.match(group.core) is not None
        if not slow and not little:
            fast.append(group)
    return tuple(sorted(fast, key=lambda group: (-(group.max_khz or 0), group.cpus)))


def fast_cpus(groups: Sequence[CoreGroup]) -> tuple[int, ...]:
    """Return the numbers of the fast cores, ascending; empty when nothing tells them apart."""
    return tuple(sorted(cpu for group in fast_groups(groups) for cpu in group.cpus))


def in_words(groups: Sequence[CoreGroup]) -> str:
    """Return e.g. ``1x X925 + 3x X4``; groups without a name are ``cores``."""
    return " + ".join(f"{len(group.cpus)}x {_MAKER.sub('', group.core) if group.core else 'cores'}" for group in groups)


def parse_cpu_list(text: str) -> frozenset[int] | None:
    """Read the kernel's list of cores, e.g. ``0,4-7``; ``None`` when it is none."""
    found: set[int] = set()
    for part in text.strip().split(","):
        match = re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", part)
        if match is None:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            return None
        found.update(range(first, last + 1))
    return frozenset(found)


def cpu_list(cpus: Iterable[int]) -> str:
    """Return cores as the kernel lists them: ``0,4-7``."""
    numbers = sorted(set(cpus))
    breaks = [0, *(n for n, (a, b) in enumerate(pairwise(numbers), start=1) if b != a + 1), len(numbers)]
    spans = [numbers[a:b] for a, b in pairwise(breaks)]
    return ",".join(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in spans if span)
