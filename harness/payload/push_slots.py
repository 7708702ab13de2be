"""Push slots: only so many transfers at a time go over one USB hub, whatever runs of this computer's user push.

Phones of a hub share the link from the hub to the computer. Two transfers at once over one link do not bring two
phones along in the time of one: measured on one computer, a push alone moved 670 to 730 MB/s, two at once 225 to 241
each, so less in all. One after the other, the first phone measures while the second is served. Hence one slot by
default; a hub that is faster than its phones' storage is worth a second one.

A slot is a lock on a file in the state folder, so it is free again when whoever has it is killed. Beside it a file
tells who that is. Runs that were told of different numbers share the slots that both know.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from harness.core.deadline import Deadline
from harness.core.errors import FarmError
from harness.core.ids import content_id
from harness.core.log import phone_logger
from harness.core.provider import Endpoint
from harness.core.reasons import Reason
from harness.core.resources import state_dir

DEFAULT_SLOTS = 1
# No push that goes on at all takes longer; counted anew whenever a slot changes hands.
SLOT_TIMEOUT_S = 3600.0
# Many may wait at once, and a transfer takes seconds.
_POLL_S = 0.1
_DIGITS = 12
# Bus, then the ports from the computer on: 1-4.2 is port 2 of the hub at port 4.
_USB_PORT = re.compile(r"(?P<hub>\d+(?:-\d+(?:\.\d+)*)?)[-.]\d+")
_THIS_COMPUTER = frozenset({"localhost", "127.0.0.1", "::1", ""})


def link_of(endpoint: Endpoint) -> str:
    """Return what a phone shares with others on the way to it: a USB hub, else its adb server.

    A phone at a port of the computer itself shares the bus.
    """
    host = "127.0.0.1" if endpoint.adb_host in _THIS_COMPUTER else endpoint.adb_host
    server = f"adb server {host}:{endpoint.adb_port}"
    port = _USB_PORT.fullmatch(endpoint.extra.get("usb", ""))
    return server if port is None else f"USB hub {port['hub']} of {server}"


@dataclass(frozen=True)
class PushSlots:
    """The slots of the link to a phone."""

    link: str
    count: int = DEFAULT_SLOTS

    def one(
        self, phone: str, label: str, say: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic
    ) -> PushSlot:
        """Return a slot for bringing ``label`` to ``phone``, which is not taken yet."""
        return PushSlot(self, phone, label, say, clock)


class PushSlot:
    """One phone's claim on a slot: a context manager that gives back what was taken inside."""

    def __init__(
        self, slots: PushSlots, phone: str, label: str, say: Callable[[str], None], clock: Callable[[], float]
    ) -> None:
        self._slots = slots
        self._phone = phone
        self._label = label
        self._say = say
        self._clock = clock
        self._log = phone_logger(__name__, phone)
        stem = f"push-{content_id({'link': slots.link})[:_DIGITS]}"
        self._files = [state_dir("locks") / f"{stem}-{number}.lock" for number in range(slots.count)]
        self._locks = [FileLock(file) for file in self._files]

    def __enter__(self) -> PushSlot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, lock in enumerate(self._locks):
            if lock.is_locked:
                self._log.info("push slot %d of %s given back", number + 1, self._slots.link)
                lock.release()

    def take_now(self) -> bool:
        """Take a slot if one is free; return whether we have one now."""
        return any(lock.is_locked for lock in self._locks) or self._take(0.0)

    def wait(self) -> None:
        """Take a slot, waiting for whoever has them; the display is told who that is.

        Raises:
            FarmError: no slot changed hands for :data:`SLOT_TIMEOUT_S` (reason ``busy``).
        """
        holders, deadline = "", self._deadline()
        while not self.take_now():
            now = self._holders()
            if now != holders:
                holders, deadline = now, self._deadline()
                self._say(f"waiting to push {self._label}: {holders} over the same {self._slots.link}")
            if deadline.passed:
                raise FarmError(
                    f"{self._phone}: others pushed over the same {self._slots.link} for {SLOT_TIMEOUT_S:g} s ({now})",
                    remedy="see what they do, or allow more at a time with --push-slots",
                    reason=Reason.BUSY,
                )
            if self._take(_POLL_S):
                return

    def _deadline(self) -> Deadline:
        return Deadline(SLOT_TIMEOUT_S, "waiting for a push slot", self._phone, clock=self._clock)

    def _take(self, seconds: float) -> bool:
        """Take the first slot that becomes free within about so long."""
        for number, lock in enumerate(self._locks):
            try:
                lock.acquire(timeout=seconds / len(self._locks), poll_interval=_POLL_S)
            except Timeout:
                continue
            _told_by(self._files[number]).write_text(f"{self._phone} ({self._label})\n", encoding="utf-8")
            self._log.info("push slot %d of %s taken", number + 1, self._slots.link)
            return True
        return False

    def _holders(self) -> str:
        told = [_read(_told_by(file)) for file in self._files]
        names = ", ".join(who for who in told if who) or "somebody"
        return f"{names} {'push' if len(self._files) > 1 else 'pushes'}"


def _told_by(lock: Path) -> Path:
    return lock.with_suffix(".who")


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return ""
