"""Whether a phone throttled, when, and what was left of its speed: from speed, clocks and heat together. Pure.

Each alone lies: a cap may fall without any effect, speed falls for other reasons (another app, a collector), and many
phones never tell a thermal status. So:

============================== ==========================================================================
what fell                      judgement
============================== ==========================================================================
a cap and, with it, speed      throttled; the moment is the cap's
a cap, speed did not           not throttled, noted
speed and the current clock    throttled if the phone had warmed by then; the moment is the speed's
speed; clocks were steady      throttled if the phone was hot or its status says so then, else noted
speed; clocks cannot be read   throttled: speed is all there is, and ``judged_by`` says so
============================== ==========================================================================

For a GPU backend the processor's clocks say nothing, and count as not readable. How a fall of speed is found is told in
:mod:`harness.bench.levels`.

``burst`` is the speed until the onset, of a run that did not throttle in its first quarter; ``sustained`` that in the
last quarter (after the onset), once it no longer falls; both over decode time only and at a generation's mean depth.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from harness.bench.levels import Array, Bins, Fall, find_fall, is_slower, series_of
from harness.bench.sensed import State, mean_known
from harness.bench.timeline import Timeline, Token

# A cap that is lower by less is a governor's rounding.
CAP_FELL = 0.97
# A current clock jumps about: it has to be lower by more, over seconds.
_CLOCK_FELL = 0.95
# A cap that is up again most of the next seconds did not fall.
_HELD_MS = 2000.0
# How long before and after a moment levels and clocks are compared.
_COMPARED_MS = 30_000.0
# With the cap as a witness so small a fall of speed counts.
_FALL_WITH_CAP = 0.02
_SIGMAS_WITH_CAP = 2.0
# Skin at which phones begin to throttle by themselves; a chip at which all do.
_HOT_SKIN_C, _HOT_CHIP_C = 42.0, 80.0
_WARMED_C = 3.0
_LIGHT = 1
_QUARTER = 0.25


@dataclass(frozen=True)
class Throttling:
    """What became of the speed of a run; times in s since the first timed prompt, speeds in tok/s.

    Attributes:
        throttled: ``None`` when neither speed nor clocks can be judged.
        onset_s: when it began; ``None`` when it did not, or that is not known.
        recovered_s: when speed rose again, if it did.
        tail_s: from then on it is the sustained part.
        judged_by: what could be judged by, e.g. ``speed, clocks, heat``; ``speed alone``; ``nothing``.
        notes: what else there is to say, each a sentence.
    """

    throttled: bool | None
    onset_s: float | None = None
    recovered_s: float | None = None
    burst_tps: float | None = None
    sustained_tps: float | None = None
    tail_s: float | None = None
    judged_by: str = "nothing"
    notes: tuple[str, ...] = ()

    @property
    def sustained_ratio(self) -> float | None:
        """Sustained over burst speed."""
        return None if not self.burst_tps or self.sustained_tps is None else self.sustained_tps / self.burst_tps


def throttling_of(timeline: Timeline, *, backend: str = "cpu", statuses: Sequence[int | None] = ()) -> Throttling:
    """Judge a run. ``statuses`` are Android's thermal status before and after it, where known."""
    return _Judge(timeline, backend, [status for status in statuses if status is not None]).judge()


