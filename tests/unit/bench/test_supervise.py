"""A detached run that is followed: every way in which it can break off, on a phone that exists only here."""

from __future__ import annotations

import io
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.bench.recovery import Recovered
from harness.bench.supervise import Supervised
from harness.core.errors import (
    ConfigError,
    DeadlineError,
    FarmError,
    PhoneError,
    PhoneLostError,
    ProbeError,
    RunGoneError,
)
from harness.core.reasons import Reason
from harness.core.transport import ShellResult
from harness.payload.probe import RunSpec
from harness.payload.probe_events import End, RunLog
from harness.plan.model import Recovery

SPEC = RunSpec(argv=("run",), work_dir="/base/work/1", deadline_s=20)
END = cast("End", SimpleNamespace(why="exit"))
LOST = PhoneLostError("toy-1", "the connection broke")
SILENT = DeadlineError("toy-1", "a word of the run", 15)
KILLED = RunGoneError("toy-1", "the run has no end: its probe was killed")
BACK = Recovered(())


class Phone:
    """Attaching does in turn what ``steps`` say: an error, or ``news`` and an error, or the end."""

    name, base_dir = "toy-1", "/base"

    def __init__(self, *steps: Any, start: Any = None, there: bool = True) -> None:
        self.steps = list(steps)
        self.begins: list[Any] = [start, None]
        self.there = there
        self.done: list[Any] = []
        self.climbs: list[Any] = []
        self.stops: Any = None
        self.rules = Recovery(tries=2)

    # as a probe
    def start(self, spec: RunSpec) -> None:
        self.done.append("start")
        error = self.begins.pop(0)
        if error is not None:
            raise error

    def attach(self, folder: str, seconds: float, *, into: RunLog, **more: Any) -> RunLog:
        assert (folder, more["idle_s"]) == ("/base/work/1/probe", 15.0)
        self.done.append(("attach", into.size))
        for step in self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]:
            if isinstance(step, BaseException):
                raise step
            if step == "news":
                into.size += 100
            if step == "end":
                into.end = END
        return into

    def stop(self, folder: str) -> None:
        self.done.append("stop")
        if self.stops is not None:
            raise self.stops

    # as a transport
    def shell(self, argv: list[str], **_: object) -> ShellResult:
        self.done.append(argv[0])
        return ShellResult(0 if self.there else 1, b"", b"")

    # as a ladder
    def climb(self, error: FarmError) -> Recovered:
        outcome = self.climbs.pop(0) if self.climbs else BACK
        if isinstance(outcome, Exception):
            raise outcome
        return cast("Recovered", outcome)


Run = Callable[[Phone], Supervised]


@pytest.fixture
def run() -> Run:
    def go(phone: Phone) -> Supervised:
        anything = cast("Any", phone)
        supervised = Supervised(anything, anything, anything, SPEC)
        supervised.run(on_event=lambda _: None, keep_raw=io.BytesIO())
        return supervised

    return go


def test_a_run_is_begun_once_and_followed_to_its_end(run: Run) -> None:
    phone = Phone(["news", "end"])
    assert run(phone).log.end is END
    assert phone.done == ["start", ("attach", 0)]


def test_after_each_break_it_is_followed_from_where_it_broke(run: Run) -> None:
    phone = Phone(["news", LOST], ["news", LOST], ["news", "end"])
    supervised = run(phone)
    assert supervised.recoveries == [BACK, BACK]
    assert phone.done == ["start", ("attach", 0), ("attach", 100), ("attach", 200)]


def test_a_connection_that_breaks_after_the_last_word_costs_nothing(run: Run) -> None:
    assert run(Phone(["news", "end", LOST])).recoveries == []


def test_a_run_whose_start_was_not_answered_is_looked_for_before_it_is_begun_again(run: Run) -> None:
    phone = Phone(["end"], start=LOST)
    run(phone)
    assert phone.done == ["start", "test", ("attach", 0)]
    phone = Phone(["end"], start=LOST, there=False)
    run(phone)
    assert phone.done == ["start", "test", "start", ("attach", 0)]


def test_a_link_that_breaks_again_and_again_without_news_ends_it(run: Run) -> None:
    phone = Phone([LOST])
    with pytest.raises(PhoneLostError):
        run(phone)
    assert [step for step in phone.done if step != "start"] == [("attach", 0)] * 3


