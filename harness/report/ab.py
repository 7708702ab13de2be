"""Two builds that took turns on one phone (``--ab``): which records belong together, and what B changed. Pure.

A turn is a whole attempt of a cell, with its own process, load and warm-up; its median is one value. So the spread of
turns holds what repeats within a cell cannot show: how a cell as a whole differs from the next of the same build.

The logarithms of the turns' values are fitted by a constant, the build and a drift (a line; from two rounds on a
parabola): ordinary least squares. In the order A B B A, B A A B what drifts so weighs on both builds alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.report.change import DEFAULT_BOUND, Change, judge, rounding_variance
from harness.store.schema import CellRecord

_TURNS_A_ROUND: Final = 4
_BENT_FROM: Final = 2 * _TURNS_A_ROUND


@dataclass(frozen=True)
class Pair:
    """One cell of the plan on one phone, run by both builds: the records of its latest turns, in their order."""

    key: str
    records: tuple[CellRecord, ...]

    @property
    def done(self) -> bool:
        """Whether all turns have their record, and none is to be done again."""
        turns = [record.ab.block for record in self.records if record.ab is not None]
        wanted = self.records[0].ab.blocks if self.records[0].ab is not None else 0
        return turns == list(range(wanted)) and all(record.final for record in self.records)

    def of(self, arm: str) -> tuple[CellRecord, ...]:
        """Return the turns of ``A`` or ``B``."""
        return tuple(record for record in self.records if record.ab is not None and record.ab.arm == arm)


def pairs_of(records: Iterable[CellRecord]) -> tuple[Pair, ...]:
    """Return the cells that two builds ran by turns, from all attempts in the order written.

    Turns are only ever done again all together, from the first: each first turn begins anew.
    """
    found: dict[str, list[CellRecord]] = {}
    for record in records:
        if record.ab is None:
            continue
        turns = found.setdefault(record.ab.pair, [])
        if record.ab.block == 0:
            turns.clear()
        turns.append(record)
    return tuple(Pair(key, tuple(turns)) for key, turns in found.items())


def change_of_turns(
    arms: Sequence[str],
    values: Sequence[float | None],
    *,
    bound: float = DEFAULT_BOUND,
    higher_is_better: bool = True,
) -> Change:
    """Return what B changed against A, with what drifted taken out.

    Args:
        arms: ``A`` or ``B`` for each turn, in the order in which they were run.
        values: the figure of each turn; ``None`` where it has none.
        bound: a change by less than this share is no change for anybody.
        higher_is_better: speeds; ``False`` for times and sizes.
    """
    known = [
        (float(turn), arm, float(value))
        for turn, (arm, value) in enumerate(zip(arms, values, strict=True))
        if value is not None and 0 < value < math.inf
    ]
    fewest = min(sum(arm == which for _, arm, _ in known) for which in ("A", "B"))
    middle = (len(arms) - 1) / 2
    moments = np.array([(turn - middle) / max(middle, 1) for turn, _, _ in known])
    columns = [np.ones(len(known)), np.array([float(arm == "B") for _, arm, _ in known]), moments]
    if len(arms) >= _BENT_FROM:
        columns.append(moments**2)
    design = np.stack(columns, axis=1) if known else np.zeros((0, len(columns)))
    degrees = len(known) - design.shape[1]
    if degrees < 1 or np.linalg.matrix_rank(design) < design.shape[1]:
        return Change("cannot tell", None, None, 2, "too few turns have a figure")
    logs = np.log([value for _, _, value in known])
    fitted, *_ = np.linalg.lstsq(design, logs, rcond=None)
    residual = float(np.sum((logs - design @ fitted) ** 2)) / degrees
    weight = float(np.linalg.inv(design.T @ design)[1, 1])
    rounding = rounding_variance([value for _, _, value in known])
    change = judge(
        float(fitted[1]), [(residual * weight + 2 * rounding, degrees)], bound, higher_is_better, fewest=fewest
    )
    if change.more_repeats is None:
        return change
    # A round has two turns of each build.
    more = 2 * math.ceil(change.more_repeats / 2)
    return Change(change.verdict, change.ratio, change.ci95, more, "the turns differ too much from one to another")
