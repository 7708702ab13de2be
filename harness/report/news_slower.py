"""Whether a cell that was ok and still is got slower than any noise between two runs explains. Pure.

A red run must mean something, so this asks for more than :mod:`harness.report.change`, which compares two runs at
leisure: the whole interval of the change must lie beyond a bound. Between two runs on one phone figures shift by some
percent that the repeats within a run do not show (clocks, heat, what else runs there), and a run has hundreds of cells.
The bound is what hardly one of so many reaches by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.core.reasons import Verdict
from harness.report.change import change_of
from harness.report.text import number
from harness.store.schema import CellRecord

# Loss of speed that the whole interval must be beyond. With shifts between runs of 3 % and repeats that spread by
# 5 %, fewer than one run of 200 unchanged cells in twenty is red (simulated in the tests).
SLOWER_BOUND: Final = 0.15
_LOG_BOUND: Final = math.log(1 - SLOWER_BOUND)
# A first token that comes later by less than this is noticed by nobody.
NOTICED_MS: Final = 50.0
# An inference that takes longer by less than this is noticed by nobody, and timers and schedulers decide about it.
NOTICED_LATENCY_MS: Final = 0.5
# Starts that are further apart in temperature than this are not compared.
COMPARABLE_C: Final = 5.0


@dataclass(frozen=True)
class Timings:
    """What a cell that is ok has to be compared by, and how warm the phone was before.

    That are its timed generations, or its inferences (``latency_ms``).
    """

    decode_tps: tuple[float, ...]
    ttft_ms: tuple[float, ...]
    start_c: float | None
    latency_ms: tuple[float, ...] = ()


def timings_of(record: CellRecord) -> Timings | None:
    """Return the timings of a cell that is ok, ``None`` of any other.

    Of a sustained cell the generations of its last quarter count, as in its metrics, and no time to first token: the
    first ones are those of a cool phone.
    """
    if record.verdict is not Verdict.OK:
        return None
    timed = [sample for sample in record.samples if sample.kind == "timed"]
    sustained = record.config.kind == "sustained"
    if sustained:
        timed = timed[len(timed) * 3 // 4 :]
    return Timings(
        _positive([sample.decode_tps for sample in timed]),
        () if sustained else _positive([sample.ttft_ms for sample in timed]),
        record.thermal.start_c if record.thermal is not None else None,
        _positive([sample.latency_ms for sample in timed]),
    )


def slower(before: Timings, now: Timings) -> str | None:
    """Return in words what got slower by more than :data:`SLOWER_BOUND`, proven; ``None`` if nothing did.

    A phone that was clearly warmer at the start than the time before proves nothing.
    """
    if _warmer(before, now):
        return None
    found = [
        words for words in (_decode(before, now), _first_token(before, now), _latency(before, now)) if words is not None
    ]
    return "; ".join(found) or None


def _warmer(before: Timings, now: Timings) -> bool:
    return before.start_c is not None and now.start_c is not None and now.start_c - before.start_c > COMPARABLE_C


def _decode(before: Timings, now: Timings) -> str | None:
    if _mean_log(now.decode_tps) - _mean_log(before.decode_tps) > _LOG_BOUND:  # no interval can be beyond it
        return None
    change = change_of(before.decode_tps, now.decode_tps, bound=SLOWER_BOUND)
    if change.ratio is None or change.ci95 is None or change.ci95[1] >= 1 - SLOWER_BOUND:
        return None
    was, is_now = _typical(before.decode_tps), _typical(now.decode_tps)
    return f"decode {is_now} tok/s, was {was}{_share(change.ratio, change.ci95)}"


def _first_token(before: Timings, now: Timings) -> str | None:
    words = _later(before.ttft_ms, now.ttft_ms, NOTICED_MS)
    return None if words is None else f"first token after {words}"


def _latency(before: Timings, now: Timings) -> str | None:
    words = _later(before.latency_ms, now.latency_ms, NOTICED_LATENCY_MS)
    return None if words is None else f"latency {words}"


def _later(before: Sequence[float], now: Sequence[float], noticed_ms: float) -> str | None:
    """Return in words that a time got longer, ``None`` where that is not proven or not noticed."""
    if _mean_log(before) - _mean_log(now) > _LOG_BOUND:
        return None
    change = change_of(before, now, bound=SLOWER_BOUND, higher_is_better=False)
    if change.ratio is None or change.ci95 is None or change.ci95[0] <= 1 / (1 - SLOWER_BOUND):
        return None
    if _middle(now) - _middle(before) < noticed_ms:
        return None
    return f"{_typical(now)} ms, was {_typical(before)}{_share(change.ratio, change.ci95)}"


def _share(ratio: float, interval: tuple[float, float]) -> str:
    return f" ({ratio - 1:+.0%}, interval {interval[0] - 1:+.0%} to {interval[1] - 1:+.0%})"


def _mean_log(values: Sequence[float]) -> float:
    return math.fsum(map(math.log, values)) / len(values) if values else 0.0


def _positive(values: Sequence[float | None]) -> tuple[float, ...]:
    return tuple(value for value in values if value is not None and value > 0)


def _middle(values: Sequence[float]) -> float:
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _typical(values: Sequence[float]) -> str:
    return number(_middle(values))