def test_one_that_breaks_often_but_brings_news_each_time_goes_on(run: Run) -> None:
    phone = Phone(*[["news", LOST]] * 9, ["end"])
    assert len(run(phone).recoveries) == 9


@pytest.mark.parametrize(
    ("boot_reason", "reason"), [("reboot", Reason.REBOOTED), ("shutdown,thermal", Reason.THERMAL_SHUTDOWN)]
)
def test_a_reboot_ends_it_with_what_the_phone_says_of_it(run: Run, boot_reason: str, reason: Reason) -> None:
    phone = Phone(["news", LOST])
    phone.climbs = [Recovered((), rebooted=True, boot_reason=boot_reason)]
    with pytest.raises(PhoneError) as raised:
        run(phone)
    assert raised.value.reason is reason
    assert boot_reason in raised.value.message


def test_a_run_that_died_with_the_connection_says_so(run: Run) -> None:
    with pytest.raises(PhoneError, match="the run was no longer there") as raised:
        run(Phone(["news", LOST], [KILLED]))
    assert raised.value.reason is Reason.ADB_ERROR
    assert "ends programs when adb drops" in raised.value.remedy


def test_a_probe_that_the_phone_killed_is_nobodys_benchmarks_fault(run: Run) -> None:
    with pytest.raises(ProbeError, match="its probe was killed") as raised:
        run(Phone([KILLED]))
    assert raised.value.reason is Reason.ADB_ERROR


def test_a_run_that_stands_still_on_a_phone_that_answers_is_woken_once(run: Run) -> None:
    phone = Phone(["news", SILENT], [SILENT], ["news", "end"])
    supervised = run(phone)
    assert supervised.woken
    assert phone.done == ["start", ("attach", 0), ("attach", 100), "input", ("attach", 100)]


def test_one_that_cannot_be_woken_is_ended_as_suspended(run: Run) -> None:
    phone = Phone(["news", SILENT], [SILENT])
    with pytest.raises(PhoneError, match="the run on it stands still") as raised:
        run(phone)
    assert raised.value.reason is Reason.SUSPENDED
    assert phone.done[-1] == "stop"


def test_a_start_that_the_phone_refused_has_not_begun_the_run() -> None:
    refused = ProbeError("toy-1", "the lease is not held by anybody", reason=Reason.LEASE_LOST)
    phone = cast("Any", Phone(["end"], start=refused))
    supervised = Supervised(phone, phone, phone, SPEC)
    with pytest.raises(ProbeError):
        supervised.run(on_event=lambda _: None, keep_raw=io.BytesIO())
    assert not supervised.begun


@pytest.mark.parametrize(
    ("stop", "over"),
    [
        (None, True),
        (RunGoneError("toy-1", "there is no run"), True),
        (ProbeError("toy-1", "garbled"), False),
        (PhoneLostError("toy-1", "gone"), False),
    ],
)
def test_whoever_stops_following_ends_the_run_and_learns_whether_that_could_be_done(stop: Any, over: bool) -> None:
    phone = cast("Any", Phone(["news", KeyboardInterrupt()]))
    supervised = Supervised(phone, phone, phone, SPEC)
    with pytest.raises(KeyboardInterrupt):
        supervised.run(on_event=lambda _: None, keep_raw=io.BytesIO())
    phone.stops = stop
    assert supervised.end() is over
    assert phone.done[-1] == "stop"


def test_a_run_that_is_over_or_never_began_needs_no_end(run: Run) -> None:
    phone = Phone(["end"])
    assert run(phone).end()
    anything = cast("Any", phone)
    assert Supervised(anything, anything, anything, SPEC).end()
    assert "stop" not in phone.done


def test_what_no_connection_is_behind_is_not_tried_again(run: Run) -> None:
    phone = Phone(["end"], start=ConfigError("no such option"))
    with pytest.raises(ConfigError):
        run(phone)
    assert phone.done == ["start"]


def test_a_phone_that_does_not_come_back_ends_it_with_what_was_read_kept() -> None:
    phone = cast("Any", Phone(["news", LOST]))
    phone.climbs = [PhoneLostError("toy-1", "given up")]
    supervised = Supervised(phone, phone, phone, SPEC)
    with pytest.raises(PhoneLostError, match="given up"):
        supervised.run(on_event=lambda _: None, keep_raw=io.BytesIO())
    assert (supervised.log.size, supervised.recoveries) == (100, [])
