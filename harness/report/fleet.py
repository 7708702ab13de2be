"""The fleet's table: what is known of each phone that took part. Facts are whatever the run folder holds of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from harness.report.cells import Figure, Notes
from harness.report.text import celsius, mebibytes, number
from harness.store.head import FleetMember, RunInfo

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
    _Column("cores", ("cpu_clusters", "cores")),
    _Column("GPU", ("gpu",), optional=True),
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
    known = {**phone, **facts, **_in_words(facts), "tier": member.phone.tier}
    return {key: value for key, value in known.items() if value is not None}


def _in_words(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that are records, or belong together, as people read them; ``None`` is no fact."""
    words: dict[str, Any] = {}
    if isinstance(facts.get("soc_name"), str):
        words["soc"] = f"{facts['soc_name']} ({facts['soc']})" if facts.get("soc") else facts["soc_name"]
    clusters = facts.get("cpu_clusters")
    if isinstance(clusters, (list, tuple)):
        parts = [text for cluster in reversed(clusters) if (text := _cluster(cluster))]
        words["cpu_clusters"] = " + ".join(parts) or None
    if isinstance(facts.get("gpu"), str) and isinstance(facts.get("driver"), str):
        words["gpu"] = f"{facts['gpu']}, {facts['driver']}"
    battery = facts.get("battery")
    if isinstance(battery, dict):
        words |= {"battery_pct": battery.get("level_pct"), "battery_c": battery.get("temp_c")}
        words["battery"] = _listed(battery, "plugged", "status", "health")
    thermal = facts.get("thermal")
    if isinstance(thermal, dict):
        words["thermal"] = f"status {shown(thermal.get('status'))}, HAL {shown(thermal.get('hal'))}"
    return words


def _cluster(cluster: Any) -> str:
    if not isinstance(cluster, dict) or not isinstance(cluster.get("cpus"), (list, tuple)):
        return ""
    khz = cluster.get("max_khz")
    clock = f" {khz / 1e6:.2f} GHz" if isinstance(khz, int) else ""
    return f"{len(cluster['cpus'])} × {cluster.get('core') or 'unknown core'}{clock}"


def _listed(record: Mapping[str, Any], *names: str) -> str:
    return ", ".join(f"{name} {shown(record.get(name))}" for name in names)


def _temperatures(zones: Any) -> dict[str, float]:
    found: dict[str, float] = {}
    for zone in zones if isinstance(zones, (list, tuple)) else ():
        if not isinstance(zone, dict):
            continue
        # Runs of before have the kernel's number only, which is in thousandths on most phones.
        milli_c = zone.get("milli_c")
        plain = milli_c / 1000 if isinstance(milli_c, (int, float)) else None
        value = zone.get("celsius", plain)
        if isinstance(value, (int, float)) and _PLAUSIBLE_C[0] <= value <= _PLAUSIBLE_C[1]:
            found[str(zone.get("type"))] = value
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
    rest |= {"tier because": member.tier_because} if member.tier_because else {}
    rest |= {key: shown(value) or "none" for key, value in facts.items() if key not in used}
    return rest | {key: f"— ({why})" for key, why in _nulls(member).items() if key not in used}


def shown(value: Any) -> str:
    """Return a fact of any type as text."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)) and all(isinstance(item, (str, int, float)) for item in value):
        return ", ".join(str(item) for item in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
