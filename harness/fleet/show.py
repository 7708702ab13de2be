"""What ``mnn-farm devices`` prints: phones as a table or as JSON, and histories. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.table import Table

from harness.bench.lease import describe
from harness.fleet.look import Seen
from harness.phone.health import Failure, Hold

_UNKNOWN = "?"
_GIB = 1024**3


def as_json(seen: Seen) -> dict[str, Any]:
    """Return one phone as ``devices --json`` gives it."""
    row = asdict(seen)
    why = row.pop("why")
    row["lease"] = None if seen.lease is None else asdict(seen.lease)
    row["hold"] = None if seen.hold is None else seen.hold.model_dump(mode="json")
    return {**row, "usable": why is None, "why": why}


def phones_table(phones: Sequence[Seen]) -> Table:
    """Return the table for people."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("phone", "state", "model", "SoC", "tier", "RAM", "Android", "battery", "temp.", "lease", "usable"):
        # What people copy or search for stays in one piece.
        table.add_column(title, overflow="fold", no_wrap=title in ("phone", "state", "usable"))
    for seen in phones:
        table.add_row(
            seen.name,
            seen.state.partition(" (")[0],
            seen.model or _UNKNOWN,
            seen.soc_name or seen.soc or _UNKNOWN,
            seen.tier or _UNKNOWN,
            _UNKNOWN if seen.ram_bytes is None else f"{seen.ram_bytes / _GIB:.1f} GiB",
            _android(seen),
            _UNKNOWN if seen.battery_pct is None else f"{seen.battery_pct} %",
            _UNKNOWN if seen.battery_c is None else f"{seen.battery_c:.1f} °C",
            "-" if seen.lease is None else describe(seen.lease),
            "yes" if seen.why is None else seen.why.code,
        )
    return table


def _android(seen: Seen) -> str:
    if seen.android_release is None and seen.sdk is None:
        return _UNKNOWN
    return f"{seen.android_release or _UNKNOWN} (API {_UNKNOWN if seen.sdk is None else seen.sdk})"


def remarks(phones: Iterable[Seen]) -> list[str]:
    """Return lines below the table: why a phone is in its tier, why it cannot be used, and a hold beside that."""
    lines = []
    for seen in phones:
        if seen.tier is not None:
            lines.append(f"tier {seen.tier}: {seen.name}: {seen.tier_because}")
        if seen.why is not None:
            lines.append(f"{seen.name}: {seen.why.reason}" + (f" ({seen.why.remedy})" if seen.why.remedy else ""))
            if seen.hold is not None and seen.why.code != "held":
                lines.append(f"{seen.name}: {seen.hold.text} (mnn-farm devices release {seen.name})")
    return lines


def history_as_json(
    failures: Sequence[Failure], names: Mapping[str, str], holds: Mapping[str, Hold | None]
) -> dict[str, Any]:
    """Return ``devices history --json``: per phone of ``holds`` (id → its hold, if one is in force), and per port."""
    phones = []
    for phone_id, hold in holds.items():
        its = [failure for failure in failures if failure.phone_id == phone_id]
        phones.append(
            {
                "id": phone_id,
                "name": names[phone_id],
                "hold": None if hold is None else hold.model_dump(mode="json"),
                "failures": [failure.model_dump(mode="json", exclude={"phone_id"}) for failure in its],
            }
        )
    ports = []
    for port in sorted({failure.port for failure in failures}):
        there = [failure for failure in failures if failure.port == port]
        called = sorted({failure.name for failure in there})
        last = there[-1].model_dump(mode="json", exclude={"port"})
        ports.append({"port": port, "failures": len(there), "phones": called, "last": last})
    return {"phones": phones, "ports": ports}


def history_table(failures: Sequence[Failure]) -> Table:
    """Return the failures for people, newest first."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("when (UTC)", "phone", "port", "reason", "detail"):
        table.add_column(title, overflow="fold")
    for failure in reversed(failures):
        when = f"{failure.at:%Y-%m-%d %H:%M:%S}"
        table.add_row(when, failure.name, failure.port, failure.code, failure.detail)
    return table


def ports_table(failures: Sequence[Failure]) -> Table:
    """Return how often something failed at each port, most first: one bad cable shows as one port."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("port", "failures", "phones"):
        table.add_column(title, overflow="fold")
    by_port: dict[str, list[Failure]] = {}
    for failure in failures:
        by_port.setdefault(failure.port, []).append(failure)
    for port, there in sorted(by_port.items(), key=lambda item: (-len(item[1]), item[0])):
        table.add_row(port, str(len(there)), ", ".join(sorted({failure.name for failure in there})))
    return table
