"""Taking all phones of a run, so that two runs that want the same phones never wait for each other for ever."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TypeVar

from harness.bench.lease import Keeper
from harness.bench.phone import ConnectedPhone
from harness.core.reasons import Reason
from harness.fleet.states import Why

MAX_AT_ONCE = 64
"""So many phones are met side by side; those that hang until their deadlines must not keep others waiting."""

_One = TypeVar("_One")
_Made = TypeVar("_Made")
# Takes a phone that was looked at, waiting so many seconds for whoever has it.
Take = Callable[[ConnectedPhone, float], "ConnectedPhone | Why"]


def side_by_side(what: Callable[[_One], _Made], them: Sequence[_One]) -> list[_Made]:
    """Do something with each, in a thread of its own; return what came of it in their order."""
    if not them:
        return []
    with ThreadPoolExecutor(max_workers=min(len(them), MAX_AT_ONCE), thread_name_prefix="phone") as pool:
        return list(pool.map(what, them))


def take_all(
    phones: Sequence[ConnectedPhone],
    take: Take,
    give_back: Callable[[ConnectedPhone], None],
    wait_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, ConnectedPhone | Why]:
    """Take phones side by side; those in use are then waited for, ``wait_s`` in all, one after the other by their ids.

    Two runs that want the same phones could else each hold what the other waits for. So nobody waits for a phone while
    it holds one that comes later: that is given back first, and taken again in its turn. What is held is kept up.

    Returns:
        By the phone's name: the phone, or why it could not be taken.
    """
    in_order = sorted(phones, key=lambda phone: (phone.identity.id, phone.name))
    answers = side_by_side(lambda phone: take(phone, 0.0), in_order)
    taken = {phone.name: answer for phone, answer in zip(in_order, answers, strict=True)}
    first = next((number for number, answer in enumerate(answers) if _is_busy(answer)), None)
    if first is None or not wait_s:
        return taken
    end = clock() + wait_s
    for answer in answers[first:]:
        if isinstance(answer, ConnectedPhone):
            give_back(answer)
    with ExitStack() as held:
        for number, phone in enumerate(in_order):
            answer = answers[number]
            if number >= first and (_is_busy(answer) or isinstance(answer, ConnectedPhone)):
                answer = taken[phone.name] = take(phone, max(0.0, end - clock()))
            if isinstance(answer, ConnectedPhone) and answer.lease is not None:
                held.enter_context(Keeper(answer.lease))
    return taken


def _is_busy(answer: ConnectedPhone | Why) -> bool:
    return isinstance(answer, Why) and answer.code == Reason.BUSY.code
