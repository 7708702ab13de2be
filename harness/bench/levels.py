"""A run's decode speed as a series of levels, and where it falls. Pure statistics; nothing here knows of heat.

**Like with like.** Within a generation each token takes longer than the one before, because the context grows: a cost
that is linear in the depth. Its slope is the median over generations (a fall of the phone spoils the slope of one or
two of them), and every token's time is divided by it, so that tokens of all depths can be compared. Below three
generations there is nothing to compare with: the slope is taken for none, and no fall is looked for.

**Pauses.** A tenth of a second may count for at most :data:`_STALL` times the 90th percentile of the fifty around it: a
single pause of a collector or a scheduler is no fall. Where every tenth of a second has its pauses, as when processes
are held to a quota, nothing is cut: that is how slow they are. Speeds that are told are without any cut.

**Levels.** Tokens are put together to bins of equal decode time, at most :data:`_MOST_BINS`, of :data:`_LEAST_TOKENS`
tokens or more and at least 0.2 s. A level is the logarithm of the mean time a token took in a bin.

**The fall.** Of all stretches of bins the one that is slower than all before it with the greatest gain in likelihood
(of two means against one). It counts when it is slower by at least :data:`LEAST_FALL` and by :data:`_SIGMAS` standard
errors; the error is that of levels around their means (detrended in the stretch, so that a slow decay does not hide
itself), widened for noise that lasts: neighbouring bins that are slow together are no two witnesses. Then the part
before it is searched for an earlier fall that leads into it, until there is none, which finds the first step of a
governor that takes many and the beginning of a decay.

**The moment.** Around the bin so found a step and a bend (flat, then falling) are fitted; the better one tells the
moment: a step is placed between two tokens, a bend between two bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

LEAST_FALL = 0.03
_SIGMAS = 5.5
_MOST_BINS = 240
_LEAST_TOKENS = 5
_LEAST_BIN_MS = 200.0
# A fall needs so many bins before it and in it, and lasts at least this share of all bins.
_LEAST_BINS = 3
_LEAST_SHARE = 0.05
_STALL = 1.5
_AROUND = 50
_MOMENT_MS = 100.0
# Levels of the quietest phone differ by so much.
_LEAST_NOISE = 0.004
# Speed wanders by so much, and keeps a deviation for so long; a fall exceeds that by so many standard errors.
_WANDER, _WANDER_S, _WANDER_SIGMAS = 0.05, 8.0, 4.5
_LEAST_GENERATIONS = 3
# With fewer tokens a generation's own slope says nothing.
_TOKENS_FOR_A_SLOPE = 12


@dataclass(frozen=True)
class Series:
    """Decode times that can be compared: ``at_ms`` when a token was there, ``took_ms`` at a generation's mean depth.

    ``level_ms`` are the same without single pauses.
    ``comparable`` is whether there are generations enough to tell a fall of the phone from that within a generation.
    """

    at_ms: Array
    took_ms: Array
    level_ms: Array
    comparable: bool = True

    def tps(self, begin_ms: float = -np.inf, end_ms: float = np.inf) -> float | None:
        """Return the speed over the tokens that were there in ``[begin_ms, end_ms)``; ``None`` without any."""
        took = self.took_ms[(self.at_ms >= begin_ms) & (self.at_ms < end_ms)]
        return 1000.0 / float(took.mean()) if took.size else None


@dataclass(frozen=True)
class Fall:
    """Speed fell at ``at_ms`` by the share ``by`` (0.4: to 60 %), and rose again at ``until_ms`` if it did."""

    at_ms: float
    by: float
    until_ms: float | None = None


def series_of(generations: Sequence[tuple[Array, Array]]) -> Series:
    """Return the series of generations, each the moments and times (ms) of its tokens after the first."""
    slope = _slope([took for _, took in generations])
    depths = [np.arange(took.size) - (took.size - 1) / 2 for _, took in generations]
    level = [took / np.maximum(1.0 + slope * depth, 0.2) for (_, took), depth in zip(generations, depths, strict=True)]
    at_ms = np.concatenate([at for at, _ in generations]) if generations else np.empty(0)
    took_ms = np.concatenate(level) if generations else np.empty(0)
    return Series(at_ms, took_ms, _without_stalls(took_ms), comparable=len(generations) >= _LEAST_GENERATIONS)


def _slope(generations: Sequence[Array]) -> float:
    """Return how much longer a token takes than the one before it, as a share of the mean."""
    slopes = []
    for took in generations:
        third = took.size // 3
        if took.size >= _TOKENS_FOR_A_SLOPE:
            middle = float(np.median(took))
            slopes.append(float(np.median(took[-third:]) - np.median(took[:third])) / middle / (took.size - third))
    return float(np.median(slopes)) if len(slopes) >= _LEAST_GENERATIONS else 0.0


def _without_stalls(took: Array) -> Array:
    if not took.size:
        return took
    starts = np.flatnonzero(np.diff(((np.cumsum(took) - took / 2) / _MOMENT_MS).astype(int), prepend=-1))
    counts = np.diff(np.append(starts, took.size))
    pace = np.add.reduceat(took, starts) / counts
    parts = np.array_split(pace, max(1, pace.size // _AROUND))
    most = np.concatenate([np.full(part.size, _STALL * np.percentile(part, 90)) for part in parts])
    share: Array = np.repeat(np.minimum(1.0, most / pace), counts)
    return took * share


class Bins:
    """The levels of a series: ``level[n]`` of the tokens ``edges[n]`` to ``edges[n + 1]``."""

    def __init__(self, series: Series) -> None:
        took = series.level_ms
        self.series = series
        total = float(took.sum())
        width = max(_LEAST_BIN_MS, total / _MOST_BINS, _LEAST_TOKENS * float(np.median(took)) if took.size else 0.0)
        # Equal shares of the whole, so that the last bin is no remainder.
        count = max(1, int(total / width))
        number = np.minimum(((np.cumsum(took) - took / 2) / (total or 1.0) * count).astype(int), count - 1)
        starts = np.flatnonzero(np.diff(number, prepend=-1)) if took.size else np.empty(0, dtype=int)
        self.edges = np.append(starts, took.size)
        sums = np.add.reduceat(took, starts) if took.size else np.empty(0)
        self.seconds: Array = sums / 1000
        self.level: Array = np.log(sums / np.diff(self.edges)) if took.size else np.empty(0)

    def __len__(self) -> int:
        return int(self.level.size)

    def begins_ms(self, number: int) -> float:
        """Return when the first token of a bin was begun."""
        first = int(self.edges[number])
        return float(self.series.at_ms[first] - self.series.took_ms[first])


def find_fall(series: Series) -> Fall | None:
    """Return the first fall of speed that counts; ``None`` when speed is steady, rises, or too little is known."""
    bins = Bins(series)
    level = bins.level
    found = _best(level) if series.comparable else None
    if found is None:
        return None
    first, end = found
    risen = float(level[first:end].mean() - level[:first].mean())
    if risen < wander(float(bins.seconds[:first].sum()), float(bins.seconds[first:end].sum())):
        return None
    step_end = end
    while (earlier := _best(level[:first], to_the_end=True)) is not None:
        first, step_end = earlier
    before = float(level[:first].mean())
    return Fall(
        at_ms=_moment(bins, first, step_end),
        by=1.0 - float(np.exp(before - level[first:end].mean())),
        until_ms=bins.begins_ms(end) if _rose(level, first, end) else None,
    )


def wander(before_s: float, after_s: float) -> float:
    """Return the fall (as a logarithm) that two stretches of decoding must exceed to differ by more than wandering."""
    shares = [min(1.0, _WANDER_S / seconds) if seconds else 1.0 for seconds in (before_s, after_s)]
    return _WANDER_SIGMAS * _WANDER * float(np.sqrt(sum(shares)))


def is_slower(before: Array, after: Array, least: float, sigmas: float) -> bool:
    """Whether levels after are higher than before by ``least`` and by ``sigmas`` standard errors."""
    rise = float(after.mean() - before.mean())
    return rise >= least and rise >= sigmas * _error(before, after)


def _best(level: Array, *, to_the_end: bool = False) -> tuple[int, int] | None:
    """Return first and end of the stretch that is slower than all before it by the greatest gain, if it counts."""
    count = level.size
    least = max(_LEAST_BINS, 0 if to_the_end else round(_LEAST_SHARE * count))
    if count < _LEAST_BINS + least:
        return None
    sums = np.concatenate([[0.0], np.cumsum(level)])
    firsts = np.arange(_LEAST_BINS, count - least + 1)[:, None]
    ends = np.array([[count]]) if to_the_end else np.arange(_LEAST_BINS + least, count + 1)[None, :]
    inside = np.maximum(ends - firsts, 1)
    rise = (sums[ends] - sums[firsts]) / inside - sums[firsts] / firsts
    gain = np.where((rise > 0) & (ends - firsts >= least), rise**2 * firsts * inside / (firsts + inside), 0.0)
    row, column = np.unravel_index(int(gain.argmax()), gain.shape)
    first, end = int(firsts[row, 0]), int(ends[0, column])
    if gain[row, column] <= 0 or not is_slower(level[:first], level[first:end], LEAST_FALL, _SIGMAS):
        return None
    return first, end


def _error(before: Array, after: Array) -> float:
    """Return the standard error of the difference of two means whose noise may last over several bins."""
    rests = [part - part.mean() for part in (before, after)]
    if after.size > _LEAST_BINS:
        steps = np.arange(after.size)
        rests[1] = after - np.polyval(np.polyfit(steps, after, 1), steps)
    rest = np.concatenate(rests)
    noise = max(_LEAST_NOISE, float(np.sqrt((rest**2).sum() / max(1, rest.size - 3))))
    alike = float((rest[1:] * rest[:-1]).sum() / max(1e-12, (rest**2).sum())) if rest.size > 3 else 0.0
    # The estimate is too low in short series (Marriott and Pope 1954: by about (1 + 3 r) / n).
    alike = min(0.9, max(0.0, alike + (1 + 3 * max(0.0, alike)) / rest.size))
    lasting = (1 + alike) / (1 - alike)
    witnesses = [max(1.0, part.size / lasting) for part in (before, after)]
    return noise * float(np.sqrt(sum(1 / count for count in witnesses)))


def _rose(level: Array, first: int, end: int) -> bool:
    return level.size - end >= _LEAST_BINS and is_slower(level[end:], level[first:end], LEAST_FALL, 3.0)


def _moment(bins: Bins, first: int, end: int) -> float:
    """Return when the fall began: where a step or a bend fits best around bin ``first``."""
    reach = min(first, end - first, _MOST_BINS // 4)
    low, high = first - reach, first + reach
    level = bins.level[low:high]
    step = min((_step_error(level, at), at) for at in range(1, level.size))
    bend = min((_bend_error(level, at), at) for at in range(1, level.size - 1))
    if bend[0] < 0.9 * step[0] and high - low > 2 * _LEAST_BINS:
        return bins.begins_ms(low + bend[1])
    around = low + step[1]
    begin, stop = bins.edges[max(0, around - 3)], bins.edges[min(len(bins), around + 3)]
    took = bins.series.level_ms[begin:stop]
    split = int(begin) + min(range(1, took.size), key=lambda at: _step_error(took, at))
    return float(bins.series.at_ms[split] - bins.series.took_ms[split])


def _step_error(values: Array, at: int) -> float:
    return float(((values[:at] - values[:at].mean()) ** 2).sum() + ((values[at:] - values[at:].mean()) ** 2).sum())


def _bend_error(values: Array, at: int) -> float:
    ramp = np.maximum(0.0, np.arange(values.size) - at)
    design = np.column_stack([np.ones(values.size), ramp])
    fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return float(((values - fitted) ** 2).sum())
