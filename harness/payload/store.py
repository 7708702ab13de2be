"""The store on the phone: folders by content hash, pushed once, verified there, renamed into place.

A name outside ``incoming/`` is therefore always whole. What is there already is verified again, not trusted: a
second run pushes nothing, and a file that rotted is pushed anew. It has a cap; see :mod:`harness.payload.room`.

How it is verified: beside each payload lies a stamp (``device_bins/probe/stamp.h``) that tells of each file when it
was hashed and which device, inode, size, mtime and ctime it had then. A file that still has them is unchanged, because
the kernel changes the ctime at every write and nobody can set it; so its hash is not computed again. It is computed
again

- when the file was touched in any way,
- when the phone has started anew: a power cut takes what was not yet on the storage,
- after :data:`TRUST_S`: storage that rots by itself is rare, but it exists,
- when the caller doubts (``trust=False``), as a session does once after a wrong text or a crash.

A push that broke off lies in ``incoming/<hash>`` and is gone on with; see :mod:`harness.payload.push`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from harness.core.deadline import Deadline
from harness.core.errors import PhoneError, TransferError
from harness.core.log import phone_logger
from harness.core.reasons import Reason
from harness.core.transport import Transport, checked
from harness.payload.folder import PayloadFile, PayloadFolder
from harness.payload.hashes import sha256_of
from harness.payload.probe import Probe
from harness.payload.push import Push
from harness.payload.push_slots import PushSlots
from harness.payload.room import make_room, mark_used

# Enough of the hash that two payloads never share a folder, short enough for people.
_NAME_DIGITS = 32
# How long a hash that was computed on the phone counts while the file is unchanged.
TRUST_S = 24 * 3600
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


@dataclass(frozen=True)
class _Places:
    """Where a payload lies, its stamp, and where it lies while it is pushed."""

    final: str
    stamp: str
    incoming: str

    @classmethod
    def of(cls, base_dir: str, kind: str, payload: PayloadFolder) -> _Places:
        name = payload.hash[:_NAME_DIGITS]
        final = f"{base_dir}/{kind}/{name}"
        return cls(final, f"{final}.stamp", f"{base_dir}/incoming/{name}")


def ensure_on_phone(
    transport: Transport,
    probe: Probe,
    payload: PayloadFolder,
    *,
    kind: str,
    label: str,
    in_use: Collection[str] = (),
    say: Callable[[str], None] = lambda _: None,
    trust: bool = True,
    slots: PushSlots | None = None,
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
        trust: let stamps count; see above.
        slots: those of the link to the phone, one of which is held while bytes are sent; ``None`` is no limit.

    Raises:
        TransferError: refused, too large for the phone (``no_space``), or different after two pushes, be it that the
            storage or the cable is bad or that a file was changed here (``payload_corrupt``).
        ConfigError: a local file cannot be read.
        FarmError: others kept the link busy for too long (reason ``busy``).
        PhoneError: the phone or the connection failed. What was sent until then need not be sent again.
    """
    log = phone_logger(__name__, transport.name)
    places = _Places.of(transport.base_dir, kind, payload)
    say(f"verifying {label}")
    seconds = _LEAST_S + payload.size / SLOWEST_HASH_BYTES_PER_S
    there = probe.hash_tree(places.final, seconds, stamp=places.stamp, trust_s=TRUST_S if trust else 0)
    differing = _differing(there, payload)
    if not differing:
        log.info("%s is on the phone, verified; pushed 0 bytes", label)
        mark_used(transport, places.final)
        return Stored(places.final, 0)
    if there:
        log.warning("%s rotted on the phone and is pushed anew: %s", label, _named(differing))
        _take_apart(transport, places)
    sent = 0
    for attempt in (1, 2):
        push = Push(
            transport,
            probe.path,
            payload,
            places.incoming,
            places.stamp,
            label,
            lambda wanted, free: make_room(transport, wanted, free, in_use, payload.hash[:_NAME_DIGITS]),
            say,
        )
        differing = _differing(_run_in_slot(push, slots), payload)
        sent += push.sent_bytes
        if not differing:
            _rename(transport, places)
            log.info("%s pushed and verified: %d of %d bytes were sent", label, sent, payload.size)
            return Stored(places.final, sent)
        log.warning("%s differs on the phone after push %d: %s", label, attempt, _named(differing))
    _remove(transport, places.incoming)
    raise TransferError(transport.name, places.final, _blame(payload, differing, label), reason=Reason.PAYLOAD_CORRUPT)


