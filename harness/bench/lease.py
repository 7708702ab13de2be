"""Having a phone to oneself. The lease lies on the phone, which is what all computers share; see ``probe lease``.

It lasts for :data:`TTL_S` and is extended while we live: by each run itself, and between runs by :class:`Keeper`. A
pulled cable keeps it for that long, a dead computer loses it then, a reboot of the phone frees it at once. A lease of a
process of this computer that is dead is taken over without waiting.
"""

from __future__ import annotations

import getpass
import os
import platform
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import psutil

from harness.core.errors import FarmError, PhoneError
from harness.core.log import phone_logger
from harness.core.reasons import Reason
from harness.payload.probe import Probe
from harness.payload.probe_lease import Lease, LeaseAnswer

TTL_S = 180
# Whoever waits for a phone asks so often.
ASK_EVERY_S = 1.0
_OWNER = re.compile(r" pid (\d+) since (\d+)$")


def lease_file(base_dir: str) -> str:
    """Return the lease's place on a phone."""
    return f"{base_dir}/lease"


def this_host() -> str:
    """Return a name for this computer in which a process number means one process: with its boot and PID namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
        namespace = re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))  # noqa: PTH115  a name, no path
    except OSError:
        boot, namespace = "?", "?"
    return f"{platform.node()} ({boot}/{namespace})"


def this_owner() -> str:
    """Return who we are: the person, and the process with the second of its start."""
    try:
        person = getpass.getuser()
    except (OSError, KeyError):
        person = str(os.getuid())
    return f"{person} pid {os.getpid()} since {int(psutil.Process().create_time())}"


def owner_is_dead(holder: Lease) -> bool:
    """Whether a lease belongs to a process of this computer that is no more."""
    match = _OWNER.search(holder.owner)
    if match is None or holder.host != this_host():
        return False
    try:
        process = psutil.Process(int(match[1]))
        return int(process.create_time()) != int(match[2]) or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False


def is_ours(holder: Lease) -> bool:
    """Whether a lease is this very process's: its answer was lost, or the connection that took it."""
    return holder.owner == this_owner() and holder.host == this_host()


def describe(holder: Lease) -> str:
    """Return who has a phone, for people."""
    person = _OWNER.sub("", holder.owner)
    host = holder.host.split(" (", 1)[0]
    return f"{person} on {host} for {holder.purpose or 'something'}, at least {holder.remaining_ms / 1000:.0f} s more"


@dataclass
class PhoneLease:
    """Our lease on one phone. It pickles: whoever gets it keeps it."""

    probe: Probe
    phone: str
    file: str
    purpose: str
    id: str
    notes: list[str] = field(default_factory=list)

    def renew(self) -> None:
        """Extend it; if a reboot or a long absence freed the phone, take it again.

        Raises:
            FarmError: somebody else has the phone now (reason ``lease_lost``).
            PhoneError: the phone or the connection failed.
        """
        answer = self.probe.extend_lease(self.file, self.id)
        if answer.state == "held" and answer.holder is not None and owner_is_dead(answer.holder):
            # A worker that took it again after a reboot, and died.
            answer = self.probe.end_lease(self.file, answer.holder.id)
        if answer.state == "free":
            answer = _ask(self.probe, self.file, self.purpose)
            if answer.state == "taken" and answer.holder is not None:
                self.id = answer.holder.id
                self.notes.append("the lease had lapsed and was taken again")
        elif answer.holder is not None and is_ours(answer.holder):
            self.id = answer.holder.id
            return
        if answer.state != "taken":
            whose = describe(answer.holder) if answer.holder is not None else "somebody"
            raise FarmError(
                f"{self.phone}: the lease is lost; {whose} has the phone now",
                remedy="run again with --resume when it is free",
                reason=Reason.LEASE_LOST,
            )

    def give_back(self) -> None:
        """Let others have the phone.

        Raises:
            PhoneError: the phone or the connection failed; then it lapses by itself.
        """
        self.probe.end_lease(self.file, self.id)


def take(
    probe: Probe,
    phone: str,
    base_dir: str,
    purpose: str,
    *,
    wait_s: float = 0.0,
    say: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> PhoneLease:
    """Take a phone, waiting up to ``wait_s`` for whoever has it.

    Raises:
        FarmError: somebody else keeps it (reason ``busy``).
        PhoneError: the phone or the connection failed.
    """
    file = lease_file(base_dir)
    end = clock() + wait_s
    notes: list[str] = []
    while True:
        answer = _ask(probe, file, purpose)
        holder = answer.holder
        if answer.state == "taken" and holder is not None:
            if answer.previous is not None:
                again = "rebooted" if answer.previous.boot_id != holder.boot_id else "lapsed"
                notes.append(f"taken over from {_OWNER.sub('', answer.previous.owner)}, whose lease {again}")
            return PhoneLease(probe, phone, file, purpose, holder.id, notes)
        if holder is not None and is_ours(holder):
            return PhoneLease(probe, phone, file, purpose, holder.id, notes)
        if holder is not None and owner_is_dead(holder):
            probe.end_lease(file, holder.id)
            notes.append(f"taken over from {holder.owner}, a process of this computer that is dead")
            continue
        whose = describe(holder) if holder is not None else "somebody"
        if clock() >= end:
            raise FarmError(
                f"{phone}: in use by {whose}",
                remedy="wait for it with --wait-lease SECONDS, or run without it",
                reason=Reason.BUSY,
            )
        say(f"waiting for the phone: in use by {whose}")
        sleep(min(ASK_EVERY_S, max(0.0, end - clock())))


def give_back_or_let_lapse(lease: PhoneLease) -> None:
    """Give a phone back on the way out of a failure, which is what counts; otherwise the lease lapses by itself."""
    try:
        lease.give_back()
    except FarmError as error:
        phone_logger(__name__, lease.phone).info("the lease could not be given back: %s", error)


def _ask(probe: Probe, file: str, purpose: str) -> LeaseAnswer:
    return probe.take_lease(file, owner=this_owner(), host=this_host(), purpose=purpose[:120], ttl_s=TTL_S)


class Keeper:
    """Extends a lease in the background while nothing runs under it. A context manager; no error leaves its thread."""

    def __init__(self, lease: PhoneLease, *, every_s: float = TTL_S / 3) -> None:
        self._lease = lease
        self._every_s = every_s
        self._end = threading.Event()
        self._log = phone_logger(__name__, lease.phone)
        self._thread = threading.Thread(target=self._keep, name=f"lease of {lease.phone}", daemon=True)

    def __enter__(self) -> Keeper:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()

    def _keep(self) -> None:
        while not self._end.wait(self._every_s):
            try:
                self._lease.probe.extend_lease(self._lease.file, self._lease.id)
            except PhoneError as error:  # whoever works with the phone meets it too, and does something about it
                self._log.info("the lease could not be extended: %s", error)
