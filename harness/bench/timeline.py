"""Every token of a run with its moment, joined with what the phone's sensors said then. Pure but for the CSV file.

A runner tells when it submitted each prompt (``begun_ns``, the clock of the probe's samples). Where it does not, or
tells a moment outside the run, the end of a generation is the probe's stamp of its line, which is read about a
millisecond after it was written.

``tokens.csv`` has one row a token, in order of time:

========== ===================================================================================================
column     meaning
========== ===================================================================================================
t_s        seconds since the first timed prompt was submitted, at which the token was there; negative: before it
generation index of the generation
kind       warmup, timed or answer
token      0 is the first of its generation
took_ms    time since the token before; for the first one since the prompt was submitted
skin_c, battery_c, cpu_c, gpu_c
           hottest zone of that meaning, °C; zones are read once a second
cap_ratio  scaling_max_freq of the busy cores ÷ their top clock
clock_ratio
           scaling_cur_freq of the busy cores ÷ their top clock
========== ===================================================================================================

What is not known is empty. A file holds at most :data:`MOST_ROWS` rows: of a longer run every second (third, …) token.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.bench.sensed import State, mean_known, states_of
from harness.payload.probe_events import RunLog
from harness.phone.thermal import Meaning
from harness.runners.events import Generation, Inference
from harness.store.schema import CurvePoint

MOST_ROWS = 200_000
MOST_POINTS = 120
# A curve of whole generations is free of the fall within each, but needs enough of them to be one.
_GENERATIONS_FOR_A_CURVE = 40
_MEANINGS: tuple[Meaning, ...] = ("skin", "battery", "cpu", "gpu")
# Beyond it a time is refused by the rules anyway, and a moment made from it would be none.
_MOST_MS = 1e12


@dataclass(frozen=True)
class Token:
    """One token: ``position`` 0 is the first of its generation, ``took_ms`` is since the one before (or the prompt).

    ``at_ns`` is when it was there, by CLOCK_MONOTONIC.
    """

    generation: int
    kind: str
    position: int
    at_ns: int
    took_ms: float
    state: State | None


@dataclass(frozen=True)
class Timeline:
    """All tokens and states of a run, in order of time; ``begun_ns`` is when the first timed prompt was submitted."""

    tokens: tuple[Token, ...]
    states: tuple[State, ...]
    begun_ns: int | None

    @cached_property
    def timed(self) -> tuple[Token, ...]:
        """The tokens of timed generations."""
        return tuple(token for token in self.tokens if token.kind == "timed")

    @cached_property
    def timed_end_ns(self) -> int | None:
        """When the last token of the last timed generation was there; ``None`` when there is none."""
        return max((token.at_ns for token in self.timed), default=None)

    def since_s(self, at_ns: int) -> float:
        """Return a moment in seconds since the first timed prompt."""
        return (at_ns - (self.begun_ns or 0)) / 1e9


def timeline_of(run: RunLog, generations: Sequence[Generation], core_max_khz: Mapping[int, int | None]) -> Timeline:
    """Join tokens and samples. A generation whose moment or times are not known has no tokens here."""
    placed = [(begun_ns, one) for begun_ns, one in zip(_begun(run, generations), generations, strict=True) if begun_ns]
    moments = [
        (one, position, at_ns, took_ms)
        for begun_ns, one in placed
        for position, (at_ns, took_ms) in enumerate(_moments(begun_ns, one))
    ]
    span_ns = (placed[0][0], max(at_ns for _, _, at_ns, _ in moments)) if moments else None
    states = states_of(run, core_max_khz, span_ns)
    stamps = [state.at_ns for state in states]
    tokens = []
    for one, position, at_ns, took_ms in moments:
        place = bisect_right(stamps, at_ns)
        state = states[place - 1] if place else None
        tokens.append(Token(one.index, one.kind, position, at_ns, took_ms, state))
    first = next((begun_ns for begun_ns, one in placed if one.kind == "timed"), None)
    return Timeline(tuple(tokens), tuple(states), first)


def timeline_of_inferences(
    run: RunLog, inferences: Sequence[Inference], core_max_khz: Mapping[int, int | None]
) -> Timeline:
    """Join inferences and samples: each counts as one token, which was there when its outputs were.

    One whose moment or latency is not known, or lies outside the run, is none.
    """
    first_ns = run.start.mono_ns if run.start is not None else 0
    last_ns = run.end.mono_ns if run.end is not None else 2**63
    placed = [
        (one.begun_ns, one, one.begun_ns + int(one.latency_ms * 1e6))
        for one in inferences
        if one.begun_ns is not None and first_ns <= one.begun_ns <= last_ns and 0 < one.latency_ms < _MOST_MS
    ]
    states = states_of(run, core_max_khz, (placed[0][0], max(end for _, _, end in placed)) if placed else None)
    stamps = [state.at_ns for state in states]
    tokens = []
    for _, one, end_ns in placed:
        place = bisect_right(stamps, end_ns)
        tokens.append(Token(one.index, one.kind, 1, end_ns, one.latency_ms, states[place - 1] if place else None))
    begun = next((begun_ns for begun_ns, one, _ in placed if one.kind == "timed"), None)
    return Timeline(tuple(tokens), tuple(states), begun)


def _moments(begun_ns: int, generation: Generation) -> Iterator[tuple[int, float]]:
    """Yield when each token came and how long it took; the first one only where its prompt's submission is known."""
    at_ms = 0.0
    first = () if generation.ttft_ms is None else (generation.ttft_ms,)
    for took_ms in (*first, *generation.token_ms):
        at_ms += took_ms
        yield begun_ns + int(at_ms * 1e6), took_ms


