"""Screen and sleep of one phone.

The screen goes off after ``screen_off_timeout`` without a key, unless it is told to stay on while plugged. A phone
that is off, on no charger and left alone for :data:`SUSPEND_AFTER_S` suspends: what runs then is stopped until the
screen comes on. What the kernel's clocks would show (BOOTTIME running ahead of MONOTONIC) is not modelled, because all
phones share the clocks of this PC.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SUSPEND_AFTER_S = 3.0
DEFAULT_TIMEOUT_S = 600.0
_MOST_MS = 2**31


class PowerState:
    """Whether one phone is awake."""

    def __init__(self, now_s: float) -> None:
        self.wakefulness = "Awake"
        self.suspends = False
        self._activity_s = now_s
        self._off_since_s: float | None = None
        self._timeout_s = DEFAULT_TIMEOUT_S
        self._stay_on = 0

    def apply(self, asked: Mapping[str, Any], now_s: float) -> None:
        """Take over what commands of the phone asked for; see :mod:`harness.virtual.droid.store`."""
        timeout_ms = asked.get("screen_off_timeout_ms")
        if isinstance(timeout_ms, int) and 0 < timeout_ms < _MOST_MS:
            self._timeout_s = timeout_ms / 1000
        stay_on = asked.get("stay_on")
        if isinstance(stay_on, int):
            self._stay_on = stay_on
        wanted = asked.get("wakefulness")
        if wanted == "Awake":
            self.wake(now_s)
        elif wanted == "Asleep":
            self.fall_asleep(now_s)

    def wake(self, now_s: float) -> None:
        """Switch the screen on, or note that somebody used it."""
        self.wakefulness, self.suspends = "Awake", False
        self._activity_s, self._off_since_s = now_s, None

    def fall_asleep(self, now_s: float, *, at_once: bool = False) -> None:
        """Switch the screen off; ``at_once`` skips the time until the phone suspends."""
        if self.wakefulness == "Awake" or at_once:
            self.wakefulness = "Asleep"
            self._off_since_s = now_s - (SUSPEND_AFTER_S if at_once else 0.0)

    def advance(self, now_s: float, *, plugged: bool) -> bool:
        """Let time pass; return whether the screen changed."""
        before = self.wakefulness
        stays_on = bool(self._stay_on) and plugged
        if before == "Awake" and not stays_on and now_s - self._activity_s >= self._timeout_s:
            self.fall_asleep(now_s)
        off = self._off_since_s
        self.suspends = off is not None and not plugged and now_s - off >= SUSPEND_AFTER_S
        return self.wakefulness != before
