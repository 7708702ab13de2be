"""Runs that want the same phones: none waits for ever, and none keeps what another waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.bench.phone import ConnectedPhone
from harness.core.provider import Endpoint
from harness.fleet import taking
from harness.fleet.states import Why
from harness.fleet.taking import take_all
from harness.phone.identity import Identity
from harness.phone.tier import Placement

BUSY = Why("busy", "in use by bob")
LOST = Why("device_lost", "gone")
LONG_S = 20.0
PLACED = Placement("mid", "rule 2 (mid) fits", 2)


def phone(name: str, lease: Any = None) -> ConnectedPhone:
    """A phone whose id sorts as its name does."""
    nothing = cast(Any, None)
    return ConnectedPhone(Endpoint(name), nothing, nothing, nothing, Identity(f"id-{name}"), PLACED, lease)


A, B, C = phone("a"), phone("b"), phone("c")


class Run:
    """A run whose first try comes to ``first`` (by name), and whose second try, in turn, to ``then``."""

    def __init__(self, first: dict[str, Why], then: dict[str, Why] | None = None) -> None:
        self.first, self.then = first, then or {}
        self.done: list[str] = []
        self.waits: list[float] = []

    def take(self, one: ConnectedPhone, wait_s: float) -> ConnectedPhone | Why:
        if one.name not in self.first and not wait_s:
            return one
        if not wait_s:
            return self.first[one.name]
        self.done.append(f"wait for {one.name}")
        self.waits.append(wait_s)
        return self.then.get(one.name, one)

    def give_back(self, one: ConnectedPhone) -> None:
        self.done.append(f"give back {one.name}")

    def takes(self, *phones: ConnectedPhone, wait_s: float = LONG_S, clock: Callable[[], float] = lambda: 0.0) -> Any:
        return take_all(phones, self.take, self.give_back, wait_s, clock=clock)


def test_phones_that_are_free_are_taken_at_once() -> None:
    run = Run({})
    assert run.takes(B, A) == {"a": A, "b": B}
    assert run.done == []


def test_without_patience_a_phone_in_use_is_left_and_the_others_are_kept() -> None:
    run = Run({"a": BUSY})
    assert run.takes(A, B, wait_s=0.0) == {"a": BUSY, "b": B}
    assert run.done == []


def test_a_phone_is_waited_for_while_only_those_before_it_are_held() -> None:
    run = Run({"b": BUSY})
    assert run.takes(C, B, A) == {"a": A, "b": B, "c": C}
    assert run.done == ["give back c", "wait for b", "wait for c"]


def test_what_cannot_be_had_in_the_end_is_left_with_its_reason() -> None:
    run = Run({"a": BUSY, "b": LOST}, then={"a": BUSY})
    assert run.takes(A, B, C) == {"a": BUSY, "b": LOST, "c": C}
    assert run.done == ["give back c", "wait for a", "wait for c"]


def test_patience_is_for_all_phones_together() -> None:
    run = Run({"a": BUSY, "b": BUSY})
    times = iter([100.0, 101.0, 115.0])
    run.takes(A, B, clock=lambda: next(times))
    assert run.waits == [LONG_S - 1, LONG_S - 15]


def test_what_is_held_is_kept_up_while_others_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []

    class Keeper:
        def __init__(self, lease: Any) -> None:
            self.name = lease.name

        def __enter__(self) -> None:
            kept.append(self.name)

        def __exit__(self, *_: object) -> None:
            kept.append(f"no more {self.name}")

    monkeypatch.setattr(taking, "Keeper", Keeper)
    held, wanted = phone("a", SimpleNamespace(name="a")), phone("b", SimpleNamespace(name="b"))
    seen: list[list[str]] = []
    run = Run({"b": BUSY})

    def take(one: ConnectedPhone, wait_s: float) -> ConnectedPhone | Why:
        seen.append(list(kept))
        return run.take(one, wait_s)

    take_all([held, wanted], take, run.give_back, LONG_S)
    assert seen[-1] == ["a"]
    assert sorted(kept) == ["a", "b", "no more a", "no more b"]


def test_two_runs_that_each_have_what_the_other_wants_both_get_all() -> None:
    changed = threading.Condition()
    holder = {"a": "one", "b": "two"}
    got: dict[str, list[bool]] = {}

    def run(who: str) -> None:
        def take(one: ConnectedPhone, wait_s: float) -> ConnectedPhone | Why:
            with changed:
                free = changed.wait_for(lambda: holder.get(one.name, who) == who, timeout=wait_s)
                if free:
                    holder[one.name] = who
                return one if free else BUSY

        def give_back(one: ConnectedPhone) -> None:
            with changed:
                del holder[one.name]
                changed.notify_all()

        taken = take_all([A, B], take, give_back, LONG_S)
        got[who] = [isinstance(answer, ConnectedPhone) for answer in taken.values()]
        for answer in taken.values():
            if isinstance(answer, ConnectedPhone):
                give_back(answer)

    both = [threading.Thread(target=run, args=(who,)) for who in ("one", "two")]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert got == {"one": [True, True], "two": [True, True]}
