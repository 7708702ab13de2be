"""Whether a speed changed from one run to another, or only the noise did. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

Judgement = Literal["faster", "slower", "same", "cannot tell"]

# Chance of calling noise a change, both directions together: below the one in twenty that is promised.
_ALPHA: Final = 0.03
_LEAST_SAMPLES: Final = 3


@dataclass(frozen=True)
class Change:
    """What became of a figure: new over base, with its interval.

    ``more_repeats`` says how many further repeats of each side it would take to tell, where it cannot be told.
    """

    verdict: Judgement
    ratio: float | None
    ci95: tuple[float, float] | None
    more_repeats: int | None
    why: str


def change_of(
    base: Sequence[float], new: Sequence[float], *, bound: float = 0.03, higher_is_better: bool = True
) -> Change:
    """Compare two sets of repeats, each of positive figures.

    Args:
        base: what was measured before.
        new: what was measured now.
        bound: a change by less than this share is no change for anybody.
        higher_is_better: speeds; ``False`` for times.
    """
    if min(len(base), len(new)) < _LEAST_SAMPLES:
        missing = _LEAST_SAMPLES - min(len(base), len(new))
        return Change("cannot tell", None, None, missing, f"fewer than {_LEAST_SAMPLES} repeats on a side")
    logs = [[math.log(value) for value in side] for side in (base, new)]
    difference = statistics.fmean(logs[1]) - statistics.fmean(logs[0])
    variances = [statistics.variance(side) / len(side) for side in logs]
    error = math.sqrt(sum(variances))
    degrees = sum(variances) ** 2 / sum(
        variance**2 / (len(side) - 1) for variance, side in zip(variances, logs, strict=True)
    ) if error else math.inf  # fmt: skip
    half = _quantile_t(1 - _ALPHA / 2, degrees) * error
    ratio, interval = math.exp(difference), (math.exp(difference - half), math.exp(difference + half))
    if interval[0] > 1 or interval[1] < 1:
        better = (ratio > 1) is higher_is_better
        return Change("faster" if better else "slower", ratio, interval, None, "")
    if 1 - bound <= interval[0] and interval[1] <= 1 + bound:
        return Change("same", ratio, interval, None, "")
    wanted = math.ceil(max(map(len, logs)) * (half / math.log1p(bound)) ** 2)
    more = max(1, wanted - min(map(len, logs)))
    return Change("cannot tell", ratio, interval, more, f"the repeats spread too much to see {bound:.0%}")


def _quantile_t(p: float, degrees: float) -> float:
    """Return Student's quantile by its expansion around the normal one, good to a percent from 4 degrees on."""
    z = statistics.NormalDist().inv_cdf(p)
    if math.isinf(degrees):
        return z
    g1 = (z**3 + z) / 4
    g2 = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    g3 = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + g1 / degrees + g2 / degrees**2 + g3 / degrees**3
