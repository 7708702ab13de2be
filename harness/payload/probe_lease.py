"""Who has a phone: what ``probe lease``, ``lease-show``, ``lease-extend`` and ``lease-end`` print, as values. Pure."""

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
    """What the phone says: ``taken`` (ours now), ``held`` (somebody's) or ``free``; ``holder`` is known for two.

    ``previous`` stands beside ``taken`` and ``free``: who had the phone before and lost it without giving it back.
    """

    state: str
    holder: Lease | None
    previous: Lease | None = None


def parse_lease_line(line: bytes) -> LeaseAnswer:
    """Read the line of a lease verb.

    Raises:
        ValueError: it is none; the sentence says why.
    """
    fields = load_line(line, "an answer about a lease")
    state = fields.text("lease")
    if state not in ("taken", "held", "free"):
        raise ValueError(f"an answer about a lease is of unknown kind {state[:40]!r}")
    holder = _lease(fields.inner("holder"), fields.integer("remaining_ms")) if "holder" in fields else None
    previous = _lease(fields.inner("previous"), 0) if "previous" in fields else None
    return LeaseAnswer(state, holder, previous)


def _lease(told: Fields, remaining_ms: int) -> Lease:
    return Lease(
        id=told.text("id"),
        owner=told.text("owner"),
        host=told.text("host"),
        purpose=told.text("purpose"),
        boot_id=told.maybe_text("boot_id"),
        pid=told.integer("pid"),
        ttl_ms=told.integer("ttl_ms"),
        remaining_ms=remaining_ms,
    )
