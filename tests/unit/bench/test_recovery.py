"""The ladder on a phone that exists only here, with a clock of the test's own: no rung waits in real time."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from harness.bench.recovery import Known, Ladder, Recovered, worth_a_climb
from harness.core.errors import (
    AdbFailedError,
    ConfigError,
    DeadlineError,
    FarmError,
    PhoneError,
    PhoneGoneError,
    PhoneLostError,
    ProbeError,
    ShellError,
    TransferError,
)
from harness.core.reasons import Reason
from harness.core.transport import ABSENT, USABLE, ShellResult
from harness.plan.model import Recovery

OURS = "5c0ffee0-0000-4000-8000-000000000001"
OTHER = "0ddba11f-0000-4000-8000-000000000002"
LOST = PhoneLostError("toy-1", "the connection broke")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class FakePhone:
    """Listed in ``states``, one look after the other, the last one for ever; its shell answers as ``shells`` says."""

    name, base_dir = "toy-1", "/base"

    def __init__(self, states: list[Any], shells: list[Any] | None = None) -> None:
        self.states = states
        self.shells = shells or ["well"]
        self.boot_id, self.phone_id, self.properties = "boot-1", OURS, {"sys.boot_completed": "1"}
        self.done: list[str] = []

    def state(self) -> str:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, Exception):
            raise state
        return str(state)

    def reconnect(self, **_: object) -> None:
        self.done.append("reconnect")

    def reboot(self, **_: object) -> None:
        self.done.append("reboot")
        self.states, self.shells, self.boot_id = [ABSENT, USABLE], ["well"], "boot-2"

    def shell(self, argv: list[str], **_: object) -> ShellResult:
        if argv[0] == "sh" and "boot_id" in argv[2]:
            file = json.dumps({"id": self.phone_id}).encode() if self.phone_id else b""
            return ShellResult(0 if file else 1, f"{self.boot_id}\n\nfile\n".encode() + file, b"")
        if argv[0] == "sh":
            answer = self.shells.pop(0) if len(self.shells) > 1 else self.shells[0]
            if isinstance(answer, Exception):
                raise answer
            nonce = argv[3].encode()
            return {
                "well": ShellResult(7, nonce, b""),
                "garbled": ShellResult(7, b"\xff\xfe" + nonce, b""),
                "short": ShellResult(7, nonce[:9], b""),
                "wrong exit": ShellResult(0, nonce, b""),
            }[answer]
        assert argv[0] == "getprop"
        return ShellResult(0, self.properties.get(argv[1], "").encode() + b"\n", b"")


Climb = Callable[..., Recovered]


@pytest.fixture
def climb() -> Climb:
    def go(phone: FakePhone, error: FarmError = LOST, **rules: Any) -> Recovered:
        clock = Clock()
        ladder = Ladder(
            cast("Any", phone),
            Recovery(**{"wait_s": 20.0, **rules}),
            lambda _: None,
            known=Known(OURS, "boot-1"),
            clock=clock,
            sleep=clock.sleep,
        )
        try:
            return ladder.climb(error)
        finally:
            phone.done.append(f"{clock.now:.0f} s")

    return go


def test_a_phone_that_answers_is_simply_tried_again(climb: Climb) -> None:
    phone = FakePhone([USABLE])
    assert climb(phone) == Recovered(())
    assert phone.done == ["0 s"]


def test_a_phone_that_is_gone_for_a_moment_is_plugged_in_again(climb: Climb) -> None:
    phone = FakePhone([ABSENT, ABSENT, "offline", USABLE])
    assert climb(phone) == Recovered(("reconnect",))
    assert phone.done[0] == "reconnect"


def test_a_phone_that_adb_lists_is_not_kicked_again_while_it_comes_back(climb: Climb) -> None:
    phone = FakePhone(["offline"] * 9 + [USABLE])
    climb(phone)
    assert phone.done.count("reconnect") == 1


def test_a_server_that_is_gone_is_waited_for_too(climb: Climb) -> None:
    phone = FakePhone([AdbFailedError("toy-1", "nobody listens"), USABLE])
    assert climb(phone).rungs == ("reconnect",)


@pytest.mark.parametrize(
    ("state", "shell", "reason"),
    [
        (ABSENT, "well", Reason.DEVICE_LOST),
        ("offline", "well", Reason.DEVICE_OFFLINE),
        ("connecting", "well", Reason.DEVICE_OFFLINE),
        ("unauthorized", "well", Reason.UNAUTHORIZED),
        ("authorizing", "well", Reason.UNAUTHORIZED),
        ("recovery", "well", Reason.DEVICE_OFFLINE),
        (AdbFailedError("toy-1", "nobody listens"), "well", Reason.ADB_ERROR),
        (USABLE, DeadlineError("toy-1", "an answer", 5), Reason.LINK_STALLED),
        (USABLE, LOST, Reason.ADB_ERROR),
        (USABLE, "garbled", Reason.ADB_ERROR),
        (USABLE, "short", Reason.ADB_ERROR),
        (USABLE, "wrong exit", Reason.ADB_ERROR),
    ],
)
def test_a_phone_that_does_not_come_back_is_given_up_with_its_last_state(
    climb: Climb, state: Any, shell: Any, reason: Reason
) -> None:
    phone = FakePhone([state], [shell])
    with pytest.raises(PhoneGoneError) as raised:
        climb(phone)
    assert raised.value.reason is reason
    assert "not back after 20 s (reconnect)" in raised.value.message
    assert "it began with: toy-1: the connection broke" in raised.value.message
    assert 20 <= int(phone.done[-1].split()[0]) <= 22


def test_a_link_that_stalled_stays_the_cause_when_reconnecting_makes_it_offline(climb: Climb) -> None:
    phone = FakePhone([USABLE, "offline"], [DeadlineError("toy-1", "an answer", 5)])
    with pytest.raises(PhoneGoneError) as raised:
        climb(phone)
    assert raised.value.reason is Reason.LINK_STALLED


def test_a_phone_is_rebooted_only_where_that_is_allowed(climb: Climb) -> None:
    phone = FakePhone([USABLE], ["garbled"])
    with pytest.raises(PhoneGoneError):
        climb(phone)
    assert "reboot" not in phone.done
    phone = FakePhone([USABLE], ["garbled"])
    assert climb(phone, reboot=True) == Recovered(("reconnect", "reboot"), rebooted=True)


def test_a_reboot_is_told_from_a_drop_by_the_boot_id_and_waits_for_android(climb: Climb) -> None:
    phone = FakePhone([ABSENT, USABLE])
    phone.boot_id = "boot-2"
    phone.properties = {"sys.boot_completed": "", "sys.boot.reason": "shutdown,thermal"}
    looks: list[str] = []

    class Booting(FakePhone):
        def shell(self, argv: list[str], **more: object) -> ShellResult:
            if argv == ["getprop", "sys.boot_completed"]:
                looks.append("look")
                self.properties["sys.boot_completed"] = "1" if len(looks) == 3 else ""
            return super().shell(argv, **more)

    phone.__class__ = Booting
    assert climb(phone) == Recovered(("reconnect",), rebooted=True, boot_reason="shutdown,thermal")
    assert len(looks) == 3


def test_the_second_reboot_is_noticed_as_well_as_the_first() -> None:
    phone = FakePhone([USABLE])
    ladder = Ladder(cast("Any", phone), Recovery(), lambda _: None, known=Known(OURS, "boot-1"))
    seen = []
    for boot in ("boot-1", "boot-2", "boot-2", "boot-3"):
        phone.boot_id = boot
        seen.append(ladder.climb(LOST).rebooted)
    assert seen == [False, True, False, True]


@pytest.mark.parametrize(("phone_id", "boot_id"), [(OTHER, "boot-9"), (OTHER, "boot-1"), ("", "boot-9")])
def test_another_phone_in_its_place_is_not_taken_for_it(climb: Climb, phone_id: str, boot_id: str) -> None:
    phone = FakePhone([USABLE])
    phone.phone_id, phone.boot_id = phone_id, boot_id
    with pytest.raises(PhoneGoneError, match="another phone answers under its serial") as raised:
        climb(phone)
    assert raised.value.reason is Reason.DEVICE_LOST


def test_our_folder_that_somebody_removed_does_not_make_it_another_phone(climb: Climb) -> None:
    phone = FakePhone([USABLE])
    phone.phone_id = ""
    assert climb(phone) == Recovered(())


@pytest.mark.parametrize(
    ("error", "worth"),
    [
        (LOST, True),
        (DeadlineError("toy-1", "pushing", 2), True),
        (AdbFailedError("toy-1", "FAIL"), True),
        (ProbeError("toy-1", "no JSON"), True),
        (TransferError("toy-1", "/x", "reset"), True),
        (TransferError("toy-1", "/x", "No space left on device"), False),
        (TransferError("toy-1", "/x", "differs", reason=Reason.PAYLOAD_CORRUPT), False),
        (ShellError("toy-1", ["mkdir"], 1, b"", b"mkdir: '/x': Read-only file system"), False),
        (ProbeError("toy-1", "EACCES", reason=Reason.NOEXEC), False),
        (PhoneError("toy-1", "low", reason=Reason.LOW_BATTERY), False),
        (PhoneGoneError("toy-1", "given up"), False),
        (FarmError("held", reason=Reason.BUSY), False),
        (ConfigError("no such model"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_what_the_connection_may_be_behind_is_worth_a_climb(error: FarmError, worth: bool) -> None:
    assert worth_a_climb(error) is worth


def until_done(fails: list[FarmError], tries: int = 2) -> tuple[str, int]:
    """Do a step that fails so, one after the other; return what it gave and how often it was done."""
    done = 0

    def step() -> str:
        nonlocal done
        done += 1
        if fails:
            raise fails.pop(0)
        return "well"

    clock = Clock()
    ladder = Ladder(
        cast("Any", FakePhone([USABLE])), Recovery(tries=tries), lambda _: None, clock=clock, sleep=clock.sleep
    )
    return ladder.until_done(step), done


def test_a_step_is_done_again_when_the_phone_is_back() -> None:
    assert until_done([]) == ("well", 1)
    assert until_done([LOST, LOST]) == ("well", 3)


def test_a_step_is_not_done_more_often_than_the_plan_says() -> None:
    with pytest.raises(PhoneLostError):
        until_done([LOST, LOST, LOST])


def test_a_step_that_the_connection_is_not_behind_is_not_done_again() -> None:
    fails = [FarmError("no", reason=Reason.NO_SPACE), LOST]
    with pytest.raises(FarmError, match="no"):
        until_done(fails)
    assert fails == [LOST]
