"""The ladder that brings a phone back, one rung after the other, each of them logged.

Retry → reconnect its transport → wait for it → (where allowed) reboot it → give it up. The adb server is never ended,
other phones are never touched, and no rung waits longer than the plan says.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from harness.core.deadline import Deadline
from harness.core.errors import AdbFailedError, DeadlineError, FarmError, PhoneError, PhoneGoneError
from harness.core.log import phone_logger
from harness.core.reasons import Reason
from harness.core.transport import ABSENT, USABLE, ShellResult, Transport
from harness.phone.identity import ID_FILE, read_id
from harness.plan.model import Recovery

_Result = TypeVar("_Result")

HANDSHAKE_S = 5.0
RECONNECT_S = 10.0
BOOT_S = 180.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
# A phone that adb lists reconnects by itself; kicking it again and again would keep it from doing so.
_KICK_AGAIN_S = 20.0
_EXIT_CODE = 7
# Longer than what a link that cuts answers short lets through.
_NONCE_BYTES = 2048
_SERVER_GONE = "no adb server"
_MEND_SERVER = (
    "when that adb server, or the tunnel to it, is back, go on with --resume; "
    "mnn-farm doctor says what is wrong with adb on this computer"
)
# Which boot this is, and our file on the phone, $1.
_FILE_FOLLOWS = b"\nfile\n"
_WHO = 'read -r boot </proc/sys/kernel/random/boot_id; echo "$boot"; echo file; [ ! -e "$1" ] || cat "$1"'
_RETRIED = frozenset({Reason.DEVICE_LOST, Reason.DEVICE_OFFLINE, Reason.UNAUTHORIZED, Reason.LINK_STALLED})


@dataclass(frozen=True)
class Recovered:
    """How a phone came back: what was done for it, and whether it rebooted meanwhile and why it says so."""

    rungs: tuple[str, ...]
    rebooted: bool = False
    boot_reason: str = ""


@dataclass
class Known:
    """By what a phone is recognised: its id in our file on it, and its boot. Both ``None`` before they were read."""

    phone_id: str | None = None
    boot_id: str | None = None


def worth_a_climb(error: FarmError) -> bool:
    """Whether the connection may be behind ``error``, so that looking after it and trying again makes sense.

    A full disk or a refused lease is what it is. What our probe says in a way that we cannot read, the link may have
    garbled.
    """
    if not isinstance(error, PhoneError) or isinstance(error, PhoneGoneError):
        return False
    return error.transient or error.reason in (*_RETRIED, Reason.ADB_ERROR, Reason.PUSH_FAILED, Reason.HARNESS_ERROR)


class Ladder:
    """Climbs for one phone."""

    def __init__(
        self,
        transport: Transport,
        rules: Recovery,
        say: Callable[[str], None],
        *,
        known: Known | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.known = known or Known()
        self.rules = rules
        self._transport = transport
        self._say = say
        self._clock = clock
        self._sleep = sleep
        self._log = phone_logger(__name__, transport.name)

    def climb(self, error: FarmError) -> Recovered:
        """Return when the phone answers again.

        Raises:
            PhoneGoneError: it does not; the reason says in which state it was last, the message what began it.
        """
        self._log.info("trouble: %s", error)
        rungs: list[str] = []
        state, trouble = self._look()
        stalled = isinstance(trouble, DeadlineError)
        if not _usable(state, trouble):
            self._log.info("reconnecting and waiting up to %g s: %s", self.rules.wait_s, _seen(state, trouble))
            rungs.append("reconnect")
            state, trouble = self._wait(self._deadline(self.rules.wait_s, "the phone's return"))
        if not _usable(state, trouble) and state == USABLE and self.rules.reboot:
            self._log.warning("rebooting it: %s", _seen(state, trouble))
            rungs.append("reboot")
            state, trouble = self._reboot()
        if not _usable(state, trouble):
            raise self._gone(Reason.LINK_STALLED if stalled else _reason(state, trouble), state, trouble, error, rungs)
        recovered = self._recognise(error, rungs)
        how = ", ".join((*rungs, *(["it had rebooted"] if recovered.rebooted else []))) or "trying again"
        self._log.info("it answers again (%s)", how)
        return recovered

    def until_done(self, step: Callable[[], _Result]) -> _Result:
        """Do a step, again each time the phone was lost in it and came back, up to the plan's number of tries.

        Raises:
            FarmError: of the step, when climbing cannot help or was tried often enough; or the phone is gone.
        """
        tries = self.rules.tries
        while True:
            try:
                return step()
            except FarmError as error:
                if not tries or not worth_a_climb(error):
                    raise
                tries -= 1
                self.climb(error)

    def _deadline(self, seconds: float, what: str) -> Deadline:
        return Deadline(seconds, what, self._transport.name, clock=self._clock)

    def _look(self) -> tuple[str, PhoneError | None]:
        """Return how the phone is listed, and what is wrong with its shell if it is listed as usable."""
        try:
            state = self._transport.state()
        except PhoneError as error:
            return _SERVER_GONE, error
        if state != USABLE:
            return state, None
        try:
            self.shake_hands()
        except PhoneError as error:
            return state, error
        return state, None

    def shake_hands(self) -> None:
        """Check that output and exit code arrive as they were sent.

        Raises:
            PhoneError: they do not, or not in time.
        """
        nonce = secrets.token_hex(_NONCE_BYTES // 2)
        argv = ["sh", "-c", f'printf %s "$0"; exit {_EXIT_CODE}', nonce]
        answer = self._transport.shell(
            argv, deadline=self._deadline(min(HANDSHAKE_S, self.rules.stall_s), "an answer of its shell")
        )
        if answer != ShellResult(_EXIT_CODE, nonce.encode(), b""):
            raise AdbFailedError(self._transport.name, "what its shell prints does not arrive as it was sent")

    def _wait(self, deadline: Deadline) -> tuple[str, PhoneError | None]:
        """Reconnect and look again until the phone answers or the deadline passes; return the last look."""
        pause, kick_at = _FIRST_PAUSE_S, self._clock()
        while True:
            state, trouble = self._look()
            if _usable(state, trouble) or deadline.passed:
                return state, trouble
            self._say(f"waiting for the phone: {_seen(state, trouble)}")
            if state in (ABSENT, _SERVER_GONE) or self._clock() >= kick_at:
                kick_at = self._clock() + _KICK_AGAIN_S
                self._reconnect(deadline)
            self._sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _reconnect(self, deadline: Deadline) -> None:
        try:
            self._transport.reconnect(deadline=deadline.within(RECONNECT_S, "reconnecting"))
        except FarmError as error:
            self._log.info("reconnecting: %s", error)

    def _reboot(self) -> tuple[str, PhoneError | None]:
        self._say("rebooting the phone: its shell does not answer")
        try:
            self._transport.reboot(deadline=self._deadline(RECONNECT_S, "rebooting"))
        except PhoneError as error:
            self._log.info("rebooting: %s", error)
        return self._wait(self._deadline(self.rules.wait_s + BOOT_S, "the phone's return from a reboot"))

    def _gone(
        self, reason: Reason, state: str, trouble: PhoneError | None, first: FarmError, rungs: list[str]
    ) -> PhoneGoneError:
        tried = f"not back after {self.rules.wait_s:g} s ({', '.join(rungs)}): {_seen(state, trouble)}"
        remedy = _MEND_SERVER if state == _SERVER_GONE else ""
        message = f"{tried}; it began with: {first.message}"
        gone = PhoneGoneError(self._transport.name, message, reason=reason, remedy=remedy)
        gone.of_host = state == _SERVER_GONE
        return gone

    def recognise(self) -> Recovered:
        """Look whether it is still the phone that we know, and whether it has rebooted since.

        Raises:
            PhoneGoneError: another phone answers in the place of ours (reason ``device_lost``).
            PhoneError: the phone or the connection failed.
        """
        return self._recognise(None, [])

    def _recognise(self, first: FarmError | None, rungs: list[str]) -> Recovered:
        """Tell a reboot from a drop, and another phone from ours."""
        transport, known = self._transport, self.known
        deadline = self._deadline(HANDSHAKE_S + BOOT_S, "the phone's boot")
        try:
            boot_id, phone_id = self._who(deadline)
            rebooted = bool(known.boot_id and boot_id and boot_id != known.boot_id)
            boot_reason = self._await_boot(deadline) if rebooted else ""
            if rebooted:  # what lies on the phone may not have been there before it was up
                _, phone_id = self._who(deadline)
        except PhoneError as error:
            if first is None:
                raise
            raise PhoneGoneError(transport.name, f"lost again: {error.message}", reason=error.reason) from first
        if known.phone_id is not None and phone_id != known.phone_id and (rebooted or phone_id is not None):
            raise PhoneGoneError(
                transport.name,
                "another phone answers under its serial",
                remedy="plug the right one in again",
                reason=Reason.DEVICE_LOST,
            ) from first
        known.boot_id = boot_id or known.boot_id
        return Recovered(tuple(rungs), rebooted, boot_reason)

    def _who(self, deadline: Deadline) -> tuple[str, str | None]:
        """Return the phone's boot id, ``""`` where it tells none, and the id in our file on it."""
        argv = ["sh", "-c", _WHO, "sh", f"{self._transport.base_dir}/{ID_FILE}"]
        boot, _, file = self._transport.shell(argv, deadline=deadline).stdout.partition(_FILE_FOLLOWS)
        return boot.decode("utf-8", "replace").strip(), read_id(file) if file else None

    def _await_boot(self, deadline: Deadline) -> str:
        """Wait until Android is up, where the phone tells, and return why the phone says it booted."""
        while True:
            answer = self._transport.shell(["getprop", "sys.boot_completed"], deadline=deadline)
            if answer.exit_code != 0 or _text(answer) == "1":
                break
            deadline.remaining_s()
            self._sleep(_LONGEST_PAUSE_S)
        said = self._transport.shell(["getprop", "sys.boot.reason"], deadline=deadline)
        return _text(said) or _text(self._transport.shell(["getprop", "ro.boot.bootreason"], deadline=deadline))


def _reason(state: str, trouble: PhoneError | None) -> Reason:
    """Return what a phone that did not come back is said to be, by its last state."""
    if state == _SERVER_GONE:
        return Reason.ADB_ERROR
    if state == ABSENT:
        return Reason.DEVICE_LOST
    if state.startswith(("unauthorized", "authorizing")):
        return Reason.UNAUTHORIZED
    if state != USABLE:
        return Reason.DEVICE_OFFLINE
    return Reason.LINK_STALLED if isinstance(trouble, DeadlineError) else Reason.ADB_ERROR


def _usable(state: str, trouble: PhoneError | None) -> bool:
    return state == USABLE and trouble is None


def _seen(state: str, trouble: PhoneError | None) -> str:
    if trouble is not None:
        return trouble.message
    return "adb does not list it" if state == ABSENT else f"adb lists it as {state}"


def _text(result: ShellResult) -> str:
    return result.stdout.decode("utf-8", "replace").strip()