def _begun(run: RunLog, generations: Sequence[Generation]) -> list[int | None]:
    """Return when each prompt was submitted; ``None`` where neither runner nor probe tells, or times are no times."""
    first_ns = run.start.mono_ns if run.start is not None else 0
    last_ns = run.end.mono_ns if run.end is not None else 2**63
    told = [one.begun_ns if one.begun_ns and first_ns <= one.begun_ns <= last_ns else None for one in generations]
    stamps = {} if all(told) else _stamps(run)
    found: list[int | None] = []
    for begun_ns, one in zip(told, generations, strict=True):
        took_ms = one.claimed_ms
        possible = all(0 < value < _MOST_MS for value in one.times_ms) and took_ms < _MOST_MS
        if one.ttft_ms is None:
            found.append(one.first_token_ns if possible else None)
            continue
        if begun_ns is None and possible and one.index in stamps:
            begun_ns = stamps[one.index] - int(took_ms * 1e6)
        found.append(begun_ns if possible else None)
    return found


def _stamps(run: RunLog) -> dict[int, int]:
    """Return by index of a generation when the probe had read its line."""
    found: dict[int, int] = {}
    for mono_ns, line in run.stamped_lines():
        if b'"generation"' in line:
            try:
                index = json.loads(line)["index"]
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
            if type(index) is int:
                found.setdefault(index, mono_ns)
    return found


def curve_of(timeline: Timeline) -> tuple[CurvePoint, ...]:
    """Return the timed part in at most :data:`MOST_POINTS` stretches: of whole generations, or of equal time."""
    decoded = [token for token in timeline.timed if token.position]
    if not decoded or timeline.begun_ns is None:
        return ()
    indices = list(dict.fromkeys(token.generation for token in decoded))
    if len(indices) >= _GENERATIONS_FOR_A_CURVE:
        per_point = math.ceil(len(indices) / MOST_POINTS)
        nth = {index: place // per_point for place, index in enumerate(indices)}
        groups = itertools.groupby(decoded, key=lambda token: nth[token.generation])
    else:
        width_ns = (decoded[-1].at_ns - timeline.begun_ns) // MOST_POINTS + 1
        groups = itertools.groupby(decoded, key=lambda token: (token.at_ns - (timeline.begun_ns or 0)) // width_ns)
    return tuple(_point(timeline, list(tokens)) for _, tokens in groups)


def _point(timeline: Timeline, tokens: Sequence[Token]) -> CurvePoint:
    begun_s = timeline.since_s(tokens[0].at_ns) - tokens[0].took_ms / 1000
    warmth = mean_known(token.state.lead_c for token in tokens if token.state)
    clock = mean_known(token.state.clock_ratio for token in tokens if token.state)
    cap = mean_known(token.state.cap_ratio for token in tokens if token.state)
    ratio = cap if clock is None else clock
    return CurvePoint(
        t_s=round((begun_s + timeline.since_s(tokens[-1].at_ns)) / 2, 3),
        decode_tps=len(tokens) / sum(token.took_ms for token in tokens) * 1000,
        celsius=None if warmth is None else round(warmth, 2),
        clock_ratio=None if ratio is None else round(ratio, 4),
    )


def write_tokens(path: Path, timeline: Timeline) -> None:
    """Write ``tokens.csv``."""
    every = math.ceil(len(timeline.tokens) / MOST_ROWS) or 1
    with path.open("w", encoding="ascii", newline="") as file:
        rows = csv.writer(file)
        columns = ["t_s", "generation", "kind", "token", "took_ms", *(f"{meaning}_c" for meaning in _MEANINGS)]
        rows.writerow([*columns, "cap_ratio", "clock_ratio"])
        rows.writerows(_row(timeline, token) for token in timeline.tokens[::every])


def _row(timeline: Timeline, token: Token) -> list[str]:
    state = token.state or State(0)
    told = [f"{timeline.since_s(token.at_ns):.6f}", str(token.generation), token.kind, str(token.position)]
    told.append(f"{token.took_ms:.3f}")
    told += ["" if meaning not in state.celsius else f"{state.celsius[meaning]:.2f}" for meaning in _MEANINGS]
    return told + ["" if value is None else f"{value:.4f}" for value in (state.cap_ratio, state.clock_ratio)]
