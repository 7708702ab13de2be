"""Leaving a phone: what is done on it, in which order, and what must not be done."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any, cast

import pytest

from harness.bench import leave
from harness.bench.lease import PhoneLease, this_host
from harness.bench.leave import leave_as_found
from harness.bench.phone import ConnectedPhone
from harness.bench.tidy import tidy
from harness.core.errors import PhoneLostError
from harness.core.provider import Endpoint
from harness.core.transport import ShellResult
from harness.payload.probe_lease import Lease, LeaseAnswer
from harness.phone.identity import Identity
from harness.phone.tier import Placement

OURS = Lease("a" * 16, f"ann pid {os.getpid()} since 1", this_host(), "nightly", "boot-1", 9, 180_000, 1000)
THEIRS = replace(OURS, id="b" * 16, owner="bob pid 7 since 1", host="lab-2 (0/0)")
DEAD = replace(OURS, id="c" * 16, owner=f"ann pid {2**22 - 3} since 1")


class Phone:
    """A transport and a probe; notes what is done."""

    name, base_dir, path = "toy-1", "/base", "/base/bin/probe"

    def __init__(self, answer: LeaseAnswer, state: str = "device", work: bytes = b"") -> None:
        self.answer, self._state, self._work = answer, state, work
        self.done: list[str] = []

    def state(self) -> str:
        return self._state

    def shell(self, argv: list[str], **_: object) -> ShellResult:
        if argv[0] == "sh":  # looks for runs, and removes all where there are none
            assert argv[-2:] == ["/base/work", "/base/incoming"]
            if self._work:
                return ShellResult(0, self._work, b"")
            argv = ["rm", "-rf", *argv[-2:]]
        self.done.append(" ".join(argv))
        return ShellResult(0, b"", b"")

    def show_lease(self, _: str) -> LeaseAnswer:
        return self.answer

    def take_lease(self, *_: object, **__: object) -> LeaseAnswer:
        self.done.append("take")
        return LeaseAnswer("taken", replace(OURS, id="d" * 16))

    def end_lease(self, _: str, lease_id: str) -> LeaseAnswer:
        self.done.append(f"give back {lease_id[0]}")
        return LeaseAnswer("free", None)


Leave = Callable[[Phone], list[str]]


@pytest.fixture
def left(make: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Leave:
    def go(phone: Phone) -> list[str]:
        monkeypatch.setattr(leave, "restore", lambda *_: phone.done.append("restore"))
        anything = cast("Any", phone)
        lease = PhoneLease(anything, "toy-1", "/base/lease", "nightly", OURS.id)
        endpoint, who = Endpoint("toy-1"), Identity("5c0ffee0-0000-4000-8000-000000000001")
        placed = Placement("mid", "rule 2 (mid) fits", 2)
        leave_as_found(ConnectedPhone(endpoint, anything, anything, make.facts(), who, placed, lease), lambda _: None)
        return phone.done

    return go


TIDIED = ["rm -rf /base/work /base/incoming", "restore"]


def test_our_runs_are_ended_settings_put_back_and_then_others_may_have_it(left: Leave) -> None:
    phone = Phone(LeaseAnswer("held", OURS), work=b"/base/work/one/probe\n/base/work/t w o/cold-start/probe\n")
    stops = ["/base/bin/probe stop /base/work/one/probe", "/base/bin/probe stop /base/work/t w o/cold-start/probe"]
    assert left(phone) == [*stops, *TIDIED, "give back a"]


def test_a_phone_that_a_reboot_freed_is_taken_again_for_it(left: Leave) -> None:
    assert left(Phone(LeaseAnswer("free", None, previous=OURS))) == ["take", *TIDIED, "give back d"]


def test_so_is_one_that_a_dead_worker_had_taken_again(left: Leave) -> None:
    assert left(Phone(LeaseAnswer("held", DEAD))) == ["take", *TIDIED, "give back d"]


@pytest.mark.parametrize("answer", [LeaseAnswer("held", THEIRS), LeaseAnswer("free", None)])
def test_a_phone_that_others_have_or_that_was_given_back_is_left_alone(left: Leave, answer: LeaseAnswer) -> None:
    assert left(Phone(answer)) == []


def test_a_phone_that_is_not_there_is_not_waited_for(left: Leave) -> None:
    assert left(Phone(LeaseAnswer("held", OURS), state="absent")) == []


def test_a_phone_that_is_lost_meanwhile_raises_nothing(left: Leave) -> None:
    class Lost(Phone):
        def shell(self, argv: list[str], **_: object) -> ShellResult:
            raise PhoneLostError("toy-1", "gone")

    assert left(Lost(LeaseAnswer("held", OURS))) == []


def test_a_phone_without_leftovers_is_tidied_by_one_command() -> None:
    phone = cast("Any", Phone(LeaseAnswer("held", OURS)))
    tidy(phone, phone)
    assert phone.done == ["rm -rf /base/work /base/incoming"]
