"""Taking turns: phones that share processing power never measure at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from harness.core.errors import FarmError
from harness.core.reasons import Reason
from harness.core.resources import cache_dir

# A phone waits at most so long for others that share its processor.
TURN_TIMEOUT_S = 3600.0


@contextmanager
def turn(group: str, phone: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the turn of a group of phones that share processing power; ``""`` is a phone of its own.

    Raises:
        FarmError: the others did not end in time (reason ``busy``).
    """
    if not group:
        yield
        return
    lock = FileLock(cache_dir("locks") / f"measure-{group}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say("waiting for its turn: another phone that shares its processor is measuring")
        try:
            lock.acquire(timeout=TURN_TIMEOUT_S, poll_interval=0.02)
        except Timeout:
            raise FarmError(
                f"{phone}: others that share its processor measured for {TURN_TIMEOUT_S:g} s",
                remedy="run fewer phones of this kind at once",
                reason=Reason.BUSY,
            ) from None
    try:
        yield
    finally:
        lock.release()
