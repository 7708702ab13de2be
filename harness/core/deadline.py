"""The one deadline object: every wait on a phone has one, and when it passes it says what was awaited where."""

from __future__ import annotations

import time
from collections.abc import Callable

from harness.core.errors import DeadlineError


class Deadline:
    """A point in time by which ``what`` must be done on ``phone``.

    A deadline is handed down: a step inside takes :meth:`within`, which never outlives its parent.
    """

    def __init__(self, seconds: float, what: str, phone: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self.what = what
        self.phone = phone
        self._clock = clock
        self._end = clock() + seconds

    def remaining_s(self) -> float:
        """Return the seconds left.

        Raises:
            DeadlineError: none are left.
        """
        left = self._end - self._clock()
        if left <= 0:
            raise DeadlineError(self.phone, self.what, self.seconds)
        return left

    @property
    def passed(self) -> bool:
        """Whether the time is over."""
        return self._clock() >= self._end

    def within(self, seconds: float, what: str) -> Deadline:
        """Return a deadline for a step: ``seconds`` from now, but never after this one."""
        left = self.remaining_s()
        return Deadline(min(seconds, left), what, self.phone, clock=self._clock)
