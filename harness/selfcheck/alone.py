"""What becomes of a run while nobody is on adb: it goes on, and all that it told is there afterwards."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise

from harness.adb.recover import wait_gone
from harness.adb.server import AdbServer
from harness.core.errors import DeadlineError, PhoneError, PhoneLostError, ProbeError
from harness.payload.probe import RunSpec
from harness.payload.probe_events import Event, RunLog, parse_event
from harness.selfcheck.result import Check, Finding, NotCheckableError, broken, holds, unknown
from harness.selfcheck.subject import RETURN_S, Subject

_ALONE_S = 4
# The last second of the run is followed live, so that its end is seen coming.
_WATCHED_S = 1
_SAMPLE_MS = 100
# A phone that is awake but busy may be late by much less than this.
_STILL_S = 1.0
_FOLLOW_S = 30.0
_LINES = 60
_COUNT = f"i=0; while [ $i -lt {_LINES} ]; do echo $i; i=$((i+1)); sleep 0.05; done"
_CUT_AFTER = b"\n12\n"
_PULL_S, _PLUG_S = 60.0, 120.0


@dataclass(frozen=True)
class Stillness:
    """The longest pause between two samples, when it began, and how long the phone was suspended meanwhile."""

    longest_s: float
    at_s: float
    suspended_s: float

    @property
    def stood_still(self) -> bool:
        """Whether that was more than being late."""
        return self.longest_s > _STILL_S or self.suspended_s > 0.05

    def __str__(self) -> str:
        return (
            f"longest pause between samples {self.longest_s:.2f} s (after {self.at_s:.1f} s), "
            f"suspended for {self.suspended_s:.2f} s"
        )


def stillness(log: RunLog) -> Stillness:
    """Read off a run's stamps whether the phone stood still. Pure.

    CLOCK_BOOTTIME goes on while a phone is suspended and CLOCK_MONOTONIC does not; a process that was merely stopped
    shows in the pause alone.
    """
    stamps = [stamp for stamp in (log.start, *log.samples, log.end) if stamp is not None]
    if len(stamps) < 2:
        return Stillness(0.0, 0.0, 0.0)
    pauses = [
        ((late.boot_ns - early.boot_ns) / 1e9, (early.boot_ns - stamps[0].boot_ns) / 1e9)
        for early, late in pairwise(stamps)
    ]
    gap_ns = (stamps[-1].boot_ns - stamps[-1].mono_ns) - (stamps[0].boot_ns - stamps[0].mono_ns)
    return Stillness(*max(pauses), max(0, gap_ns) / 1e9)


def missing_events(content: bytes) -> int:
    """Return how many events lack in a run's lines, by their numbers. Pure.

    Raises:
        ValueError: a line is no event.
    """
    numbers = [parse_event(line).seq for line in content.splitlines()]
    return max(numbers, default=-1) + 1 - len(set(numbers))


def _no_sleep(subject: Subject) -> Finding:
    spec = subject.spec("alone", ["sleep", str(_ALONE_S)], 60, interval_ms=_SAMPLE_MS)
    subject.start(spec)
    subject.say(f"leaving the phone alone for {_ALONE_S - _WATCHED_S} s")
    time.sleep(_ALONE_S - _WATCHED_S)
    try:
        with subject.keep("alone") as raw:
            log = subject.probe.attach(spec.events_dir, _FOLLOW_S, keep_raw=raw)
    except DeadlineError:
        state = _wakefulness(subject)
        subject.shell("input", "keyevent", "KEYCODE_WAKEUP")
        return broken(f"a run of {_ALONE_S} s did not end in {_FOLLOW_S:g} s: it stands still ({state})")
    still = stillness(log)
    if still.stood_still:
        return broken(f"the phone stood still: {still} ({_wakefulness(subject)})", longest_pause_s=still.longest_s)
    return holds(f"{still}, in {len(log.samples)} samples", longest_pause_s=still.longest_s)


def _wakefulness(subject: Subject) -> str:
    dump = subject.text("dumpsys", "power")
    words = [line.strip() for line in dump.splitlines() if line.strip().startswith(("mWakefulness=", "mIsPowered="))]
    return ", ".join(words) or "dumpsys power tells nothing"


def _detached_run(subject: Subject) -> Finding:
    _server_of(subject)
    spec = subject.spec("detached", ["sh", "-c", _COUNT], 60, interval_ms=_SAMPLE_MS)
    before = subject.start(spec)
    with subject.keep("detached") as raw:
        log = RunLog()
        cut_at: int | None = None

        def pull(_event: Event) -> None:
            nonlocal cut_at
            if cut_at is None and _CUT_AFTER in log.stdout:
                cut_at = log.size
                subject.transport.reconnect(deadline=subject.deadline.within(RETURN_S, "a reconnect"))

        try:
            subject.probe.attach(spec.events_dir, _FOLLOW_S, into=log, on_event=pull, keep_raw=raw)
            return unknown("adb's reconnect did not break the connection: the cable must be pulled (--ask-cable)")
        except PhoneError as error:
            if cut_at is None:
                raise
            subject.wait_until_back(error)
        try:
            subject.probe.attach(spec.events_dir, _FOLLOW_S, into=log, keep_raw=raw)
        except ProbeError as error:
            return broken(f"the run did not outlive the connection: {error.message}")
        missing = missing_events(raw.getvalue())
    if log.start != before or log.end is None or missing:
        return broken(f"after byte {cut_at} {missing} events are missing, or the run is another one")
    if log.end.exit_code != 0 or log.stdout.split() != [b"%d" % number for number in range(_LINES)]:
        return broken(f"it ended with {log.end.why}, exit code {log.end.exit_code}, {log.stdout[-40:]!r}")
    return holds(f"cut after byte {cut_at} of {log.size}; all {log.end.seq + 1} events are there, none twice")


def _pulled_cable(subject: Subject) -> Finding:
    if not subject.ask_cable:
        raise NotCheckableError("nobody was asked to pull it: run again with --ask-cable, beside the phone")
    server = _server_of(subject)
    spec = subject.spec("cable", ["sleep", "600"], 600, interval_ms=_SAMPLE_MS)
    subject.start(spec)
    subject.say(f"Now pull the cable of {subject.transport.name} (or switch its Wi-Fi off). You have {_PULL_S:g} s.")
    try:
        wait_gone(server, subject.serial, subject.deadline.within(_PULL_S, "pulling the cable"))
    except DeadlineError:
        raise NotCheckableError(f"the cable was not pulled within {_PULL_S:g} s") from None
    out_since = time.monotonic()
    subject.say(f"Good. Wait some seconds, then plug it in again. You have {_PLUG_S:g} s.")
    subject.wait_until_back(PhoneLostError(subject.transport.name, "its cable is out"), _PLUG_S)
    return _judge_pulled(subject, spec, time.monotonic() - out_since)


def _judge_pulled(subject: Subject, spec: RunSpec, out_s: float) -> Finding:
    try:
        end = subject.probe.stop(spec.events_dir)
        with subject.keep("cable") as raw:
            log = subject.probe.attach(spec.events_dir, _FOLLOW_S, keep_raw=raw)
            missing = missing_events(raw.getvalue())
    except ProbeError as error:
        return broken(f"the run did not outlive {out_s:.0f} s without a cable: {error.message}")
    still = stillness(log)
    if end.why != "stopped" or missing or still.stood_still:
        return broken(f"{out_s:.0f} s without a cable: ended by {end.why}, {missing} events missing, {still}")
    return holds(f"{out_s:.0f} s without a cable: the run went on, {len(log.samples)} samples, {still}")


def _server_of(subject: Subject) -> AdbServer:
    if subject.server is None:
        raise NotCheckableError("it is not on adb: there is no connection to lose")
    return subject.server


CHECKS = (
    Check(
        "no-sleep",
        "the phone does not sleep during a run, even when nobody is on adb",
        "a run that stands still gives figures of a nap",
        "keep it on a charger; in its developer options switch on: Stay awake; switch battery savers off",
        _no_sleep,
    ),
    Check(
        "detached-run",
        "a detached run goes on when the connection breaks, and loses no event",
        "a loose cable at night must not cost the run",
        "plug this phone in firmly and do not touch it; send us the parcel",
        _detached_run,
    ),
    Check(
        "pulled-cable",
        "a detached run goes on without its cable",
        "a pulled cable takes the charger away too, and then a phone may sleep",
        "plug this phone in firmly and do not touch it; send us the parcel",
        _pulled_cable,
    ),
)
