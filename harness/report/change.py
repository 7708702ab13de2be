"""Whether a figure changed from one run to another, or only the noise did. Pure.

The two sides are compared by the means of their logarithms, so that the result is a ratio: Welch's t, which takes two
sides of unequal number and spread. What would fool it is met so:

- *outliers*: where a side has values that lie far from the others, as many are trimmed at both ends of both sides and
  the spread is that of the winsorised values (Yuen's test). They stay in the published medians.
- *rounding*: figures printed with few digits may all be the same. The step of their digits is added to the spread.
- *repeats that are like their neighbours* (a governor, a background task): the spread of a mean is widened by that
  correlation where it shows, in 8 repeats and more.

What no repeats of two cells can show is what moves a cell as a whole: the phone's temperature, its place, memory left
by others. All repeats of a cell share that. So the interval says where the ratio of *these two cells* lies, and by
itself not where that of two builds does. ``between_cv`` adds what is known of runs that nothing changed between; an
interleaved run (``--ab``) or a second measurement (``compare --verify``) finds it out.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from harness.report.student import quantile_t

Judgement = Literal["faster", "slower", "same", "cannot tell"]

# Chance of calling noise a change, both directions together: a little below the one in twenty that is promised, for
# what outliers, rounding and correlation add.
ALPHA: Final = 0.045
DEFAULT_BOUND: Final = 0.03
_LEAST_SAMPLES: Final = 3
# Five standard deviations, told by the median absolute deviation: to trim what is only in the tail of a bell costs
# power. A spread below 2 % singles nothing out.
_FAR_SAMPLES: Final = 5
_FAR_SCORE: Final = 5 / 0.6745
_FAR_LEAST: Final = 0.02
_MOST_TRIMMED: Final = 0.2
# Below so many repeats a side the correlation of neighbours is not worth estimating; it is chance up to so many of its
# standard deviations, which are one over the root of the number of all repeats.
_CORRELATED_SAMPLES: Final = 8
_CORRELATED_LEAST: Final = 2.0
_CORRELATED_MOST: Final = 0.9
# An estimate right at the bound could never be told: nobody is sent to measure for a week.
_NEAREST: Final = 1 / 3


@dataclass(frozen=True)
class Change:
    """What became of a figure: new over base, with its interval.

    ``slower`` and ``faster`` stand for worse and better, of whatever figure. ``ci95`` holds the ratio with at least
    95 % (see the module for what that covers). ``more_repeats`` says how many further repeats of each side it would
    take to tell, where it cannot be told and repeats would help; ``why`` is a clause.
    """

    verdict: Judgement
    ratio: float | None
    ci95: tuple[float, float] | None
    more_repeats: int | None
    why: str

    @property
    def words(self) -> str:
        """The verdict for people, e.g. ``cannot tell: needs 4 more repeats``."""
        if self.verdict != "cannot tell":
            return self.verdict
        if self.more_repeats is None:
            return f"cannot tell: {self.why}"
        return f"cannot tell: needs {self.more_repeats} more repeat{'' if self.more_repeats == 1 else 's'}"


@dataclass(frozen=True)
class _Side:
    """One side in logarithms: its centre, the variance of that, and its degrees of freedom."""

    centre: float
    variance: float
    degrees: int


def change_of(
    base: Sequence[float | None],
    new: Sequence[float | None],
    *,
    bound: float = DEFAULT_BOUND,
    higher_is_better: bool = True,
    between_cv: float | None = None,
) -> Change:
    """Compare two sets of repeats, each of positive figures; what is unknown, zero or no number is left out.

    A change is called where the interval leaves out 1 and the ratio is beyond ``bound``; ``same`` where the whole
    interval lies within it.

    Args:
        base: what was measured before, in the order in which it was.
        new: what was measured now, likewise.
        bound: a change by less than this share is no change for anybody.
        higher_is_better: speeds; ``False`` for times and sizes.
        between_cv: how far medians of runs lie apart that nothing changed between (standard deviation ÷ mean), where
            that is known. With it a single value a side can be judged.
    """
    sides = [[float(value) for value in side if value is not None and 0 < value < math.inf] for side in (base, new)]
    fewest = min(map(len, sides))
    least = _LEAST_SAMPLES if between_cv is None else 1
    if fewest < least:
        missing = _LEAST_SAMPLES - fewest
        return Change("cannot tell", None, None, missing, f"fewer than {least} repeats with a figure on a side")
    logs = [[math.log(value) for value in side] for side in sides]
    ordered = [sorted(side) for side in logs]
    share = max(map(_far_share, ordered))
    before, now = (_side(side, share) for side in ordered)
    widening = _correlation_factor(*logs)
    variances = [
        (side.variance * widening + rounding_variance(values), side.degrees)
        for side, values in zip((before, now), sides, strict=True)
    ]
    between = 2 * between_cv**2 if between_cv is not None else 0.0
    return judge(now.centre - before.centre, variances, bound, higher_is_better, between=between, fewest=fewest)


def judge(
    difference: float,
    variances: Sequence[tuple[float, float]],
    bound: float,
    higher_is_better: bool,
    *,
    fewest: int,
    between: float = 0.0,
) -> Change:
    """Judge a difference of logarithms.

    Args:
        difference: new less base.
        variances: what its variance is the sum of, each with its degrees of freedom.
        bound: as for :func:`change_of`.
        higher_is_better: as for :func:`change_of`.
        fewest: how many repeats the side with fewer of them has.
        between: a further part of the variance, which is known and which no repeat makes smaller.
    """
    own = sum(variance for variance, _ in variances)
    error = math.sqrt(own + between)
    half = quantile_t(1 - ALPHA / 2, _degrees(variances, own + between)) * error
    ratio, interval = math.exp(difference), (math.exp(difference - half), math.exp(difference + half))
    edge = -math.log1p(-bound) if difference < 0 else math.log1p(bound)
    if 1 - bound <= interval[0] and interval[1] <= 1 + bound:
        return Change("same", ratio, interval, None, "")
    if abs(difference) > half and abs(difference) > edge:
        better = (difference > 0) is higher_is_better
        return Change("faster" if better else "slower", ratio, interval, None, "")
    told = f"to tell a change by {bound * 100:.2g} %"
    wanted = max(abs(difference) if abs(difference) > edge else edge - abs(difference), edge * _NEAREST)
    floor = half * math.sqrt(between) / error if error else 0.0
    if floor >= wanted:
        why = f"runs differ too much from one to another {told}; more repeats do not help"
        return Change("cannot tell", ratio, interval, None, why)
    times = (half**2 - floor**2) / (wanted**2 - floor**2)
    more = max(1, math.ceil(fewest * times) - fewest)
    return Change(
        "cannot tell", ratio, interval, more, f"the repeats spread too much to tell a change by {bound * 100:.2g} %"
    )


def _degrees(variances: Sequence[tuple[float, float]], whole: float) -> float:
    """Return Welch and Satterthwaite's degrees of freedom; no fewer than those of the poorest part."""
    parts = [(variance, degrees) for variance, degrees in variances if degrees > 0]
    spread = sum(variance**2 / degrees for variance, degrees in parts)
    fewest = min((degrees for _, degrees in parts), default=math.inf)
    return max(1.0, fewest if spread == 0 else whole**2 / spread)


