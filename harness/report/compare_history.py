"""How far runs lie apart that nothing changed between: what no repeats within a cell can show. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from harness.core.reasons import Verdict
from harness.report.compare_figures import MEASURES, Measure
from harness.report.compare_match import measured_of
from harness.store.schema import CellRecord

# From fewer comparisons a spread is a guess.
_LEAST_DEGREES: Final = 3


def between_of(runs: Sequence[Iterable[CellRecord]]) -> dict[str, float]:
    """Return, by a figure's name, the spread of a cell's figure between runs (standard deviation ÷ mean).

    The same cell, of the same build, has to be ``ok`` in several of ``runs``; all cells are pooled. What repeats within
    a run explain is taken off. Figures that too little is known of are not there.
    """
    cells: dict[str, list[CellRecord]] = defaultdict(list)
    for run in runs:
        for each in measured_of(run):
            if each.record.verdict is Verdict.OK:
                cells[each.record.cell_id].append(each.record)
    known = ((measure.name, _between(measure, cells.values())) for measure in MEASURES)
    return {name: cv for name, cv in known if cv is not None}


def _between(measure: Measure, cells: Iterable[Sequence[CellRecord]]) -> float | None:
    squares = within = 0.0
    degrees = 0
    for records in cells:
        pairs = [(math.log(value), record) for record in records if (value := measure.one(record))]
        if len(pairs) < 2:
            continue
        logs = [log for log, _ in pairs]
        middle = math.fsum(logs) / len(logs)
        squares += math.fsum((log - middle) ** 2 for log in logs)
        degrees += len(logs) - 1
        within += (len(logs) - 1) * math.fsum(_within(measure, record) for _, record in pairs) / len(pairs)
    if degrees < _LEAST_DEGREES:
        return None
    return math.sqrt(max(0.0, squares - within) / degrees)


def _within(measure: Measure, record: CellRecord) -> float:
    """Return the variance, in logarithms, that a run's figure has by its own repeats."""
    values = measure.repeats(record) if measure.repeats is not None else []
    logs = [math.log(value) for value in values if value]
    if len(logs) < 2:
        return 0.0
    middle = math.fsum(logs) / len(logs)
    return math.fsum((log - middle) ** 2 for log in logs) / (len(logs) - 1) / len(logs)
