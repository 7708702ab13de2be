"""Leaving a phone as it was found: nothing of ours runs on it, nothing of ours lies about, and others can have it."""

from __future__ import annotations

from collections.abc import Callable

from harness.bench.lease import owner_is_dead, take
from harness.bench.phone import ConnectedPhone
from harness.bench.tidy import tidy
from harness.core.deadline import Deadline
from harness.core.errors import FarmError
from harness.core.log import phone_logger
from harness.core.transport import USABLE
from harness.phone.prepare import restore

RESTORE_S = 60.0


def leave_as_found(phone: ConnectedPhone, say: Callable[[str], None]) -> None:
    """End our runs, put settings back, remove leftovers, give the lease back. Harmless twice; never raises.

    What a lost phone still owes stays written on it, and is done by whoever sees it next.
    """
    log = phone_logger(__name__, phone.name)
    lease = phone.lease
    if lease is None:
        return
    try:
        if phone.transport.state() != USABLE:
            log.warning("it is not there to be left as it was found: that is done when it is next seen")
            return
        answer = phone.probe.show_lease(lease.file)
        holder = answer.holder
        if holder is None and answer.previous is None:
            return  # it was given back, and everything is done
        if holder is None or (holder.id != lease.id and owner_is_dead(holder)):
            # A reboot freed it, or a worker that is dead took it again.
            lease = take(phone.probe, phone.name, phone.transport.base_dir, "tidying up")
        elif holder.id != lease.id:
            return
        say("leaving the phone as it was found")
        tidy(phone.transport, phone.probe)
        restore(phone.transport, Deadline(RESTORE_S, "putting settings back", phone.name))
        lease.give_back()
    except FarmError as error:
        log.warning("it could not be left as it was found, that is done when it is next seen: %s", error)
