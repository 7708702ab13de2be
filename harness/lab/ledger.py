"""Exactly once: who has which cell, which are done, and whether a record that comes in may be kept. Pure.

A cell belongs to at most one order at a time. A host that was given up loses its cells; what it still sends of a cell
that was given to somebody else, or has its final record, is dropped, and so is what was kept before.
"""

from __future__ import annotations

from collections.abc import Iterable

from harness.store.schema import CellRecord

# What tells an attempt from every other one of its cell, whoever numbers them.
Mark = tuple[str, str, str, float]

ALREADY = "it is there already"


def mark_of(record: CellRecord, cell_id: str | None = None) -> Mark:
    """Return an attempt's mark; ``cell_id``: the cell it counts for, where that is another phone's."""
    return cell_id or record.cell_id, record.phone.id, record.started, record.elapsed_s


class Ledger:
    """Books of one run. Begins with the records that its folder holds."""

    def __init__(self, records: Iterable[CellRecord] = ()) -> None:
        self._marks: set[Mark] = set()
        self._final: set[str] = set()
        self._attempts: dict[str, int] = {}
        self._owner: dict[str, str] = {}
        for record in records:
            self.keep(record)

    def give(self, order_id: str, cell_ids: Iterable[str]) -> None:
        """Note that these cells are an order's now.

        Raises:
            ValueError: one is done, or another order's.
        """
        cells = list(cell_ids)
        for cell_id in cells:
            if cell_id in self._final or cell_id in self._owner:
                raise ValueError(f"cell {cell_id[:12]} cannot be given to {order_id}: it is done, or another's")
        self._owner.update(dict.fromkeys(cells, order_id))

    def why_not(self, order_id: str, cell_id: str, record: CellRecord) -> str:
        """Return why a record must not be kept, ``""`` if it may: its cell is the order's, or nobody's."""
        if mark_of(record, cell_id) in self._marks:
            return ALREADY
        if cell_id in self._final:
            return "its cell is done"
        if self._owner.get(cell_id, order_id) != order_id:
            return "its cell was given to another phone meanwhile"
        return ""

    def number(self, cell_id: str) -> int:
        """Return the number of a cell's next attempt."""
        return 1 + self._attempts.get(cell_id, 0)

    def keep(self, record: CellRecord) -> None:
        """Note a record that is in the run folder now; its cell is nobody's any more."""
        self._marks.add(mark_of(record))
        self._attempts[record.cell_id] = self._attempts.get(record.cell_id, 0) + 1
        self._owner.pop(record.cell_id, None)
        if record.final:
            self._final.add(record.cell_id)

    def take_back(self, order_id: str) -> tuple[str, ...]:
        """Take an order's cells away that have no record of it, and return them: they can be given to others."""
        cells = tuple(cell_id for cell_id, owner in self._owner.items() if owner == order_id)
        for cell_id in cells:
            del self._owner[cell_id]
        return cells

    def is_final(self, cell_id: str) -> bool:
        """Whether a cell has its final record."""
        return cell_id in self._final
