"""What may be done in a run folder that was begun before, and what is left to do there. Pure.

A run is one plan, one set of models and one bundle: what would put other figures under the same names is refused.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.errors import ConfigError
from harness.core.reasons import Fault, Reason, Verdict
from harness.store.head import RunInfo, Source
from harness.store.schema import CellRecord

_KNOWN: dict[str, tuple[str, ...]] = {
    "reason": tuple(reason.code for reason in Reason),
    "verdict": tuple(verdict.value for verdict in Verdict),
    "fault": tuple(fault.value for fault in Fault),
}
_SHORT_HASH = 12
_LONGEST_VALUE = 80
_WAY_OUT = "or begin a new run folder"


@dataclass(frozen=True)
class Choice:
    """Cells to do again: those whose record has one of the ``wanted`` (key, value) pairs."""

    wanted: frozenset[tuple[str, str]] = frozenset()

    @staticmethod
    def parse(words: Iterable[str]) -> Choice:
        """Read the values of ``--rerun``: ``reason=noisy,hot_start``, ``verdict=failed``, ``fault=infra``.

        Raises:
            ConfigError: an unknown key or name; the message lists those that are known.
        """
        wanted: set[tuple[str, str]] = set()
        for word in words:
            key, equals, values = word.partition("=")
            if not equals or key.strip() not in _KNOWN:
                raise ConfigError(
                    f"--rerun {word}: say which with {', '.join(f'{known}=…' for known in _KNOWN)}",
                    remedy="e.g. --rerun reason=noisy,hot_start",
                )
            known = _KNOWN[key.strip()]
            names = [name.strip() for name in values.split(",") if name.strip()]
            if not names:
                raise ConfigError(f"--rerun {word}: it names no {key.strip()}", remedy=f"known: {', '.join(known)}")
            for name in names:
                if name not in known:
                    near = difflib.get_close_matches(name, known, n=1)
                    hint = f"did you mean {near[0]}? " if near else ""
                    raise ConfigError(
                        f"--rerun {word}: there is no {key.strip()} {name!r}", remedy=f"{hint}known: {', '.join(known)}"
                    )
                wanted.add((key.strip(), name))
        return Choice(frozenset(wanted))

    def picks(self, record: CellRecord) -> bool:
        """Whether a cell with this record is to be done again."""
        fault = record.fault.value if record.fault is not None else None
        of_record = {("reason", record.reason), ("verdict", record.verdict.value), ("fault", fault)}
        return not self.wanted.isdisjoint(of_record)


NOTHING = Choice()


def is_left(record: CellRecord | None, *, unfinished: bool, chosen: Choice = NOTHING) -> bool:
    """Whether a cell with this record (``None``: it has none) is to be done.

    ``unfinished`` stands for ``--resume``: whatever has no final record. ``chosen`` is what ``--rerun`` picks.
    """
    if record is not None and chosen.picks(record):
        return True
    return unfinished and (record is None or not record.final)


def check_same(
    head: RunInfo,
    records: Sequence[CellRecord],
    plan: Mapping[str, Any],
    models: Mapping[str, Source],
    bundle: Source,
) -> None:
    """Refuse what would not be the run that ``head`` began; ``plan`` is as ``head`` holds it, in JSON form.

    Models are known by what is in them: the same files under another name or in another place are the same model.

    Raises:
        ConfigError: the plan, a model or the bundle differs; the message names both values and what to do.
    """
    was = {name: source.hash for name, source in head.models.items()}
    now = {name: source.hash for name, source in models.items()}
    same_models = bool(was) and sorted(was.values()) == sorted(now.values())
    apart = plan_differences(head.plan, plan, but=("models",) if same_models else ())
    if apart:
        raise ConfigError(
            f"the plan differs from the run's: {'; '.join(apart)}",
            remedy=f"leave out --plan and what overrides it, {_WAY_OUT}",
        )
    if not same_models:
        of_records = {record.model.name: record.model.hash for record in records}
        for name, source in models.items():
            _check_hash(f"model {source.name}", was.get(name, of_records.get(source.name)), source)
    of_records = {record.bundle.name: record.bundle.hash for record in records}
    hash_then = head.bundle.hash if head.bundle is not None else next(iter(of_records.values()), None)
    _check_hash(f"bundle {bundle.name}", hash_then, bundle)


def check_build(then: Source, now: Source) -> None:
    """Refuse another build in the place of the second of a run with ``--ab``.

    Raises:
        ConfigError: its content differs.
    """
    _check_hash(f"bundle {now.name}", then.hash, now)


def _check_hash(what: str, then: str | None, now: Source) -> None:
    if then is not None and then != now.hash:
        raise ConfigError(
            f"{what} is not what this run was begun with: its content was {then[:_SHORT_HASH]} "
            f"and is {now.hash[:_SHORT_HASH]} ({now.folder})",
            remedy=f"bring the old files back, {_WAY_OUT}",
        )


def plan_differences(was: Mapping[str, Any], now: Mapping[str, Any], but: Sequence[str] = ()) -> list[str]:
    """Return what differs between two plans in JSON form, e.g. ``threads was [1, 2] and is [1]``."""
    flat_was, flat_now = _flat(was), _flat(now)
    return [
        f"{key} was {_shown(flat_was.get(key))} and is {_shown(flat_now.get(key))}"
        for key in dict.fromkeys((*flat_was, *flat_now))
        if key not in but and flat_was.get(key) != flat_now.get(key)
    ]


def _flat(plan: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return the plan with its tables' keys as ``table.key``; an absent table and an empty one are alike."""
    flat: dict[str, Any] = {}
    for key, value in plan.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{path}{key}."))
        else:
            flat[f"{path}{key}"] = value
    return flat


def _shown(value: Any) -> str:
    text = "not there" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def check_known(head: RunInfo, records: Iterable[CellRecord], known_ids: Iterable[str], version: str) -> None:
    """Refuse a folder whose cells have other ids in this version: they would all be done, and counted, twice.

    Raises:
        ConfigError: a record is of a cell that this version does not find in the run's plan.
    """
    known = frozenset(known_ids)
    strange = [record for record in records if record.cell_id not in known]
    if strange:
        raise ConfigError(
            f"this run has records of cells ({len(strange)}) that mnn-farm {version} does not find in its plan; "
            f"it was begun by {head.harness_version}",
            remedy=f"finish it with the version that began it, {_WAY_OUT}",
        )
