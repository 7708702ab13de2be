"""Which cells of two runs are the same cell, and which are not and why. Pure, and linear in the cells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.core.reasons import Fault
from harness.report.ab import pairs_of
from harness.report.text import one_line
from harness.store.schema import CellConfig, CellRecord

_SHORT_HASH: Final = 8


@dataclass(frozen=True)
class Measured:
    """A cell of a run: the record that says how it ended, and those that its figures come from."""

    record: CellRecord
    records: tuple[CellRecord, ...]


@dataclass(frozen=True)
class Match:
    """The same cell in both runs. ``differs`` says what else is not the same, ``marks`` what weakens the comparison."""

    base: Measured
    new: Measured
    differs: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unmatched:
    """A cell of one run (``side`` is ``base`` or ``new``) that is not compared, and why."""

    side: str
    record: CellRecord
    why: str


def measured_of(records: Iterable[CellRecord]) -> list[Measured]:
    """Return the cells of a run from its attempts in the order written.

    Of a cell that was run by turns (``--ab``) all its latest turns count; one that the product failed decides.
    """
    attempts = list(records)
    by_cell: dict[str, CellRecord] = {}
    turns: dict[str, list[CellRecord]] = defaultdict(list)
    for pair in pairs_of(attempts):
        for record in pair.records:
            turns[record.cell_id].append(record)
    for record in attempts:
        before = by_cell.get(record.cell_id)
        if before is None or record.verdict.value != "skipped" or before.verdict.value == "skipped":
            by_cell[record.cell_id] = record
    found = []
    for cell_id, record in by_cell.items():
        its = turns.get(cell_id)
        if its is None:
            found.append(Measured(record, (record,)))
            continue
        ok = tuple(turn for turn in its if turn.fault is None)
        broken = next((turn for turn in its if turn.fault is Fault.PRODUCT), None)
        found.append(Measured(broken or (ok or its)[-1], ok or tuple(its)))
    return found


def match(
    base: Sequence[Measured], new: Sequence[Measured], *, across: bool = False
) -> tuple[list[Match], list[Unmatched]]:
    """Return the cells that are in both runs, in the order of ``new``, and those that are not compared.

    The same cell has the same id; or, with another build, the same phone, context, model, runner and settings.
    ``across``: another phone of the same model will do.
    """
    left = {each.record.cell_id: each for each in base}
    matches: list[Match] = []
    waiting: list[Measured] = []
    for each in new:
        same = left.pop(each.record.cell_id, None)
        if same is None:
            waiting.append(each)
        else:
            matches.append(Match(same, each, _differences(same.record, each.record)))
    keys = [_same_phone, _same_phone_model] if across else [_same_phone]
    several: dict[str, int] = {}
    for key in keys:
        there: dict[Hashable, list[Measured]] = defaultdict(list)
        wanted: dict[Hashable, list[Measured]] = defaultdict(list)
        for each in left.values():
            there[key(each.record)].append(each)
        for each in waiting:
            wanted[key(each.record)].append(each)
        waiting = []
        for place, ours in wanted.items():
            theirs = there.get(place, [])
            if len(ours) == len(theirs) == 1:
                del left[theirs[0].record.cell_id]
                matches.append(_as_match(theirs[0], ours[0]))
                continue
            waiting += ours
            for each in ours if len(theirs) > 1 or (theirs and len(ours) > 1) else ():
                several[each.record.cell_id] = max(len(theirs), len(ours))
    order = {each.record.cell_id: place for place, each in enumerate(new)}
    matches.sort(key=lambda one: order[one.new.record.cell_id])
    near = _Near(each.record for each in base)
    unmatched = [
        Unmatched("new", each.record, _several(several.get(each.record.cell_id)) or near.why(each.record, across))
        for each in waiting
    ]
    missing = _Near(each.record for each in new)
    unmatched += [
        Unmatched("base", each.record, missing.why(each.record, across, "in the new run")) for each in left.values()
    ]
    return matches, unmatched


def _several(count: int | None) -> str:
    return f"{count} cells of a run could be it: they differ in build or phone alone" if count else ""


def _settings(config: CellConfig) -> Hashable:
    """Return what has to be the same of the settings: all but how often it was repeated."""
    values = config.model_dump(exclude={"repeats"})
    return tuple((key, _frozen(value)) for key, value in sorted(values.items()))


def _frozen(value: Any) -> Hashable:
    return tuple(sorted(value.items())) if isinstance(value, dict) else value


def _same_phone(record: CellRecord) -> Hashable:
    return record.phone.id, record.phone.context, record.model.hash, record.bundle.runner, _settings(record.config)


def _same_phone_model(record: CellRecord) -> Hashable:
    phone = record.phone
    place = phone.model or phone.id
    return place, phone.context, record.model.hash, record.bundle.runner, _settings(record.config)


def _as_match(base: Measured, new: Measured) -> Match:
    marks: tuple[str, ...] = ()
    if base.record.phone.id != new.record.phone.id:
        names = (one_line(side.record.phone.name) for side in (base, new))
        marks = (f"another phone of the same model ({' → '.join(names)})",)
    return Match(base, new, _differences(base.record, new.record), marks)


def _differences(base: CellRecord, new: CellRecord) -> tuple[str, ...]:
    """Say what else is not the same, e.g. ``build mnn-3.5 (1a2b3c4d) → mnn-3.6 (5e6f7a8b)``."""
    pairs: list[tuple[str, Any, Any]] = [
        ("build", _build(base), _build(new)),
        ("engine version", base.bundle.engine_version, new.bundle.engine_version),
        ("repeats", base.config.repeats, new.config.repeats),
        ("harness", base.harness_version, new.harness_version),
    ]
    if base.phone.id == new.phone.id:
        pairs += [
            ("Android build", base.phone.fingerprint, new.phone.fingerprint),
            ("GPU driver", base.phone.driver, new.phone.driver),
        ]
    return tuple(
        one_line(f"{what} {then} → {now}") for what, then, now in pairs if then != now and None not in (then, now)
    )


def _build(record: CellRecord) -> str:
    return f"{record.bundle.name} ({record.bundle.hash[:_SHORT_HASH]})"


class _Near:
    """The cells of the other run, to say what is nearest to one that is not among them."""

    def __init__(self, records: Iterable[CellRecord]) -> None:
        self._models: set[str] = set()
        self._phones: dict[str, dict[str, set[str]]] = {}
        self._settings: dict[tuple[str, str], CellRecord] = {}
        self._cells: dict[tuple[str, str, Hashable], CellRecord] = {}
        self._phone_models: set[str | None] = set()
        for record in records:
            models = self._phones.setdefault(record.phone.id, {})
            models.setdefault(record.model.name, set()).add(record.model.hash)
            self._settings.setdefault((record.phone.id, record.model.hash), record)
            self._cells.setdefault((record.phone.id, record.model.hash, _settings(record.config)), record)
            self._phone_models.add(record.phone.model)

    def why(self, record: CellRecord, across: bool, where: str = "in the base run") -> str:
        """Say why there is no such cell there."""
        models = self._phones.get(record.phone.id)
        if models is None:
            if record.phone.model in self._phone_models and record.phone.model is not None:
                hint = "" if across else "; --across compares them"
                return f"another phone of this model was measured {where}{hint}"
            return f"this phone was not measured {where}"
        hashes = models.get(record.model.name, set())
        if record.model.hash not in {one for each in models.values() for one in each}:
            if hashes:
                then = ", ".join(sorted(one[:_SHORT_HASH] for one in hashes))
                return f"another model: only its name is the same {where}, its files are not ({then})"
            return f"this model was not measured on this phone {where}"
        same = self._cells.get((record.phone.id, record.model.hash, _settings(record.config)))
        nearest = same or self._settings[(record.phone.id, record.model.hash)]
        if nearest.phone.context != record.phone.context:
            return f"it ran as {nearest.phone.context} {where}"
        if nearest.bundle.runner != record.bundle.runner:
            return f"it was run by {one_line(nearest.bundle.runner)} {where}, which measures differently"
        apart = _settings_apart(nearest.config, record.config)
        return f"other settings {where}: {apart}" if apart else f"no such cell {where}"


def _settings_apart(there: CellConfig, here: CellConfig) -> str:
    """Return how the settings of the nearest cell differ, e.g. ``threads 4 there, 2 here``."""
    then, now = there.model_dump(exclude={"repeats"}), here.model_dump(exclude={"repeats"})
    apart = [key for key in then if then[key] != now[key]]
    words = {key: f"{key} {then[key]} there, {now[key]} here" for key in apart} | {
        "prompt_hash": "inputs" if here.kind == "tensor" else "prompt or questions"
    }
    return one_line(", ".join(words[key] for key in apart))