def _run_in_slot(push: Push, slots: PushSlots | None) -> dict[str, tuple[int, str]]:
    """Push when a slot is free. Waiting for one keeps no connection open, and uses up none of a push's own time."""
    if slots is None:
        return _run(push) or {}
    with slots.one(push.transport.name, push.label, push.say) as slot:
        push.may_send = slot.take_now
        there = _run(push)
        if there is None:
            slot.wait()
            there = _run(push)
    return there or {}


def _run(push: Push) -> dict[str, tuple[int, str]] | None:
    what = f"pushing {push.label}"
    deadline = Deadline(_LEAST_S + push.payload.size / SLOWEST_PUSH_BYTES_PER_S, what, push.transport.name)
    log = phone_logger(__name__, push.transport.name)
    try:
        return push.run(deadline)
    except PhoneError as error:
        log.info("%s broke off after %d bytes: %s", what, push.sent_bytes, error)
        if isinstance(error, TransferError) and push.begun:  # refused, not lost: going on would meet the same again
            _remove(push.transport, push.folder)
        raise


def _differing(there: dict[str, tuple[int, str]], payload: PayloadFolder) -> list[str]:
    """Return the files on the phone that are other than they should be, missing or too many."""
    wanted = {file.path: _content(file) for file in payload.files}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def _blame(payload: PayloadFolder, differing: Collection[str], label: str) -> str:
    """Say who is to blame for a payload that does not arrive as it was read: perhaps it is not so here any more."""
    for file in payload.files:
        if file.path not in differing:
            continue
        try:
            same = sha256_of(payload.root / file.path) == file.sha256
        except OSError:
            same = False
        if not same:
            return f"{file.path} of {label} was changed on this computer since it was read; start again"
    return f"{label} differs from the local one after two pushes; the phone's storage or the cable is bad"


def _named(files: list[str]) -> str:
    shown = ", ".join(files[:_NAMED_FILES])
    return shown if len(files) <= _NAMED_FILES else f"{shown} and {len(files) - _NAMED_FILES} more"


def _content(file: PayloadFile) -> tuple[int, str]:
    return file.size, file.sha256


def _take_apart(transport: Transport, places: _Places) -> None:
    """Treat a payload that rotted as a push that broke off: what of it is good need not be sent again."""
    script = 'rm -f "$2" && mkdir -p "$3" && rm -rf "$3/payload" && mv "$1" "$3/payload"'
    _shell(transport, script, places, "taking a payload apart")


def _rename(transport: Transport, places: _Places) -> None:
    script = 'mkdir -p "${1%/*}" && rm -rf "$1" && mv "$3/payload" "$1" && rm -rf "$3"'
    _shell(transport, script, places, "moving a payload into place")


def _shell(transport: Transport, script: str, places: _Places, what: str) -> None:
    argv = ["sh", "-c", script, "sh", places.final, places.stamp, places.incoming]
    checked(transport.shell(argv, deadline=Deadline(_LEAST_S, what, transport.name)), transport.name, argv)


def _remove(transport: Transport, folder: str) -> None:
    """Remove what is left of a push. If that fails, the error that led here is the one that counts."""
    try:
        transport.shell(["rm", "-rf", folder], deadline=Deadline(_LEAST_S, f"removing {folder}", transport.name))
    except PhoneError as error:
        phone_logger(__name__, transport.name).warning("%s stays on the phone: %s", folder, error)
