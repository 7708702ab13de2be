"""Our files off a phone: its settings back, our runs ended, our folder gone, and nothing else touched."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from harness.bench.lease import PhoneLease, give_back_or_let_lapse, lease_file, take
from harness.bench.tidy import tidy
from harness.core.deadline import Deadline
from harness.core.errors import FarmError, HarnessError
from harness.core.reasons import Reason
from harness.core.transport import Transport, checked
from harness.payload.probe import Probe
from harness.phone.ledger import FILE
from harness.phone.prepare import restore

CLEAN_S = 120.0
# /data/local/tmp/mnn-farm has four names, a cache in a home folder more; nothing that people share has so many.
_FEWEST_NAMES = 4
_PURPOSE = "cleaning up"
_PAYLOADS = ("models", "bundles", "incoming")
_LINK, _ABSENT = 3, 4
_LOOK = f'[ -L "$1" ] && exit {_LINK}; [ -d "$1" ] || exit {_ABSENT}'
_SIZE = re.compile(rb"\s*(\d+)\s")

# All but lease and programs goes first, which makes room on a full phone. Then the probe moves to where nobody looks,
# and the lease last of all, so that it can be ended without anybody taking it before the rest is gone. rmdir, at the
# end, spares what somebody else has begun to put there.
_REMOVE = r"""
base=$1 probe=$2 lease=$3 id=$4; shift 4
going=$base/going-$id
for file in "$base"/* "$base"/.[!.]*; do
  case $file in "$lease" | "$base/bin") continue ;; esac
  for kept; do [ "$file" = "$base/$kept" ] && continue 2; done
  rm -rf "$file" || exit 1
done
mkdir "$going" && mv "$probe" "$going/probe" && rm -rf "$base/bin" && mv "$lease" "$going/lease" || exit 1
"$going/probe" lease-end "$going/lease" --id "$id" || exit 1
rm -rf "$going" || exit 1
rmdir "$base" 2>/dev/null
[ ! -e "$base" ] || ls -A "$base"
"""


@dataclass(frozen=True)
class Cleaned:
    """What became of a phone.

    Attributes:
        phone: name for people.
        folder: our folder on it.
        freed_bytes: what its storage has more now; ``None`` when the phone does not tell.
        back: settings that are as before again.
        left_alone: settings that somebody else changed meanwhile, with what was done.
        owed: settings that could not be put back, and why.
        left: what is still in our folder: what was to be kept, or what somebody else has put there meanwhile.
        notes: what else there is to know.
    """

    phone: str
    folder: str
    freed_bytes: int | None = 0
    back: tuple[str, ...] = ()
    left_alone: tuple[str, ...] = ()
    owed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the phone is owed nothing, as far as can be told."""
        return not self.owed and not any(name.startswith(FILE) for name in self.left)


def clean(
    transport: Transport, say: Callable[[str], None], *, payloads_only: bool = False, force: bool = False
) -> Cleaned:
    """Take our files off a phone.

    Args:
        transport: the phone.
        say: told what happens.
        payloads_only: remove models and device binaries only; the phone keeps its id.
        force: remove the list of what it is owed, too, when something on it cannot be put back.

    Raises:
        FarmError: somebody has the phone (reason ``busy``).
        HarnessError: our folder is none that may be removed.
        PhoneError: the phone or the connection failed; what is still owed stands on the phone.
    """
    phone, folder = transport.name, _ours(transport.base_dir)
    if not _exists(transport, folder):
        return Cleaned(phone, folder, notes=("there is nothing of ours on it",))
    say("taking the phone")
    probe = Probe.install(transport, progress=say)
    before = _used_bytes(transport, folder)
    lease = _take(transport, probe, say)
    try:
        say("ending our runs")
        tidy(transport, probe)
        say("putting settings back")
        restored = restore(transport, Deadline(CLEAN_S, "putting settings back", phone))
        lease.renew()
        notes = (*lease.notes, *restored.notes)
        say("removing our files")
        if payloads_only:
            left: tuple[str, ...] = ()
            _remove_payloads(transport)
            lease.give_back()
        else:
            kept = [] if force else [FILE, f"{FILE}.damaged"]
            script = ["sh", "-c", _REMOVE, "sh", folder, probe.path, lease.file, lease.id, *kept]
            left = tuple(_names(_run(transport, script)))
            notes += ("it gets a new id at its next run: it counts as another phone in reports from then on",)
    except BaseException:
        give_back_or_let_lapse(lease)
        raise
    after = _used_bytes(transport, folder) if payloads_only or left else 0
    return Cleaned(
        phone,
        folder,
        None if before is None or after is None else max(0, before - after),
        tuple(change.what for change in restored.back),
        tuple(f"{what}: {why}" for what, why in restored.left_alone.items()),
        tuple(f"{what}: {why}" for what, why in restored.owed.items()),
        left,
        notes,
    )


def _ours(folder: str) -> str:
    """Return ``folder`` if it can be nothing but a folder of ours.

    Raises:
        HarnessError: it is empty, short, relative or roundabout.
    """
    path = PurePosixPath(folder)
    if not path.is_absolute() or ".." in path.parts or str(path) != folder or len(path.parts) <= _FEWEST_NAMES:
        raise HarnessError(f"{folder!r} cannot be our folder on a phone: nothing was removed")
    return folder


def _exists(transport: Transport, folder: str) -> bool:
    deadline = Deadline(CLEAN_S, "looking for our folder", transport.name)
    code = transport.shell(["sh", "-c", _LOOK, "sh", folder], deadline=deadline).exit_code
    if code == _LINK:
        raise HarnessError(f"{transport.name}: {folder} is a link to another folder: nothing was removed")
    return code != _ABSENT


def _take(transport: Transport, probe: Probe, say: Callable[[str], None]) -> PhoneLease:
    """Take the phone. On one that is too full for a lease that nobody has, payloads go before."""
    try:
        return take(probe, transport.name, transport.base_dir, _PURPOSE)
    except FarmError as error:
        if error.reason is Reason.BUSY:
            raise FarmError(error.message, remedy="clean it when it is free", reason=Reason.BUSY) from None
        full = error.reason is Reason.NO_SPACE and probe.show_lease(lease_file(transport.base_dir)).state == "free"
        if not full:
            raise
    say("the phone is full: models and device binaries go first")
    _remove_payloads(transport)
    return take(probe, transport.name, transport.base_dir, _PURPOSE)


def _remove_payloads(transport: Transport) -> None:
    _run(transport, ["rm", "-rf", *(f"{transport.base_dir}/{name}" for name in _PAYLOADS)])


def _used_bytes(transport: Transport, folder: str) -> int | None:
    deadline = Deadline(CLEAN_S, "asking how much lies in our folder", transport.name)
    said = _SIZE.match(transport.shell(["du", "-sk", folder], deadline=deadline).stdout)
    return None if said is None else int(said[1]) * 1024


def _run(transport: Transport, argv: list[str]) -> bytes:
    deadline = Deadline(CLEAN_S, "removing our files", transport.name)
    return checked(transport.shell(argv, deadline=deadline), transport.name, argv).stdout


def _names(said: bytes) -> list[str]:
    """Return the names after the probe's own line about the lease."""
    return [line for line in said.decode("utf-8", "replace").splitlines() if line and not line.startswith("{")]
