"""The store on the phone: folders by content hash, pushed once, verified there, renamed into place.

A name outside ``incoming/`` is therefore always whole. What is there already is verified again, not trusted: a
second run pushes nothing, and a file that rotted is pushed anew. It has a cap; see :mod:`harness.payload.room`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass

from harness.core.deadline import Deadline
from harness.core.errors import PhoneError, TransferError
from harness.core.log import phone_logger
from harness.core.reasons import Reason
from harness.core.transport import PushItem, Transport, checked
from harness.payload.folder import PayloadFile, PayloadFolder
from harness.payload.probe import Probe
from harness.payload.room import make_room, mark_used

# Enough of the hash that two payloads never share a folder, short enough for people.
_NAME_DIGITS = 32
# No phone's storage and cable are slower than this together; measured pushes run at 30 to 300 MB/s.
SLOWEST_PUSH_BYTES_PER_S = 2_000_000
SLOWEST_HASH_BYTES_PER_S = 20_000_000
_LEAST_S = 60.0
_NAMED_FILES = 3


@dataclass(frozen=True)
class Stored:
    """Where a payload lies on the phone and how many bytes were sent to bring it there."""

    path: str
    pushed_bytes: int


def ensure_on_phone(
    transport: Transport,
    probe: Probe,
    payload: PayloadFolder,
    *,
    kind: str,
    label: str,
    in_use: Collection[str] = (),
    say: Callable[[str], None] = lambda _: None,
) -> Stored:
    """Make sure that ``payload`` lies on the phone, whole and verified; push only what is missing.

    Where the store would grow beyond its cap, what was not used for longest goes first.

    Args:
        transport: the phone.
        probe: the probe on it, which computes the hashes there.
        payload: what to bring.
        kind: folder of the store, ``models`` or ``bundles``.
        label: name for people.
        in_use: hashes of other payloads that have to stay.
        say: told what happens, for the live display.

    Raises:
        TransferError: refused, or different after two pushes (reason ``payload_corrupt``).
        PhoneError: the phone or the connection failed.
    """
    log = phone_logger(__name__, transport.name)
    final = f"{transport.base_dir}/{kind}/{payload.hash[:_NAME_DIGITS]}"
    say(f"verifying {label}")
    there = _hashes(probe, final, payload)
    differing = _differing(there, payload)
    if not differing:
        log.info("%s is on the phone, verified; pushed 0 bytes", label)
        mark_used(transport, final)
        return Stored(final, 0)
    if there:
        log.warning("%s rotted on the phone and is pushed anew: %s", label, _named(differing))
    make_room(transport, payload.size, in_use)
    for attempt in (1, 2):
        temporary = f"{transport.base_dir}/incoming/{payload.hash[:12]}-{secrets.token_hex(4)}"
        try:
            _push(transport, payload, temporary, label, say)
            say(f"verifying {label}")
            differing = _differing(_hashes(probe, temporary, payload), payload)
            if not differing:
                _rename(transport, temporary, final)
                log.info("%s pushed and verified: %d bytes", label, payload.size)
                return Stored(final, payload.size * attempt)
        finally:
            _remove(transport, temporary)
        log.warning("%s differs on the phone after push %d: %s", label, attempt, _named(differing))
    raise TransferError(
        transport.name,
        final,
        f"{label} differs from the local one after two pushes; the phone's storage or the cable is bad",
        reason=Reason.PAYLOAD_CORRUPT,
    )


def _push(transport: Transport, payload: PayloadFolder, folder: str, label: str, say: Callable[[str], None]) -> None:
    sent = 0
    told = -1

    def progress(count: int) -> None:
        nonlocal sent, told
        sent += count
        percent = 100 * sent // max(payload.size, 1)
        if percent >= told + 10:
            told = percent
            say(f"pushing {label} {percent} % of {payload.size / 1e6:.1f} MB")

    deadline = Deadline(_LEAST_S + payload.size / SLOWEST_PUSH_BYTES_PER_S, f"pushing {label}", transport.name)
    items = [
        PushItem(payload.root / file.path, f"{folder}/{file.path}", 0o755 if file.executable else 0o644)
        for file in payload.files
    ]
    transport.push(items, deadline=deadline, progress=progress)


def _hashes(probe: Probe, folder: str, payload: PayloadFolder) -> dict[str, tuple[int, str]]:
    return probe.hash_tree(folder, _LEAST_S + payload.size / SLOWEST_HASH_BYTES_PER_S)


def _differing(there: dict[str, tuple[int, str]], payload: PayloadFolder) -> list[str]:
    """Return the files on the phone that are other than they should be, missing or too many."""
    wanted = {file.path: _content(file) for file in payload.files}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def _named(files: list[str]) -> str:
    shown = ", ".join(files[:_NAMED_FILES])
    return shown if len(files) <= _NAMED_FILES else f"{shown} and {len(files) - _NAMED_FILES} more"


def _content(file: PayloadFile) -> tuple[int, str]:
    return file.size, file.sha256


def _rename(transport: Transport, temporary: str, final: str) -> None:
    deadline = Deadline(_LEAST_S, "moving a payload into place", transport.name)
    script = 'mkdir -p "${2%/*}" && rm -rf "$2" && mv "$1" "$2"'
    argv = ["sh", "-c", script, "sh", temporary, final]
    checked(transport.shell(argv, deadline=deadline), transport.name, argv)


def _remove(transport: Transport, folder: str) -> None:
    """Remove what is left of a push. If that fails, the error that led here is the one that counts."""
    try:
        transport.shell(["rm", "-rf", folder], deadline=Deadline(_LEAST_S, f"removing {folder}", transport.name))
    except PhoneError as error:
        phone_logger(__name__, transport.name).warning("%s stays on the phone: %s", folder, error)