def _far_share(ordered: Sequence[float]) -> float:
    """Return which share of the values lies far from the others, at most a fifth."""
    if len(ordered) < _FAR_SAMPLES:
        return 0.0
    middle = _middle(ordered)
    apart = [abs(value - middle) for value in ordered]
    limit = max(_FAR_LEAST, _FAR_SCORE * _middle(sorted(apart)))
    return min(_MOST_TRIMMED, sum(distance > limit for distance in apart) / len(ordered))


def _middle(ordered: Sequence[float]) -> float:
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _side(ordered: Sequence[float], share: float) -> _Side:
    """Return what one side comes to; ``ordered`` are its logarithms by size, of which this share is cut at each end."""
    number = len(ordered)
    cut = min(math.ceil(number * share - 1e-9), int(number * _MOST_TRIMMED))
    kept = ordered[cut : number - cut]
    centre = math.fsum(kept) / len(kept)
    if number == 1:
        return _Side(centre, 0.0, 0)
    winsorised = [kept[0]] * cut + list(kept) + [kept[-1]] * cut if cut else kept
    middle = math.fsum(winsorised) / number
    squares = math.fsum((value - middle) ** 2 for value in winsorised)
    return _Side(centre, squares / (len(kept) * (len(kept) - 1)), len(kept) - 1)


def rounding_variance(figures: Sequence[float]) -> float:
    """Return the variance, in logarithms, of what rounding took from all repeats alike; 0 where all figures differ.

    That is half a step at the most, for which it is taken. Figures with all their digits are never the same; those that
    are were printed with as many digits as the longest.
    """
    if 1 < len(figures) == len(set(figures)):
        return 0.0
    texts = [repr(figure) for figure in figures]
    if any("e" in text for text in texts):
        return 0.0
    digits = max(len(text.partition(".")[2].removesuffix("0")) for text in texts)
    return float((10.0**-digits / figures[0]) ** 2 / 4)


def _correlation_factor(*sides: Sequence[float]) -> float:
    """Return by how much the variance of a mean grows because neighbours are alike; 1 where that does not show."""
    if min(map(len, sides)) < _CORRELATED_SAMPLES:
        return 1.0
    along = whole = 0.0
    for side in sides:
        middle = math.fsum(side) / len(side)
        apart = [value - middle for value in side]
        along += sum(map(operator.mul, apart, apart[1:]))
        whole += sum(map(operator.mul, apart, apart))
    seen = along / whole if whole > 0 else 0.0
    if seen <= _CORRELATED_LEAST / math.sqrt(sum(map(len, sides))):
        return 1.0
    # What is seen of few is too little, by (1 + 4 * correlation) / number (Marriott and Pope).
    number = sum(map(len, sides)) / len(sides)
    correlation = min((number * seen + 1) / (number - 4), _CORRELATED_MOST)
    return (1 + correlation) / (1 - correlation)
