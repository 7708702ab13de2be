"""Cells that differ in one thing only, so that they can be laid side by side. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from harness.core.reasons import Verdict
from harness.report.cells import backend_label, extras, lengths_label, numerics_label, value_at
from harness.report.text import one_line
from harness.store.schema import CellRecord

# What a cell without an interval is granted, up and down; shares of its speed.
ASSUMED_SPREAD: Final = 0.05


def sweeps_of(records: Sequence[CellRecord], field: str) -> list[list[CellRecord]]:
    """Return the ``ok`` cells with a decode speed, grouped by all but ``field`` of their configuration.

    Each group has two different values of it at least and is in the order of these values.
    """
    if len({getattr(record.config, field) for record in records}) < 2:
        return []
    groups: dict[tuple[Any, ...], dict[int, CellRecord]] = {}
    for record in records:
        if record.verdict is Verdict.OK and value_at(record, "metrics", "decode_tps") is not None:
            config = tuple(
                json.dumps(value, sort_keys=True) if isinstance(value, dict) else value
                for name, value in vars(record.config).items()
                if name != field
            )
            same = (record.phone.id, record.model.hash, record.bundle.hash, record.bundle.runner, *config)
            groups.setdefault(same, {})[getattr(record.config, field)] = record
    return [[cell for _, cell in sorted(group.items())] for group in groups.values() if len(group) > 1]


def label_of(record: CellRecord, *, without: str) -> str:
    """Return what a group of cells has in common; ``without`` begins the word about what they differ in."""
    also = [extra for extra in extras(record) if not extra.startswith((without, "attempt"))]
    parts = (record.model.name, backend_label(record), numerics_label(record), lengths_label(record), *also)
    return one_line(" · ".join(parts))


def speed_of(record: CellRecord) -> tuple[float, float, float]:
    """Return the decode speed in tok/s, and the ends of its interval."""
    speed = value_at(record, "metrics", "decode_tps")
    if speed.ci95 is not None:
        return speed.median, speed.ci95[0], speed.ci95[1]
    return speed.median, speed.median * (1 - ASSUMED_SPREAD), speed.median * (1 + ASSUMED_SPREAD)
