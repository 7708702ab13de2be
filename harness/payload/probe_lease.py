"""Who has a phone: what ``probe lease``, ``lease-show`` and ``lease-end`` print, as values. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from harness.payload.probe_fields import Fields, load_line


@dataclass(frozen=True)
class Lease:
    """A lease on a phone.

    Attributes:
        id: made by the phone when the lease was taken; extends and ends it.
        owner: who, for people.
        host: from which computer.
        purpose: for what.
        boot_id: the boot of the phone in which it counts.
        pid: the process on the phone that keeps it.
        ttl_ms: how long it lasts without being extended.
        remaining_ms: how long it still lasted when the phone was asked.
    """

    id: str
    owner: str
    host: str
    purpose: str
    boot_id: str | None
    pid: int
    ttl_ms: int
    remaining_ms: int


@dataclass(frozen=True)
class LeaseAnswer:
    """What the phone says: ``taken`` (ours now), ``held`` (somebody's) or ``free``; ``holder`` is known for two."""

    state: str
    holder: Lease | None


def parse_lease_line(line: bytes) -> LeaseAnswer:
    """Read the line of a lease verb.

    Raises:
        ValueError: it is none; the sentence says why.
    """
    fields = load_line(line, "an answer about a lease")
    state = fields.text("lease")
    if state not in ("taken", "held", "free"):
        raise ValueError(f"an answer about a lease is of unknown kind {state[:40]!r}")
    return LeaseAnswer(state, _lease(fields) if "holder" in fields else None)


def _lease(fields: Fields) -> Lease:
    holder = fields.inner("holder")
    return Lease(
        id=holder.text("id"),
        owner=holder.text("owner"),
        host=holder.text("host"),
        purpose=holder.text("purpose"),
        boot_id=holder.maybe_text("boot_id"),
        pid=holder.integer("pid"),
        ttl_ms=holder.integer("ttl_ms"),
        remaining_ms=fields.integer("remaining_ms"),
    )
