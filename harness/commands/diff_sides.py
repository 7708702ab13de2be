"""From a word of ``mnn-farm diff`` to what is known of the phone or the cell that it names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from harness.core.errors import ConfigError
from harness.store.head import FleetMember
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord
from harness.triage.entry import printable
from harness.triage.side import Side, of_facts, of_record

READ_S = 60.0
_MOST_NAMED = 24
_NO_HEAD = "run.json, which holds the phone's facts, is not beside results.jsonl"
_OLDER_HEAD = "the run's run.json does not tell"
_One = TypeVar("_One")


def read_side(word: str, adb: str | None = None) -> Side:
    """Return what is known of ``word``: what exists as a file is read as one, anything else is a phone that is asked.

    Args:
        word: ``RUN#CELL``, ``RUN:PHONE``, ``RUN``, ``FILE.json``, ``FILE.json:PHONE``, or a phone as ``--device``
            takes it.
        adb: servers of ``--adb``.

    Raises:
        ConfigError: nothing is called so, or several are; the error lists what is there.
        FarmError: the phone cannot be asked.
    """
    if Path(word).exists():
        return _of_path(Path(word), None)
    for mark, read in (("#", _cell), (":", _of_path)):
        place, found, rest = word.rpartition(mark)
        if found and place and Path(place).exists():
            return read(Path(place), rest)
    if "/" in word or word.endswith((".json", ".jsonl")):
        raise ConfigError(f"{word}: no such run or file", remedy="name RUN:PHONE, RUN#CELL, a JSON of facts or a phone")
    return _asked(word, adb)


def _of_path(path: Path, phone: str | None) -> Side:
    run = _run_of(path)
    return _told(path, phone) if run is None else _member(run, phone)


def _run_of(path: Path) -> RunFolder | None:
    """Return the run that a folder, its ``results.jsonl`` or its ``run.json`` is of; ``None`` for any other file."""
    if path.is_dir():
        return RunFolder(path)
    return RunFolder(path.parent) if path.name in ("results.jsonl", "run.json") else None


def _member(run: RunFolder, phone: str | None) -> Side:
    members = RunFolder.open(run.path).read_info().fleet
    names: Callable[[FleetMember], set[str]] = lambda one: {one.phone.name, one.phone.serial, one.phone.id}  # noqa: E731
    member = _only(members, names, phone, f"{run.path}", lambda one: f"{one.phone.name} ({one.phone.serial})")
    side = of_facts(member.phone.name, {"tier": member.phone.tier, **member.facts}, member.nulls)
    return replace(side, missing=_OLDER_HEAD)


def _cell(path: Path, cell: str) -> Side:
    """Return the attempt that counts of the cell whose id begins with ``cell``."""
    run = _run_of(path)
    if run is None or not run.results.is_file():
        raise ConfigError(f"{path} has no results.jsonl", remedy="name a run folder before the #")
    records = run.latest()
    found = [record for record in records if record.cell_id.startswith(cell)]
    if len(found) != 1:
        said = f"{len(found)} cells begin with {cell!r}" if found else f"no cell begins with {cell!r}"
        remedy = f"name one of these: {_listed(map(_describe, found or records))}"
        raise ConfigError(f"{run.path}: {said}", remedy=remedy)
    record = found[0]
    if not (run.path / "run.json").is_file():
        return replace(of_record(record, {}), missing=_NO_HEAD)
    fleet = {member.phone.id: member for member in run.read_info().fleet}
    member = fleet.get(record.phone.id)
    facts = {} if member is None else {"tier": record.phone.tier, **member.facts}
    side = of_record(record, facts, None if member is None else member.nulls)
    return replace(side, missing=_OLDER_HEAD)


def _describe(record: CellRecord) -> str:
    ended = record.reason or record.verdict.value
    return f"{record.cell_id[:6]} ({record.phone.name}, {record.model.name}, {record.config.backend}, {ended})"


def _told(path: Path, phone: str | None) -> Side:
    """Return a phone of a file: of ``mnn-farm devices --json``, or facts alone, or a member of ``run.json``'s fleet."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path} cannot be read as JSON ({error})", remedy="name the output of `mnn-farm devices --json`"
        ) from None
    told = document.get("phones", document) if isinstance(document, dict) else document
    phones = [one for one in (told if isinstance(told, list) else [told]) if isinstance(one, dict)]
    one = _only(
        phones, _names_of, phone, str(path), lambda one: min(_names_of(one), key=len, default="one without a name")
    )
    facts = one["facts"] if isinstance(one.get("facts"), dict) else one
    side = of_facts(phone or min(_names_of(one), key=len, default=path.name), facts, one.get("nulls"))
    if not side.values:
        raise ConfigError(f"{path} holds no facts of a phone", remedy="name the output of `mnn-farm devices --json`")
    return replace(side, missing=f"{path.name} does not tell")


def _names_of(one: Mapping[str, Any]) -> set[str]:
    phone = one.get("phone")
    places = (one, phone if isinstance(phone, dict) else {})
    told = (place.get(key) for place in places for key in ("name", "serial", "serialno", "id"))
    return {name for name in told if isinstance(name, str) and name}


def _only(
    there: Iterable[_One],
    names: Callable[[_One], set[str]],
    wanted: str | None,
    where: str,
    show: Callable[[_One], str],
) -> _One:
    """Return the only one, or the only one that is called ``wanted``."""
    everyone = list(there)
    found = [one for one in everyone if wanted is None or wanted in names(one)]
    if len(found) == 1:
        return found[0]
    said = f"no phone is called {wanted}" if wanted is not None and not found else f"{len(found)} phones are there"
    raise ConfigError(f"{where}: {said}", remedy=f"name one after a colon: {_listed(map(show, everyone))}")


def _listed(names: Iterable[str]) -> str:
    everything = [printable(name) for name in names]
    more = len(everything) - _MOST_NAMED
    return ", ".join(everything[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "") or "there is none"


def _asked(word: str, adb: str | None) -> Side:
    """Ask a phone for all its facts; it is not taken, only the probe is put on it."""
    from harness.bench.gather import gather_facts
    from harness.bench.phone import open_transport
    from harness.core.deadline import Deadline
    from harness.fleet.one import one_phone
    from harness.fleet.servers import read_servers
    from harness.payload.probe import Probe
    from harness.phone.tier import tier_of
    from harness.plan.tiers import load_tier_rules

    try:
        with one_phone(word, read_servers(adb)) as endpoint:
            transport = open_transport(endpoint)
            probe = Probe.install(transport)
            facts = gather_facts(transport, probe, Deadline(READ_S, "reading the phone's facts", transport.name))
    except ConfigError as error:
        said = error.message.removeprefix(f"--device {word}: ")
        raise ConfigError(f"{word} is no run and no file, and as a phone: {said}", remedy=error.remedy) from None
    return of_facts(endpoint.name, {"tier": tier_of(facts, load_tier_rules()), **facts.as_dict()})
