"""The hints of a run for people: a row per phone, model and kind of processor, and a line per phone that is slow. Pure.

The fastest cell of each is held against the range: a phone is slow when its best is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.core.reasons import Verdict
from harness.report.cells import Figure, backend_label, phone_labels, threads_label, value_at
from harness.report.expectation import Expectation, expectation_figure, expectation_of
from harness.report.text import number, one_line
from harness.store.schema import CellRecord

# In a cell of the table, and in which colour.
_SHORT: Final = {
    "slower than": ("slower", "rejected"), "faster than": ("faster", "ok"), "as expected": ("as expected", "ok"),
}  # fmt: skip


@dataclass(frozen=True)
class ExpectationRow:
    """One row of the table. ``verdict`` is empty where nothing is known, ``hint`` then holds why."""

    phone: str
    model: str
    how: str
    measured: str
    low_high: str
    verdict: str
    badge: str
    hint: Figure
    sources: tuple[str, ...]

    @property
    def remarkable(self) -> bool:
        """Whether it is slower or faster than expected."""
        return self.verdict in ("slower", "faster")


def expectation_rows(records: Sequence[CellRecord], labels: Mapping[str, str]) -> tuple[ExpectationRow, ...]:
    """Return the rows of a run, slow ones first; ``labels`` are the names of its phones."""
    rows = [(_order(found), _row(record, found, labels)) for record, found in _fastest(records)]
    return tuple(row for _, row in sorted(rows, key=lambda pair: pair[0]))


def slow_lines(records: Sequence[CellRecord]) -> list[str]:
    """Return a line for each phone that is clearly slower than expected, of its slowest model."""
    labels = phone_labels(records)
    worst: dict[str, tuple[CellRecord, Expectation]] = {}
    for record, found in _fastest(records):
        if found is None or found.says != "slower than":
            continue
        before = worst.get(record.phone.id)
        if before is None or _share(found) < _share(before[1]):
            worst[record.phone.id] = (record, found)
    return [
        f"slower than expected: {labels[phone_id]}: {number(found.measured_tps)} tok/s of "
        f"{one_line(record.model.name)} ({_how(record)}), not the {found.span}; a hint, see report.html"
        for phone_id, (record, found) in worst.items()
    ]


def _fastest(records: Sequence[CellRecord]) -> list[tuple[CellRecord, Expectation | None]]:
    """Return of each phone, model and kind of processor the fastest cell that is judged, else the fastest."""
    best: dict[tuple[str, str, bool], tuple[tuple[bool, float], CellRecord, Expectation | None]] = {}
    for record in records:
        tps = value_at(record, "metrics", "decode_tps.median")
        if record.verdict is not Verdict.OK or tps is None:
            continue
        found = expectation_of(record)
        key, rank = (record.phone.id, record.model.hash, record.config.backend == "cpu"), (found is not None, tps)
        if key not in best or rank > best[key][0]:
            best[key] = (rank, record, found)
    return [(record, found) for _, record, found in best.values()]


def _share(found: Expectation) -> float:
    return found.measured_tps / found.low_tps


def _order(found: Expectation | None) -> tuple[int, float]:
    if found is None:
        return 3, 0.0
    return ("slower than", "faster than", "as expected").index(found.says), _share(found)


def _row(record: CellRecord, found: Expectation | None, labels: Mapping[str, str]) -> ExpectationRow:
    verdict, badge = ("", "") if found is None else _SHORT[found.says]
    return ExpectationRow(
        phone=labels[record.phone.id],
        model=one_line(record.model.name),
        how=_how(record),
        measured=number(value_at(record, "metrics", "decode_tps.median")),
        low_high="" if found is None else f"{number(found.low_tps)} to {number(found.high_tps)}",
        verdict=verdict,
        badge=badge,
        hint=expectation_figure(record),
        sources=() if found is None else found.sources,
    )


def _how(record: CellRecord) -> str:
    if record.config.backend != "cpu":
        return backend_label(record)
    return f"{backend_label(record)}, {threads_label(record)}"
