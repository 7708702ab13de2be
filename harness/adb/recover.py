"""Getting a phone back without touching the others: kick its own connection, plug it in again, wait for it.

Nothing here ends the adb server: that would take every other phone with it.
"""

from __future__ import annotations

import re

from harness.adb.connection import HostConnection, failure
from harness.adb.server import AdbServer
from harness.core.deadline import Deadline
from harness.core.errors import PhoneLostError, UnauthorizedError

# HOST:PORT. A phone found by mDNS (adb-…._adb-tls-connect._tcp) is none: adb brings that back by itself, as USB.
_ADDRESS = re.compile(r"^(\[[^\]\s]+\]|[^:\s]+):\d{1,5}$")


def reconnect(server: AdbServer, serial: str, transport_id: str | None, deadline: Deadline) -> None:
    """Break the connection to a phone and set it up anew; all that ran over it ends, other phones notice nothing.

    Over USB the server resets the link and finds the phone again by itself (as a new transport, when it is asked for
    by serial). A phone over TCP it would forget, so it is plugged in again. Its state tells when it can be used.

    Args:
        server: the adb server that has it.
        serial: the serial by which that server lists it; also its name in messages.
        transport_id: which of two phones with that serial, if known.
        deadline: by when.

    Raises:
        PhoneLostError: the server does not know it, or does not reach it again.
        PhoneError: the server does not answer, or refuses.
    """
    chosen = f"host-transport-id:{transport_id}" if transport_id else f"host-serial:{serial}"
    said = _ask(server, f"{chosen}:reconnect", serial, deadline)
    if not said.startswith("reconnecting"):  # the server says OKAY to a phone that it does not know, too
        raise failure(serial, said)
    if is_address(serial):
        wait_gone(server, serial, deadline)
        plug_in(server, serial, deadline)


def plug_in(server: AdbServer, serial: str, deadline: Deadline) -> None:
    """Connect the server to a phone whose serial is ``HOST:PORT``; for any other serial there is nothing to be done.

    Raises:
        UnauthorizedError: the phone does not accept this computer's key.
        PhoneLostError: nothing answers there.
        PhoneError: the server does not answer, or refuses.
    """
    if not is_address(serial):
        return
    said = _ask(server, f"host:connect:{serial}", serial, deadline)  # the server says OKAY to its failures, too
    if said.startswith(("connected to", "already connected to")):
        return
    if "authenticate" in said:
        raise UnauthorizedError(
            serial, "adb is not authorized", remedy="unlock the phone and accept this computer's key"
        )
    raise PhoneLostError(serial, f"adb says {said!r}", remedy="check that it is on and in this network")


def wait_gone(server: AdbServer, serial: str, deadline: Deadline) -> None:
    """Wait until the server no longer lists the phone.

    Raises:
        DeadlineError: it did not in time.
        PhoneError: the server does not answer.
    """
    with HostConnection(server.host, server.port, serial, deadline) as connection:
        connection.request(f"host-serial:{serial}:wait-for-any-disconnect")
        status = connection.read_exact(4)  # the second OKAY: it is so
        if status != b"OKAY":
            raise failure(serial, connection.read_block().decode("utf-8", "replace"))


def is_address(serial: str) -> bool:
    """Whether a serial is ``HOST:PORT``, so that it comes back only when asked for."""
    return _ADDRESS.match(serial) is not None


def _ask(server: AdbServer, request: str, serial: str, deadline: Deadline) -> str:
    with HostConnection(server.host, server.port, serial, deadline) as connection:
        connection.request(request)
        return connection.read_block().decode("utf-8", "replace").strip()