class _Judge:
    """One run under judgement; all moments in ms since the first timed prompt."""

    def __init__(self, timeline: Timeline, backend: str, statuses: list[int]) -> None:
        decoded = [token for token in timeline.timed if token.position]
        self.series = series_of(list(_generations(timeline, decoded)))
        self.end_ms = float(self.series.at_ms[-1]) if decoded else 0.0
        begun_ns = timeline.begun_ns or 0
        during = [(state, (state.at_ns - begun_ns) / 1e6) for state in timeline.states]
        self.states = [(state, at_ms) for state, at_ms in during if 0 <= at_ms <= self.end_ms] if decoded else during
        self.of_cpu = backend == "cpu"
        self.statuses = statuses
        self.bins = Bins(self.series)
        self.notes: list[str] = []

    def judge(self) -> Throttling:
        fall = find_fall(self.series)
        cap_ms = self._cap_fell_ms() if self.of_cpu else None
        onset_ms: float | None = None
        if cap_ms is not None and self._slower_from(cap_ms):
            onset_ms = cap_ms if fall is None or fall.at_ms > cap_ms - _HELD_MS else fall.at_ms
        elif fall is not None and self._is_heat(fall, cap_ms):
            onset_ms = fall.at_ms
        if cap_ms is not None and onset_ms is None:
            self.notes.append(f"a clock's cap fell after {cap_ms / 1000:.1f} s, and speed did not fall with it")
        throttled = onset_ms is not None
        judged = [name for name, known in self._sources() if known]
        recovered_ms = fall.until_ms if throttled and fall is not None else None
        if recovered_ms is not None:
            self.notes.append(f"speed rose again after {recovered_ms / 1000:.1f} s")
        burst, sustained, tail_ms = self._speeds(onset_ms)
        return Throttling(
            throttled=throttled if "speed" in judged or "clocks" in judged else None,
            onset_s=_seconds(onset_ms),
            recovered_s=_seconds(recovered_ms),
            burst_tps=burst,
            sustained_tps=sustained,
            tail_s=_seconds(tail_ms),
            judged_by=f"{judged[0]} alone" if len(judged) == 1 else ", ".join(judged) or "nothing",
            notes=tuple(self.notes),
        )

    def _sources(self) -> Iterable[tuple[str, bool]]:
        states = [state for state, _ in self.states]
        yield "speed", len(self.bins) >= 2
        yield "clocks", self._clocks_known
        yield "heat", any(state.celsius for state in states)
        yield "status", bool(self.statuses)

    @property
    def _clocks_known(self) -> bool:
        return self.of_cpu and any(state.cap_ratio is not None for state, _ in self.states)

    def _cap_fell_ms(self) -> float | None:
        """Return when the cap of the busy cores fell and stayed down, relative to its own at the start."""
        caps = [(at_ms, state.cap_ratio) for state, at_ms in self.states if state.cap_ratio is not None]
        if not caps:
            return None
        moments, ratios = np.array([at for at, _ in caps]), np.array([cap for _, cap in caps])
        low = ratios < CAP_FELL * ratios[0]
        for place in np.flatnonzero(low):
            after = low[(moments >= moments[place]) & (moments <= moments[place] + _HELD_MS)]
            if after.mean() > 0.5:
                return float(moments[place])
        return None

    def _slower_from(self, at_ms: float) -> bool:
        """Whether speed was lower after that moment than before it; a cap that fell at once is believed without."""
        before, after = self._levels(at_ms - _COMPARED_MS, at_ms), self._levels(at_ms, np.inf)
        if not before.size or not after.size:
            return bool(after.size)
        return is_slower(before, after, _FALL_WITH_CAP, _SIGMAS_WITH_CAP)

    def _levels(self, begin_ms: float, end_ms: float) -> Array:
        """Return the levels of the bins that lie within a span: a bin that its edge cuts belongs to neither side."""
        begins = np.array([self.bins.begins_ms(number) for number in range(len(self.bins))])
        ends = np.append(begins[1:], self.end_ms)
        return self.bins.level[(begins >= begin_ms) & (ends <= end_ms)]

    def _is_heat(self, fall: Fall, cap_ms: float | None) -> bool:
        """Whether a fall of speed is the phone's doing; what else it was is noted."""
        if not self._clocks_known:
            return True
        if cap_ms is not None and cap_ms <= fall.at_ms:
            return True
        if self._clock_fell(fall.at_ms) or self._hot(fall.at_ms) or max(self.statuses, default=0) >= _LIGHT:
            return True
        self.notes.append(
            f"speed fell by {fall.by:.0%} after {fall.at_ms / 1000:.1f} s while clocks were steady and the phone was "
            "not hot: something else was at work"
        )
        return False

    def _clock_fell(self, at_ms: float) -> bool:
        before = mean_known(s.clock_ratio for s, at in self.states if at_ms - _COMPARED_MS <= at < at_ms)
        after = mean_known(s.clock_ratio for s, at in self.states if at_ms < at <= at_ms + _COMPARED_MS)
        fell = before is not None and after is not None and after < _CLOCK_FELL * before
        return fell and self._warmed(at_ms)

    def _warmed(self, at_ms: float) -> bool:
        """Whether the phone was warmer then than at the start; a governor lowers clocks of a load that waits, too."""
        warmth = [(at, state.lead_c) for state, at in self.states if state.lead_c is not None]
        until = [lead_c for at, lead_c in warmth if at <= at_ms + _HELD_MS]
        return not until or max(until) >= until[0] + _WARMED_C

    def _hot(self, at_ms: float) -> bool:
        then = [state for state, at in self.states if at_ms - _HELD_MS <= at <= at_ms + _COMPARED_MS]
        return any(_is_hot(state) for state in then)

    def _speeds(self, onset_ms: float | None) -> tuple[float | None, float | None, float | None]:
        """Return burst and sustained speed, and when the sustained part begins."""
        if not self.series.took_ms.size:
            return None, None, None
        first_ms = float(self.series.at_ms[0])
        tail_ms = self.end_ms - _QUARTER * (self.end_ms - first_ms)
        until_ms = first_ms + _QUARTER * (self.end_ms - first_ms) if onset_ms is None else onset_ms
        tail_ms = max(tail_ms, onset_ms or 0.0)
        middle_ms = (tail_ms + self.end_ms) / 2
        early, late = self._levels(tail_ms, middle_ms), self._levels(middle_ms, np.inf)
        if onset_ms is not None and early.size > 2 and late.size > 2 and is_slower(early, late, 0.03, 3.0):
            self.notes.append("speed still fell at the end: a longer run would have had a lower sustained speed")
        return self.series.tps(end_ms=until_ms), self.series.tps(begin_ms=tail_ms), tail_ms


def _is_hot(state: State) -> bool:
    skin = max((state.celsius[name] for name in ("skin", "battery") if name in state.celsius), default=0.0)
    chip = max((state.celsius[name] for name in ("cpu", "gpu") if name in state.celsius), default=0.0)
    return skin >= _HOT_SKIN_C or chip >= _HOT_CHIP_C


def _generations(timeline: Timeline, decoded: Sequence[Token]) -> Iterable[tuple[Array, Array]]:
    for _, group in itertools.groupby(decoded, key=lambda token: token.generation):
        tokens = list(group)
        at_ms = np.array([(token.at_ns - (timeline.begun_ns or 0)) / 1e6 for token in tokens])
        yield at_ms, np.array([token.took_ms for token in tokens])


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else round(ms / 1000, 3)
