"""A phone as a run's head holds it."""

from __future__ import annotations

from harness.bench.phone import ConnectedPhone
from harness.store.head import FleetMember


def member_of(phone: ConnectedPhone) -> FleetMember:
    """Return a phone as a run's head holds it."""
    return FleetMember(
        phone=phone.info,
        provider=phone.endpoint.provider,
        facts=phone.facts.as_dict(),
        nulls={**phone.nulls, **phone.facts.nulls},
        shares_cpu=bool(phone.endpoint.contention_group),
        tier_because=phone.placement.because,
    )
