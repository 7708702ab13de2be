"""The fleet's table: what is known of each phone that took part. Facts are whatever the run folder holds of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from harness.report.cells import Figure, Notes
from harness.report.text import celsius, mebibytes, number
from harness.store.schema import FleetMember, RunInfo

# What a sensor of a phone in a room can mean; other values are a driver's way to say that it does not know.
_PLAUSIBLE_C: Final = (-20.0, 150.0)
_NOT_TOLD: Final = "not among the phone's facts"


class _Column(NamedTuple):
    """A column's title, the names under which facts give it, how it is shown, and whether it may be left out."""

    title: str
    names: tuple[str, ...]
    show: Callable[[float], str] | None = None
    optional: bool = False


_COLUMNS: Final = (
    _Column("model", ("model",)),
    _Column("SoC", ("soc",)),
    _Column("tier", ("tier",)),
    _Column("RAM", ("ram_bytes",), mebibytes),
    _Column("Android", ("android_release",)),
    _Column("ABI", ("abis", "abi")),
    _Column("cores", ("cores",)),
    _Column("OpenCL", ("opencl",)),
    _Column("Vulkan", ("vulkan",)),
    _Column("battery, %", ("battery_pct",), number, optional=True),
    _Column("°C", ("hottest_c", "battery_c"), celsius),
)
_DRIVERS: Final = ("opencl", "vulkan")


@dataclass(frozen=True)
class FleetRow:
    """One phone; ``rest`` are the facts without a column."""

    name: str
    figures: tuple[Figure, ...]
    rest: dict[str, str]


@dataclass(frozen=True)
class Fleet:
    """The table with its column titles and footnotes."""

    titles: tuple[str, ...]
    rows: tuple[FleetRow, ...]
    notes: dict[str, list[str]]


def fleet_table(info: RunInfo, labels: Mapping[str, str]) -> Fleet:
    """Return the fleet's table; ``labels`` are the phones' names as the rest of the page has them."""
    known = [_known(member) for member in info.fleet]
    columns = [
        column
        for column in _COLUMNS
        if not column.optional or any(name in facts for facts in known for name in column.names)
    ]
    notes = Notes()
    rows = tuple(
        FleetRow(
            labels.get(member.phone.id, member.phone.name),
            tuple(_fact(facts, _nulls(member), notes, column) for column in columns),
            _rest(member, facts, columns),
        )
        for member, facts in zip(info.fleet, known, strict=True)
    )
    return Fleet(tuple(column.title for column in columns), rows, notes.fields_by_why)


def _known(member: FleetMember) -> dict[str, Any]:
    phone = member.phone.model_dump(include={"model", "soc", "context", "driver"}, exclude_none=True)
    facts = {key: value for key, value in member.facts.items() if value is not None and key not in ("nulls", "zones")}
    zones = _temperatures(member.facts.get("zones"))
    if zones:
        facts |= {
            "hottest_c": max(zones.values()),
            "zones": ", ".join(f"{z} {celsius(c)} °C" for z, c in zones.items()),
        }
    return {**phone, **facts, "tier": member.phone.tier}


def _temperatures(zones: Any) -> dict[str, float]:
    found: dict[str, float] = {}
    for zone in zones if isinstance(zones, (list, tuple)) else ():
        milli_c = zone.get("milli_c") if isinstance(zone, dict) else None
        if isinstance(milli_c, (int, float)) and _PLAUSIBLE_C[0] <= milli_c / 1000 <= _PLAUSIBLE_C[1]:
            found[str(zone.get("type"))] = milli_c / 1000
    return found


def _nulls(member: FleetMember) -> dict[str, str]:
    inner = member.facts.get("nulls")
    return {**({str(k): str(v) for k, v in inner.items()} if isinstance(inner, dict) else {}), **member.nulls}


def _fact(facts: Mapping[str, Any], nulls: Mapping[str, str], notes: Notes, column: _Column) -> Figure:
    for name in column.names:
        value = facts.get(name)
        if value is None:
            continue
        if name in _DRIVERS:
            return Figure("yes", title=str(value)) if value else Figure("none")
        if column.show is not None and isinstance(value, (int, float)) and not isinstance(value, bool):
            return Figure(column.show(value))
        return Figure(shown(value) or "none")
    why = next((nulls[name] for name in column.names if name in nulls), _NOT_TOLD)
    return notes.unknown(column.title, why)


def _rest(member: FleetMember, facts: Mapping[str, Any], columns: Sequence[_Column]) -> dict[str, str]:
    used = {name for column in columns for name in column.names} - set(_DRIVERS)
    rest = {"serial": member.phone.serial, "id": member.phone.id, "provider": member.provider}
    rest |= {key: shown(value) or "none" for key, value in facts.items() if key not in used}
    return rest | {key: f"— ({why})" for key, why in _nulls(member).items() if key not in used}


def shown(value: Any) -> str:
    """Return a fact of any type as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)) and all(isinstance(item, (str, int, float)) for item in value):
        return ", ".join(str(item) for item in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
