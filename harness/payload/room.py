"""Room in the store on a phone: before it would grow beyond its cap, what was not used for longest goes.

The cap is :data:`CAP_BYTES`, or half of what would be free without us where that is less: a phone must not fill up with
models that nobody measures any more, and people's phones must stay usable. When a payload was used last says the time
of its folder, which :func:`mark_used` sets. What a session uses is never removed, so a session that needs more than the
cap gets it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from harness.core.deadline import Deadline
from harness.core.log import phone_logger
from harness.core.transport import Transport, checked
from harness.phone.storage import parse_df

CAP_BYTES = 32 * 1024**3
ROOM_S = 60.0

_LIST = r"""
cd "$1" 2>/dev/null || exit 0
for folder in models/* bundles/*; do
  [ -d "$folder" ] && echo "$(stat -c %Y "$folder" 2>/dev/null) $(du -sk "$folder")"
done
[ ! -d bin ] || du -sk bin
"""
_LINE = re.compile(r"(?:(\d+) )?\s*(\d+)\s+(\S+)")
# Exactly what ensure_on_phone makes: nothing else is ever removed.
_PAYLOAD = re.compile(r"(?:models|bundles)/([0-9a-f]{32})")


@dataclass(frozen=True)
class Held:
    """A folder of the store. ``used_at`` is the phone's time in seconds, ``None`` when it does not tell."""

    path: str
    size_bytes: int
    used_at: int | None


def parse_listing(data: bytes) -> tuple[Held, ...]:
    """Read what the phone says lies in its store; lines that make no sense are skipped."""
    matches = map(_LINE.fullmatch, data.decode("utf-8", "replace").splitlines())
    return tuple(
        Held(match[3], int(match[2]) * 1024, int(match[1]) if match[1] else None) for match in matches if match
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
        wanted_bytes: what is to be brought.
        free_bytes: what the phone has free; ``None`` is unknown.
        in_use: hashes of payloads that stay.
    """
    total = sum(one.size_bytes for one in held)
    over = total + wanted_bytes - cap_bytes(total, free_bytes)
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


def make_room(transport: Transport, wanted_bytes: int, in_use: Collection[str]) -> None:
    """Remove what is superfluous; see :func:`superfluous`. What the phone does not tell is left alone.

    Raises:
        PhoneError: the phone or the connection failed.
    """
    base, log = transport.base_dir, phone_logger(__name__, transport.name)
    deadline = Deadline(ROOM_S, "making room on the phone", transport.name)
    held = parse_listing(transport.shell(["sh", "-c", _LIST, "sh", base], deadline=deadline).stdout)
    parent = base.rpartition("/")[0] or "/"
    free_bytes = parse_df(transport.shell(["df", parent], deadline=deadline).stdout, parent).free_bytes
    gone = superfluous(held, wanted_bytes, free_bytes, in_use)
    if not gone:
        return
    remove = ["rm", "-rf", *(f"{base}/{one.path}" for one in gone)]
    checked(transport.shell(remove, deadline=deadline), transport.name, remove)
    for one in gone:
        log.info("%s removed from the store: %d bytes, not used for longest", one.path, one.size_bytes)


def mark_used(transport: Transport, folder: str) -> None:
    """Note that a payload is used now. A phone that refuses only forgets the order.

    Raises:
        PhoneError: the phone or the connection failed.
    """
    deadline = Deadline(ROOM_S, "noting the use of a payload", transport.name)
    if transport.shell(["touch", folder], deadline=deadline).exit_code != 0:
        phone_logger(__name__, transport.name).info("the use of %s could not be noted", folder)
