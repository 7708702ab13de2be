"""Fewer cycles for the same processes: run and stop in turn, so that they run a given share of the time.

It decides only; the caller stops and continues. Late calls do not add up: each stop lasts until the share is right
again, counted from when it last began.
"""

from __future__ import annotations

PERIOD_S = 0.02
"""Run and stop together. Short beside a token's time, long beside the cost of a signal."""
_WINDOW_S = 2.0
_MOST_OWED_S = 0.2
"""After each window no more than this is made good, so that a hiccup of the PC is not paid back for ever."""


class Duty:
    """Says when processes must run and when they must not."""

    def __init__(self) -> None:
        self.running = True
        self._began_s: float | None = None
        self._ran_s = 0.0
        self._last_s = 0.0
        self._share = 1.0

    def reset(self) -> None:
        """Let everything run; the next :meth:`next_change` begins a new count."""
        self.running = True
        self._began_s = None

    def next_change(self, now_s: float, share: float) -> float:
        """Bring :attr:`running` up to date and return when to ask again.

        Args:
            now_s: the time.
            share: which part of the time they may run, above 0 and below 1.
        """
        began = self._began_s
        if began is None or share != self._share:
            self._began_s, self._ran_s, self._last_s, self._share = now_s, 0.0, now_s, share
            self.running = True
            return now_s + PERIOD_S * share
        if self.running:
            self._ran_s += now_s - self._last_s
        self._last_s = now_s
        if now_s - began > _WINDOW_S:
            ahead = min(max(began + self._ran_s / share - now_s, -_MOST_OWED_S), _MOST_OWED_S)
            began = self._began_s = now_s
            self._ran_s = ahead * share
        # Stopped until `_ran_s` is the right share of all; then running until it is a slice ahead of that.
        balanced = began + self._ran_s / share
        if self.running and balanced - now_s >= PERIOD_S * (1 - share) * 0.75:
            self.running = False
        elif not self.running and now_s >= balanced - 0.0005:
            self.running = True
        if not self.running:
            return balanced
        ahead = balanced - now_s
        return now_s + max(0.001, PERIOD_S * share - ahead * share / (1 - share))
