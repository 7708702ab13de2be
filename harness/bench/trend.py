"""Growth over repetitions, told from noise. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import combinations, pairwise

# From so many values on a growth is called one; two or three may rise by chance.
FEWEST_TO_CLAIM = 5
MOST_VALUES = 300
_GROWS_BY_BYTES = 1 << 20
_GROWS_BY_SHARE = 0.01
# A growth by more than a MiB each time may be interrupted once in a while, as when an allocator gives pages back.
_MOST_STEPS_UP = 0.8


def growth(values: Sequence[float]) -> float | None:
    """Return by how much values grow from one to the next: the median of all slopes (Theil and Sen).

    One odd value in three does not change it. ``None`` below two values. Of very many every second (third, …) counts:
    all pairs of a long soak would take longer than the soak.
    """
    every = 1 + len(values) // MOST_VALUES
    counted = list(enumerate(values))[::every]
    slopes = [(later - earlier) / (j - i) for (i, earlier), (j, later) in combinations(counted, 2)]
    return statistics.median(slopes) if slopes else None


def clearly_grows(sizes: Sequence[float], peak: float | None) -> bool:
    """Whether sizes in bytes grow beyond noise.

    That is: at least :data:`FEWEST_TO_CLAIM` of them, and either each is larger than the one before and together they
    grew by more than 1 % of ``peak``, or they grow by more than 1 MiB each time and rose in four steps of five.
    """
    slope = growth(sizes)
    if len(sizes) < FEWEST_TO_CLAIM or slope is None:
        return False
    ups = [after > before for before, after in pairwise(sizes)]
    steady = all(ups) and sizes[-1] - sizes[0] > _GROWS_BY_SHARE * (peak or max(sizes))
    return steady or (slope > _GROWS_BY_BYTES and sum(ups) >= _MOST_STEPS_UP * len(ups))
