"""Meeting one phone: is it ready, does somebody have it, and then connecting it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from harness.bench.lease import lease_file, owner_is_dead
from harness.bench.phone import ConnectedPhone, Terms, connect, open_transport
from harness.core.deadline import Deadline
from harness.core.errors import PhoneError
from harness.core.provider import Endpoint
from harness.core.transport import Transport
from harness.fleet.states import Why, why_booting, why_full, why_held_by
from harness.payload.probe import Probe
from harness.phone.getprop import parse_getprop
from harness.phone.storage import parse_df
from harness.plan.tiers import TierRules

READY_S = 20.0


def meet_phone(endpoint: Endpoint, rules: TierRules, say: Callable[[str], None], terms: Terms) -> ConnectedPhone | Why:
    """Connect a phone without taking it, unless it is not ready or somebody has it whom nobody wants to wait for.

    Raises:
        FarmError: it cannot be used; the error says why and whose fault it is.
    """
    try:
        transport = open_transport(endpoint)
        why = why_not_ready(transport)
        if why is None and terms.purpose and not terms.wait_lease_s:
            why = why_busy(transport, say)
    except PhoneError:
        why = None  # connecting meets it too, and does something about it
    return connect(endpoint, rules, say, replace(terms, purpose="")) if why is None else why


def why_busy(transport: Transport, say: Callable[[str], None]) -> Why | None:
    """Ask a phone whether somebody has it, before its facts are read, which would disturb what they measure.

    Raises:
        PhoneError: the phone or the connection failed.
    """
    holder = Probe.install(transport, progress=say).show_lease(lease_file(transport.base_dir)).holder
    # What a dead process of this computer has left, the next run takes over at once.
    return None if holder is None or owner_is_dead(holder) else why_held_by(holder)


def why_not_ready(transport: Transport) -> Why | None:
    """Ask a phone that adb can reach whether it has booted and has room; ``None``: it is ready.

    Raises:
        PhoneError: the phone or the connection failed.
    """
    deadline = Deadline(READY_S, "asking whether the phone is ready", transport.name)
    why = why_booting(parse_getprop(transport.shell(["getprop"], deadline=deadline).stdout))
    return why if why is not None else why_full(free_bytes(transport, deadline))


def free_bytes(transport: Transport, deadline: Deadline) -> int | None:
    """Return the free bytes where our folder on the phone lies or will lie; ``None`` when it does not tell."""
    parent = transport.base_dir.rpartition("/")[0] or "/"
    return parse_df(transport.shell(["df", parent], deadline=deadline).stdout, parent).free_bytes
