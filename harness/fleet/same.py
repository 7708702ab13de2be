"""One phone that is connected twice, by cable and by network or under two addresses, takes part once. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.fleet.states import SAME_PHONE, Why


@dataclass(frozen=True)
class Connection:
    """A phone as it was met on one of its connections."""

    name: str
    phone_id: str
    boot_id: str | None
    usb: bool


def second_connections(met: Sequence[Connection]) -> dict[str, Why]:
    """Return, by name, the connections that lead to a phone which another one leads to as well.

    Who it is says our file on the phone; that it is this very one and no copy says the boot. A cable is kept before a
    network, else what came first.
    """
    kept: dict[tuple[str, str | None], Connection] = {}
    for connection in sorted(met, key=lambda one: not one.usb):
        kept.setdefault((connection.phone_id, connection.boot_id), connection)
    return {
        connection.name: Why(SAME_PHONE, f"it is the same phone as {best.name}", "nothing to do")
        for connection in met
        if (best := kept[connection.phone_id, connection.boot_id]) is not connection
    }
