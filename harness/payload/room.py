"""Room in the store on a phone: before it would grow beyond its cap, what was not used for longest goes.

What a push that broke off has left in ``incoming/`` goes after :data:`STALE_S`, whether room is needed or not.

The cap is :data:`CAP_BYTES`, or half of what would be free without us where that is less: a phone must not fill up with
models that nobody measures any more, and people's phones must stay usable. When a payload was used last says the time
of its folder, which :func:`mark_used` sets. What a session uses is never removed, so a session that needs more than the
cap gets it. More goes where what is to be brought would not fit otherwise, with :data:`MARGIN_BYTES` to spare.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from harness.core.deadline import Deadline
from harness.core.log import phone_logger
from harness.core.transport import Transport, checked

CAP_BYTES = 32 * 1024**3
# A phone whose storage is filled to the last byte is of no use to anybody.
MARGIN_BYTES = 64 * 1024**2
STALE_S = 24 * 3600
ROOM_S = 60.0

# Two programs for all folders: starting one costs a phone more than looking at a folder.
_LIST = r"""
cd "$1" 2>/dev/null || exit 0
echo "now=$(date +%s)"
stat -c 'used=%Y %n' models/* bundles/* incoming/* 2>/dev/null
du -sk models/* bundles/* incoming/* bin 2>/dev/null
"""
_USED = re.compile(r"used=(\d{1,18}) (\S+)")
_SIZE = re.compile(r"\s*(\d{1,18})\s+(\S+)")
# Exactly what ensure_on_phone makes (or made, in earlier versions): nothing else is ever removed.
_PAYLOAD = re.compile(r"(?:models|bundles)/([0-9a-f]{32})")
_INCOMING = re.compile(r"incoming/([0-9a-f]{32}|[0-9a-f]{12}-[0-9a-f]{8})")
_NOW = re.compile(rb"(?m)^now=(\d{1,18})\s*$")


@dataclass(frozen=True)
class Held:
    """A folder of the store. ``used_at`` is the phone's time in seconds, ``None`` when it does not tell."""

    path: str
    size_bytes: int
    used_at: int | None


def parse_listing(data: bytes) -> tuple[Held, ...]:
    """Read what the phone says lies in its store; lines that make no sense are skipped."""
    lines = data.decode("utf-8", "replace").splitlines()
    used = {match[2]: int(match[1]) for match in map(_USED.fullmatch, lines) if match}
    sizes = {match[2]: int(match[1]) for match in map(_SIZE.fullmatch, lines) if match}
    return tuple(Held(path, kib * 1024, used.get(path)) for path, kib in sizes.items())


def parse_now(data: bytes) -> int | None:
    """Read the phone's time in seconds from the same listing, ``None`` when it does not tell."""
    match = _NOW.search(data)
    return int(match[1]) if match else None


def stale(held: Collection[Held], now: int | None, coming: str) -> tuple[Held, ...]:
    """Return what of broken pushes nobody has gone on with for :data:`STALE_S`.

    Args:
        held: all that lies in the store.
        now: the phone's time; ``None`` is unknown.
        coming: name of what is to be pushed now.
    """
    return tuple(
        one
        for one in held
        if (name := _INCOMING.fullmatch(one.path)) is not None
        and name[1] != coming
        and now is not None
        and one.used_at is not None
        and now - one.used_at > STALE_S
    )


def cap_bytes(held_bytes: int, free_bytes: int | None) -> int:
    """Return how much may lie in a store of ``held_bytes`` on a phone with ``free_bytes`` besides."""
    return CAP_BYTES if free_bytes is None else min(CAP_BYTES, (held_bytes + free_bytes) // 2)


def superfluous(
    held: Collection[Held], wanted_bytes: int, free_bytes: int | None, in_use: Collection[str]
) -> tuple[Held, ...]:
    """Return what has to go for ``wanted_bytes`` more, the longest unused first.

    Args:
        held: all that lies in the store.
        wanted_bytes: what is still to be brought.
        free_bytes: what the phone has free; ``None`` is unknown.
        in_use: hashes of payloads that stay.
    """
    total = sum(one.size_bytes for one in held)
    over = total + wanted_bytes - cap_bytes(total, free_bytes)
    if free_bytes is not None:
        over = max(over, wanted_bytes + MARGIN_BYTES - free_bytes)
    gone: list[Held] = []
    stay = [content[:32] for content in in_use]
    for one in sorted(held, key=lambda one: one.used_at or 0):
        name = _PAYLOAD.fullmatch(one.path)
        if over <= 0:
            break
        if name is None or name[1] in stay or one.used_at is None:
            continue
        gone.append(one)
        over -= one.size_bytes
    return tuple(gone)


def make_room(
    transport: Transport, wanted_bytes: int, free_bytes: int | None, in_use: Collection[str], coming: str
) -> int:
    """Remove what is superfluous or stale, see above, and return how many bytes that were.

    Args:
        transport: the phone.
        wanted_bytes: what is still to be brought.
        free_bytes: what the phone has free; ``None`` is unknown.
        in_use: hashes of payloads that stay.
        coming: name in ``incoming/`` of what is to be brought.

    Raises:
        PhoneError: the phone or the connection failed.
    """
    base, log = transport.base_dir, phone_logger(__name__, transport.name)
    deadline = Deadline(ROOM_S, "making room on the phone", transport.name)
    listed = transport.shell(["sh", "-c", _LIST, "sh", base], deadline=deadline).stdout
    held = parse_listing(listed)
    old = stale(held, parse_now(listed), coming)
    left = [one for one in held if one not in old]
    free_then = None if free_bytes is None else free_bytes + sum(one.size_bytes for one in old)
    gone = (*old, *superfluous(left, wanted_bytes, free_then, in_use))
    if gone:
        remove = ["rm", "-rf", *(f"{base}/{one.path}{end}" for one in gone for end in ("", ".stamp"))]
        checked(transport.shell(remove, deadline=deadline), transport.name, remove)
    for one in gone:
        log.info("%s removed from the store: %d bytes, not used for longest", one.path, one.size_bytes)
    return sum(one.size_bytes for one in gone)


def mark_used(transport: Transport, folder: str) -> None:
    """Note that a payload is used now. A phone that refuses only forgets the order.

    Raises:
        PhoneError: the phone or the connection failed.
    """
    deadline = Deadline(ROOM_S, "noting the use of a payload", transport.name)
    if transport.shell(["touch", folder], deadline=deadline).exit_code != 0:
        phone_logger(__name__, transport.name).info("the use of %s could not be noted", folder)
