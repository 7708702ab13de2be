"""What a sweep of threads says: how many are enough, and where more of them ruin the speed. Pure.

Cores that are slow hold up all others, since an engine waits for its last thread at every step. On GPU backends MNN's
thread number is a mode mask, so nothing is swept there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from harness.core.cores import CoreGroup, fast_groups, groups_of, in_words
from harness.report.sweeps import label_of, speed_of, sweeps_of
from harness.report.text import backend_name, distinct, listing, number, percent
from harness.store.schema import CellRecord

# Fewer threads are enough when they reach this share of the best speed.
ENOUGH: Final = 0.95
# A speed that falls below this share from one number of threads to the next falls off a cliff.
COLLAPSED: Final = 0.5


@dataclass(frozen=True)
class Point:
    """One number of threads: decode speed in tok/s with its interval, and how often that of the fewest threads it is.

    ``per_thread`` is the share of a perfect speed-up that each thread brings.
    """

    threads: int
    tps: float
    low: float
    high: float
    speed_up: float
    per_thread: float


@dataclass(frozen=True)
class Cliff:
    """Where the speed collapses: with more threads than ``beyond``, at ``at`` at the latest, to a share of the best."""

    beyond: int
    at: int
    share: float


@dataclass(frozen=True)
class Sweep:
    """One sweep. ``knee`` is the smallest number of threads that is enough, ``None`` when noise hides it."""

    label: str
    points: tuple[Point, ...]
    knee: int | None
    cliff: Cliff | None
    says: str


def thread_sweeps(records: Sequence[CellRecord], clusters: Sequence[Mapping[str, Any]] = ()) -> list[Sweep]:
    """Return the sweeps among the cells of one phone; ``clusters`` are the ``cpu_clusters`` of its facts."""
    on_cpu = [record for record in records if record.config.backend == "cpu"]
    fast = fast_groups(groups_of(clusters))
    return [_sweep(group, fast) for group in sweeps_of(on_cpu, "threads")]


def gpu_note(records: Sequence[CellRecord], plan: Mapping[str, Any], command: Sequence[str] = ()) -> str:
    """Return why the GPU cells of a phone show no threads although the plan sweeps them, ``""`` if it does not."""
    gpus = distinct(backend_name(record.config.backend) for record in records if record.config.backend != "cpu")
    asked = any(word == "--threads" or word.startswith("--threads=") for word in command)
    if not gpus or not (asked or len(plan.get("threads") or ()) > 1):
        return ""
    what = "--threads does not apply to" if asked else "Threads are not swept on"
    verb = "runs" if len(gpus) == 1 else "run"
    return f"{what} {listing(gpus)}: MNN takes that number as a mode mask there, so {listing(gpus)} {verb} once."


def _sweep(group: Sequence[CellRecord], fast: Sequence[CoreGroup]) -> Sweep:
    speeds = [(record.config.threads, *speed_of(record)) for record in group]
    fewest, base = speeds[0][:2]
    points = tuple(
        Point(n, tps, low, high, tps / base, tps / base * fewest / n) for n, tps, low, high in speeds if base > 0
    )
    best = max(points, key=lambda point: point.tps)
    enough = next(point for point in points if point.tps >= ENOUGH * best.tps)
    rivals = [point for point in points if point.threads < enough.threads and point.high >= enough.low]
    cliff = _cliff(points, best)
    says = _knee_in_words(points, best, enough, rivals)
    if cliff is not None:
        says += f"; {_cliff_in_words(cliff, fast)}"
    return Sweep(label_of(group[0], without="threads"), points, None if rivals else enough.threads, cliff, says)


def _cliff(points: Sequence[Point], best: Point) -> Cliff | None:
    for here, then in pairwise(points):
        if then.tps < COLLAPSED * here.tps and then.high < here.low:
            return Cliff(here.threads, then.threads, then.tps / best.tps)
    return None


def _knee_in_words(points: Sequence[Point], best: Point, enough: Point, rivals: Sequence[Point]) -> str:
    if rivals:
        numbers = listing([str(point.threads) for point in (*rivals, enough)])
        return f"no number of threads is clearly best: {numbers} lie within each other's noise"
    if enough is not best:
        return f"{enough.threads} of {best.threads} threads are enough: within {percent(1 - ENOUGH)} of the best"
    most = ", the most that were tried" if best is points[-1] else ""
    return f"best at {_threads(best.threads)}{most}"


def _cliff_in_words(cliff: Cliff, fast: Sequence[CoreGroup]) -> str:
    count = sum(len(group.cpus) for group in fast)
    falls = f"it collapses to {'less than 1' if cliff.share < 0.005 else round(cliff.share * 100)} %"
    if count == cliff.beyond:
        return f"beyond {count} (the fast cores: {in_words(fast)}) {falls}"
    if cliff.beyond < count < cliff.at:
        between = f"between {cliff.beyond} and {cliff.at}"
        return f"{between}, where the {count} fast cores end ({in_words(fast)}), {falls}"
    return f"beyond {_threads(cliff.beyond)} {falls}"


def _threads(count: int) -> str:
    return f"{count} thread{'' if count == 1 else 's'}"


def speed_up_in_words(sweep: Sweep) -> str:
    """Return e.g. ``1: 18.8 tok/s, 2: 23.3 (1.24x, 62 % a thread)``."""
    first, *others = sweep.points
    told = [f"{first.threads}: {number(first.tps)} tok/s"]
    told += [
        f"{point.threads}: {number(point.tps)} ({point.speed_up:.2f}x, {point.per_thread * 100:.0f} % a thread)"
        for point in others
    ]
    return ", ".join(told)
