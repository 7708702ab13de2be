"""A virtual phone to measure on, and the time that something takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harness.core.provider import Endpoint, load_provider


@contextmanager
def provided(profile: str) -> Iterator[Endpoint]:
    """Provide one virtual phone of this profile."""
    with provided_phones(profile) as endpoints:
        yield endpoints[0]


@contextmanager
def provided_phones(word: str) -> Iterator[list[Endpoint]]:
    """Provide virtual phones: a profile's name, or how many."""
    provider = load_provider("virtual")
    try:
        yield provider.start([word])
    finally:
        provider.stop()


def timed_ms(action: Callable[[], object]) -> float:
    """Return how long ``action`` took, in ms."""
    begin = time.perf_counter()
    action()
    return (time.perf_counter() - begin) * 1000
