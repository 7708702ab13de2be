"""How a record's cell is named for people, and where an unknown value's reason lies. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.core.ids import test_name
from harness.core.reasons import Verdict
from harness.report.text import backend_name, one_line, plural
from harness.store.schema import CellRecord

NO_REASON: Final = "no reason was recorded"

VERDICTS: Final = (Verdict.OK, Verdict.REJECTED, Verdict.FAILED, Verdict.UNSUPPORTED, Verdict.SKIPPED)


@dataclass(frozen=True)
class Figure:
    """One value of a table. ``why`` is set when it is unknown, ``note`` is then the number of its footnote.

    ``spread`` stands beside it, ``below`` on a line of its own.
    """

    text: str
    spread: str = ""
    below: str = ""
    title: str = ""
    why: str | None = None
    note: int | None = None


@dataclass
class Notes:
    """The footnotes of one table: a number per reason, and the fields that it is the reason of."""

    fields_by_why: dict[str, list[str]] = field(default_factory=dict)

    def unknown(self, what: str, why: str) -> Figure:
        """Return a dash whose footnote says ``why``."""
        fields = self.fields_by_why.setdefault(why, [])
        if what not in fields:
            fields.append(what)
        return Figure("—", why=why, note=list(self.fields_by_why).index(why) + 1)


def value_at(record: CellRecord, section: str, path: str) -> Any:
    """Return the value at ``path`` below ``section``, or ``None`` when it or what holds it is unknown."""
    value: Any = getattr(record, section)
    for name in path.split("."):
        if value is None:
            return None
        value = getattr(value, name)
    return value


def why_unknown(record: CellRecord, section: str, path: str) -> str:
    """Return the reason recorded for an unknown value: its own, else that of what holds it."""
    parts = path.split(".")
    keys = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    for key in (*keys, section):
        if record.nulls.get(key):
            return record.nulls[key]
    return NO_REASON


def backend_label(record: CellRecord) -> str:
    """Return the backend asked for, and the one that ran where that was another: ``OpenCL → CPU``."""
    asked = backend_name(record.config.backend)
    ran = record.backend.actual if record.backend else None
    return asked if ran is None or ran == record.config.backend else f"{asked} → {backend_name(ran)}"


def threads_label(record: CellRecord) -> str:
    """Return e.g. ``4 threads``; for a GPU MNN's thread number is a mode mask, e.g. ``mode 68``."""
    if record.config.backend != "cpu":
        return f"mode {record.config.threads}"
    return plural(record.config.threads, "thread")


def numerics_label(record: CellRecord) -> str:
    """Return precision and memory mode, e.g. ``low / low``."""
    return f"{record.config.precision} / {record.config.memory}"


def lengths_label(record: CellRecord) -> str:
    """Return prompt and generated tokens, e.g. ``64 → 32``; ``""`` of a tensor cell, which has none."""
    if record.config.kind == "tensor":
        return ""
    return f"{record.config.prompt_tokens} → {record.config.generate_tokens}"


def extras(record: CellRecord) -> list[str]:
    """Return what else sets this cell apart: kind, context, affinity, engine keys, a phone it was moved from.

    Of a tensor cell that is how its weights are stored, too.
    """
    config = record.config
    found: list[str] = [] if config.kind == "burst" else [config.kind]
    if config.kind == "tensor" and record.model.stored:
        found.append(f"{one_line(record.model.stored)} weights")
    if config.context_tokens:
        found.append(f"context {config.context_tokens}")
    if config.affinity:
        found.append(f"affinity {config.affinity}")
    found += [f"{key} = {json.dumps(value)}" for key, value in sorted(config.engine.items())]
    if record.planned_phone:
        found.append(f"planned for {record.planned_phone}")
    if record.attempt > 1:
        found.append(f"attempt {record.attempt}")
    return found


def cell_label(record: CellRecord) -> str:
    """Return a cell's name within its phone, on one line."""
    parts = (
        record.model.name,
        backend_label(record),
        threads_label(record),
        numerics_label(record),
        lengths_label(record),
        *extras(record),
    )
    return one_line(" · ".join(part for part in parts if part))


def pytest_id(record: CellRecord) -> str:
    """Return the pytest id of a cell, as the interfaces page fixes it."""
    config = record.config
    name = test_name(
        record.phone.name,
        record.model.name,
        config.backend,
        config.threads,
        config.precision,
        config.prompt_tokens,
        config.generate_tokens,
        record.cell_id,
    )
    return one_line(f"test_generation[{name}]")


def phone_labels(records: Iterable[CellRecord]) -> dict[str, str]:
    """Return the name of each phone by its id; equal names are told apart by serial."""
    phones = {record.phone.id: record.phone for record in records}
    names = [phone.name for phone in phones.values()]
    return {
        key: one_line(phone.name if names.count(phone.name) == 1 else f"{phone.name} ({phone.serial})")
        for key, phone in phones.items()
    }


def by_phone(records: Sequence[CellRecord]) -> dict[str, list[CellRecord]]:
    """Group records by phone id, phones in order of first appearance."""
    groups: dict[str, list[CellRecord]] = {}
    for record in records:
        groups.setdefault(record.phone.id, []).append(record)
    return groups


def of_verdict(records: Iterable[CellRecord], *verdicts: Verdict) -> list[CellRecord]:
    """Return the records with one of ``verdicts``."""
    return [record for record in records if record.verdict in verdicts]
