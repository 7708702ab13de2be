"""What differs between the runs before and after a change: its likely cause. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from harness.report.text import celsius, one_line
from harness.store.schema import CellRecord

# A start warmer by less than this is the same start.
_SAME_START_C: Final = 3.0
_HASH_DIGITS: Final = 8


class Circumstances(NamedTuple):
    """What a figure was measured with; ``None`` where it is not known or does not matter."""

    engine_version: str | None
    bundle: str
    model: str
    harness_version: str
    android: str | None
    driver: str | None
    plugged: str | None
    start_c: float | None


# In words, in the order in which they are likely to be the cause.
_WORDS: Final = {
    "engine_version": "engine version",
    "bundle": "device binaries",
    "model": "files of the model",
    "driver": "GPU driver",
    "android": "Android build",
    "harness_version": "mnn-farm",
    "plugged": "power",
}


@dataclass(frozen=True)
class Difference:
    """One thing that differs. ``throughout``: all runs before the change differ in it from all runs after."""

    what: str
    before: str
    after: str
    throughout: bool


def circumstances_of(record: CellRecord) -> Circumstances:
    """Return what a record says of how it was measured. The GPU driver counts for GPU backends only."""
    thermal = record.thermal
    plugged = None if thermal is None or thermal.plugged is None else "plugged in" if thermal.plugged else "on battery"
    return Circumstances(
        engine_version=record.bundle.engine_version,
        bundle=f"{record.bundle.name} {record.bundle.hash[:_HASH_DIGITS]}",
        model=record.model.hash[:_HASH_DIGITS],
        harness_version=record.harness_version,
        android=record.phone.fingerprint,
        driver=None if record.config.backend == "cpu" else record.phone.driver,
        plugged=plugged,
        start_c=None if thermal is None else thermal.start_c,
    )


def differences(before: Sequence[Circumstances], after: Sequence[Circumstances]) -> tuple[Difference, ...]:
    """Return what differs between the last run before a change and the first after it, the likeliest cause first.

    What differs throughout comes before what also varies without a change. Temperatures are compared by the medians of
    both sides, since every start is a little different.
    """
    found = []
    for name, words in _WORDS.items():
        was, now = getattr(before[-1], name), getattr(after[0], name)
        if was != now and None not in (was, now):
            throughout = {getattr(each, name) for each in before}.isdisjoint(getattr(each, name) for each in after)
            found.append(Difference(words, one_line(was), one_line(now), throughout))
    found += _temperatures(before, after)
    return tuple(sorted(found, key=lambda difference: not difference.throughout))


def _temperatures(before: Sequence[Circumstances], after: Sequence[Circumstances]) -> list[Difference]:
    sides = [[each.start_c for each in side if each.start_c is not None] for side in (before, after)]
    if not all(sides):
        return []
    was, now = (statistics.median(side) for side in sides)
    if abs(now - was) < _SAME_START_C:
        return []
    apart = max(sides[0]) < min(sides[1]) or max(sides[1]) < min(sides[0])
    return [Difference("temperature at the start", f"{celsius(was)} °C", f"{celsius(now)} °C", apart)]
