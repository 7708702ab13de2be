"""A run that survives the cable: it goes on by itself on the phone, and is read again from the byte where it broke.

The probe on the phone keeps its events, its deadlines and its lease without us. When the connection breaks the ladder
brings the phone back; the boot id tells a drop from a reboot. A run that stands still although the phone answers has
been put to sleep with it: the phone is woken, and the gap in the samples speaks for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO

from harness.bench.recovery import Ladder, Recovered, worth_a_climb
from harness.core.deadline import Deadline
from harness.core.errors import DeadlineError, FarmError, PhoneError, ProbeError, RunGoneError
from harness.core.log import phone_logger
from harness.core.reasons import Reason
from harness.core.transport import Transport
from harness.payload.probe import Probe, RunSpec
from harness.payload.probe_events import Event, RunLog

ASK_S = 30.0
# How much longer than the run's own deadline the phone may take to tell its end.
GRACE_S = 30.0


@dataclass
class Supervised:
    """A detached run on one phone, from its start to its end.

    Attributes:
        log: all that was read so far, also when the run was lost.
        recoveries: how the phone came back, each time it was lost meanwhile.
        woken: whether the phone had to be woken.
        begun: whether the phone runs it, or may do.
    """

    transport: Transport
    probe: Probe
    ladder: Ladder
    spec: RunSpec
    log: RunLog = field(default_factory=RunLog)
    recoveries: list[Recovered] = field(default_factory=list)
    woken: bool = False
    begun: bool = False

    def __post_init__(self) -> None:
        self._without_news = 0
        self._dropped = False
        self._unsure = False
        self._say = phone_logger(__name__, self.transport.name)

    def run(self, *, on_event: Callable[[Event], None], keep_raw: BinaryIO) -> RunLog:
        """Start the run and follow it to its end, whatever the connection does.

        Raises:
            PhoneGoneError: the phone did not come back.
            PhoneError: it came back without the run (reason ``rebooted``, ``thermal_shutdown`` or ``adb_error``), or
                stands still (``suspended``).
            ProbeError: the probe refused to run it.
        """
        rules = self.ladder.rules
        deadline = Deadline(self.spec.deadline_s + GRACE_S, f"a run of {self.spec.argv[0]}", self.transport.name)
        while True:
            had = self.log.size
            try:
                if not self.begun:
                    self._start()
                self.log = self.probe.attach(
                    self.spec.events_dir,
                    deadline.remaining_s(),
                    into=self.log,
                    idle_s=rules.stall_s,
                    on_event=on_event,
                    keep_raw=keep_raw,
                )
                return self.log
            except FarmError as error:
                if self.log.end is not None:
                    return self.log  # it was lost after its last word
                if not worth_a_climb(error):
                    raise
                self._without_news = self._without_news + 1 if self.log.size == had else 0
                self._bring_back(error)

    def _start(self) -> None:
        """Start it. Only a refusal is sure not to have begun it."""
        self.begun = True
        try:
            self.probe.start(self.spec)
        except ProbeError:
            self.begun = False
            raise
        except FarmError:
            self._unsure = True
            raise

    def _bring_back(self, error: FarmError) -> None:
        """Return when the run can be followed again; raises what became of it otherwise."""
        tries = self.ladder.rules.tries
        recovered = self.ladder.climb(error)
        self.recoveries.append(recovered)
        if recovered.rebooted:
            raise rebooted(self.transport.name, recovered)
        if self._unsure:
            self._unsure, self.begun = False, self._is_there()
        elif isinstance(error, RunGoneError) and self._dropped:
            raise PhoneError(
                self.transport.name,
                f"after the connection broke the run was no longer there ({error.message})",
                remedy="this phone ends programs when adb drops: use another cable or port",
                reason=Reason.ADB_ERROR,
            ) from error
        if self._without_news > tries:
            raise error
        self._dropped = self._dropped or error.transient
        if isinstance(error, DeadlineError) and self._without_news:
            self._stands_still(error)

    def _is_there(self) -> bool:
        """Whether a start whose answer was lost has begun the run."""
        deadline = Deadline(ASK_S, "looking for the run", self.transport.name)
        argv = ["test", "-e", f"{self.spec.events_dir}/events.jsonl"]
        return self.transport.shell(argv, deadline=deadline).exit_code == 0

    def _stands_still(self, error: FarmError) -> None:
        """The phone answers and its run tells nothing: wake it, once."""
        if self.woken:
            self.end()
            raise PhoneError(
                self.transport.name,
                f"it answers, but the run on it stands still ({error.message})",
                remedy="keep its screen on and do not let it sleep",
                reason=Reason.SUSPENDED,
            ) from error
        self.woken = True
        self._say.info("the run stands still: waking the phone")
        deadline = Deadline(ASK_S, "waking the phone", self.transport.name)
        self.transport.shell(["input", "keyevent", "KEYCODE_WAKEUP"], deadline=deadline)

    def end(self) -> bool:
        """Make sure that it does not run on; return whether it is over as far as anybody can tell.

        Whoever stops following has to say so: the run itself does not mind.
        """
        if self.log.end is not None or not self.begun:
            return True
        try:
            self.probe.stop(self.spec.events_dir)
        except RunGoneError as error:
            self._say.info("ending the run: %s", error)
        except PhoneError as error:
            self._say.warning("the run on the phone could not be ended: %s", error)
            return False
        return True


def rebooted(phone: str, recovered: Recovered) -> PhoneError:
    """Return the error of what a reboot interrupted: a shutdown from heat is the product's, any other the lab's."""
    why = f" (it says: {recovered.boot_reason})" if recovered.boot_reason else ""
    if "thermal" in recovered.boot_reason:
        return PhoneError(phone, f"the phone shut down from heat{why}", reason=Reason.THERMAL_SHUTDOWN)
    return PhoneError(phone, f"the phone rebooted{why}", reason=Reason.REBOOTED)
