"""The model picker: phones × configurations, each field the best proven decode speed there, or why there is none. Pure.

A configuration is model, backend, precision and memory mode; of its thread counts the fastest is shown. All fields are
of cells of one shape (prompt, generated and context tokens), the one that most cells have: others cannot be compared.
Models that are no language models have a table of their own (:mod:`harness.report.variants`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.core.reasons import Verdict
from harness.report.cells import VERDICTS, lengths_label, numerics_label, threads_label
from harness.report.tensors import is_tensor
from harness.report.text import backend_name, number, one_line
from harness.store.schema import CellRecord

LEVELS: Final = 5
"""How many shades there are; 1 is the lightest."""
# From one shade to the next, down from the fastest of a model on any phone.
_STEPS: Final = (0.8, 0.55, 0.35, 0.18)

_Configuration = tuple[str, str, str, str]
_Shape = tuple[str, int, int, int]


@dataclass(frozen=True)
class Column:
    """One configuration; columns of one model stand side by side."""

    model: str
    backend: str
    numerics: str


@dataclass(frozen=True)
class Field:
    """One phone with one configuration.

    ``level`` is the shade of a proven speed, 0 where there is none: ``below`` then is the reason's code. ``best`` marks
    the fastest of the phone for that model. ``cell`` is the cell's id as links name it.
    """

    text: str
    below: str
    level: int
    verdict: str
    title: str
    cell: str
    best: bool = False


@dataclass(frozen=True)
class Row:
    """One phone; ``None`` where no cell has that configuration."""

    phone: str
    fields: tuple[Field | None, ...]


@dataclass(frozen=True)
class Picker:
    """The whole table; ``shape`` says of which cells, ``others`` how many are of other shapes."""

    models: tuple[tuple[str, int], ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    shape: str
    others: int


def picker(records: Sequence[CellRecord], labels: Mapping[str, str], ids: Sequence[str]) -> Picker:
    """Return the table; ``ids`` are the cells' ids as links name them, in the order of ``records``."""
    shape = _commonest([_shape(record) for record in records if not is_tensor(record)])
    groups: dict[tuple[str, _Configuration], tuple[CellRecord, str]] = {}
    others = 0
    for record, cell in zip(records, ids, strict=True):
        if _shape(record) != shape:
            others += not is_tensor(record)
            continue
        key = (record.phone.id, _configuration(record))
        seen = groups.get(key)
        if seen is None or _rank(record) > _rank(seen[0]):
            groups[key] = (record, cell)
    columns = sorted({configuration for _, configuration in groups})
    fastest: dict[str, float] = {}
    best: dict[tuple[str, str], float] = {}
    for (phone, configuration), (record, _) in groups.items():
        tps, model = _proven(record) or 0.0, configuration[0]
        fastest[model] = max(fastest.get(model, 0.0), tps)
        best[phone, model] = max(best.get((phone, model), 0.0), tps)

    def field(phone: str, column: _Configuration) -> Field | None:
        found = groups.get((phone, column))
        return _field(*found, fastest[column[0]], best[phone, column[0]]) if found else None

    rows = tuple(Row(label, tuple(field(phone, column) for column in columns)) for phone, label in labels.items())
    return Picker(
        models=tuple(Counter(one_line(column[0]) for column in columns).items()),
        columns=tuple(Column(one_line(model), backend, numerics) for model, _, backend, numerics in columns),
        rows=rows,
        shape="" if shape is None else _in_words(shape),
        others=others,
    )


def _configuration(record: CellRecord) -> _Configuration:
    return (record.model.name, record.model.hash, backend_name(record.config.backend), numerics_label(record))


def _shape(record: CellRecord) -> _Shape:
    config = record.config
    return (config.kind, config.prompt_tokens, config.generate_tokens, config.context_tokens)


def _commonest(shapes: Sequence[_Shape]) -> _Shape | None:
    return Counter(shapes).most_common(1)[0][0] if shapes else None


def _in_words(shape: _Shape) -> str:
    kind, prompt, generate, context = shape
    return f"{kind}, {prompt} → {generate} tokens" + (f" after {context}" if context else "")


def _proven(record: CellRecord) -> float | None:
    """Return the decode speed of an ``ok`` cell."""
    if record.verdict is not Verdict.OK or record.metrics is None or record.metrics.decode_tps is None:
        return None
    return record.metrics.decode_tps.median


def _rank(record: CellRecord) -> tuple[float, int]:
    """Proven speeds first; among the others what was tried tells more than what was not."""
    return _proven(record) or 0.0, -VERDICTS.index(record.verdict)


def _field(record: CellRecord, cell: str, fastest: float, best: float) -> Field:
    tps = _proven(record)
    threads = threads_label(record)
    if tps is None:
        title = f"{record.verdict.value}: {record.why.says if record.why else ''}"
        return Field("—", record.reason or "", 0, record.verdict.value, title, cell)
    level = LEVELS - sum(tps < step * fastest for step in _STEPS)
    title = f"{number(tps)} tok/s with {threads}, {lengths_label(record)} tokens"
    return Field(number(tps), threads, level, record.verdict.value, title, cell, best=tps >= best)
