"""How a push goes on, in words for people: how much of it, how fast, how long yet. The clock is given."""

from __future__ import annotations

import time
from collections.abc import Callable

_EVERY_S = 1.0
_EVERY_PERCENT = 10
# A rate over less time is no rate.
_FIRST_RATE_S = 0.5


class Pace:
    """Tells at once, and then each second or each 10 %, whichever comes first."""

    def __init__(
        self,
        label: str,
        total_bytes: int,
        done_bytes: int,
        say: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._label = label
        self._total = total_bytes
        self._done = self._first = done_bytes
        self._say = say
        self._clock = clock
        self._begun_s = self._told_s = clock()
        self._told_percent = self._percent()
        self._tell()

    def moved(self, count: int) -> None:
        """Take note of ``count`` more bytes."""
        self._done += count
        now_s, percent = self._clock(), self._percent()
        if now_s - self._told_s >= _EVERY_S or percent >= self._told_percent + _EVERY_PERCENT:
            self._told_s, self._told_percent = now_s, percent
            self._tell()

    def _percent(self) -> int:
        return 100 * self._done // self._total if self._total else 100

    def _tell(self) -> None:
        text = f"pushing {self._label} {self._percent()} % of {size_words(self._total)}"
        elapsed_s = self._clock() - self._begun_s
        if elapsed_s >= _FIRST_RATE_S and self._done > self._first:
            rate = (self._done - self._first) / elapsed_s
            left_s = max(self._total - self._done, 0) / rate
            text += f", {rate / 1e6:.{0 if rate >= 1e7 else 1}f} MB/s, {_time_words(left_s)} left"
        self._say(text)


def size_words(count: int) -> str:
    """Return a number of bytes for people, e.g. ``1.1 GB``."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def _time_words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
