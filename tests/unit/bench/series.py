"""Made-up runs for the tests of throttling: speed over time, noise of all kinds, and what sensors say of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from harness.bench.levels import Array, Series, series_of
from harness.bench.sensed import State
from harness.bench.timeline import Timeline, Token

Speed = Callable[[Array], Array]
MS = 1_000_000


def steady(at_s: Array) -> Array:
    """A phone that never throttles."""
    return np.ones_like(at_s)


def drop(after_s: float, by: float, until_s: float = np.inf) -> Speed:
    """A phone that falls by a share at one moment."""
    return lambda at_s: np.where((at_s >= after_s) & (at_s < until_s), 1.0 - by, 1.0)


def steps(*moments_and_levels: tuple[float, float]) -> Speed:
    """A governor that takes many steps: (moment, level) in order of time."""

    def speed(at_s: Array) -> Array:
        level = np.ones_like(at_s)
        for after_s, to in moments_and_levels:
            level = np.where(at_s >= after_s, to, level)
        return level

    return speed


def decay(after_s: float, over_s: float, by: float) -> Speed:
    """A phone that slows bit by bit."""
    return lambda at_s: 1.0 - by * np.clip((at_s - after_s) / over_s, 0.0, 1.0)


def made_up(
    rng: np.random.Generator,
    speed: Speed = steady,
    *,
    seconds: float = 60.0,
    tps: float = 20.0,
    tokens: int = 64,
    noise: float = 0.05,
    wander: float = 0.0,
    wander_s: float = 2.0,
    depth: float = 0.3,
    stalls: int = 0,
    prompt_ms: float = 200.0,
) -> list[tuple[Array, Array]]:
    """Generations as (moments, times) of their tokens, in ms.

    Args:
        noise: standard deviation of each token's time by itself.
        wander: that of a slow wandering of the speed, which keeps a deviation for ``wander_s``.
        depth: by how much the last token of a generation takes longer than the first.
        stalls: so many tokens take half a second more.
    """
    count = max(3, round(seconds * tps / tokens)) * tokens
    usual_ms = 1000.0 / tps
    position = np.arange(count) % tokens
    took = usual_ms * (1.0 + depth * (position / tokens - 0.5)) * np.maximum(0.2, 1.0 + noise * rng.normal(size=count))
    if wander:
        keep = float(np.exp(-1.0 / (tps * wander_s)))
        drawn = rng.normal(size=count) * wander * np.sqrt(1.0 - keep**2)
        drift = np.empty(count)
        last = rng.normal() * wander
        for n, step in enumerate(drawn.tolist()):
            last = drift[n] = keep * last + step
        took *= np.exp(drift)
    took[rng.integers(0, count, stalls)] += 500.0
    prompts = np.where(position == 0, prompt_ms, 0.0)
    # Slower tokens come later, which makes others slower: after some rounds the moments no longer move.
    at_ms = np.cumsum(took + prompts)
    for _ in range(8):
        at_ms = np.cumsum(took / speed((at_ms - took) / 1000.0) + prompts)
    took = np.diff(at_ms - np.cumsum(prompts), prepend=0.0)
    return [(at_ms[start : start + tokens], took[start : start + tokens]) for start in range(0, count, tokens)]


def series(rng: np.random.Generator, speed: Speed = steady, **how: Any) -> Series:
    """The same as a series."""
    return series_of(made_up(rng, speed, **how))


Sensed = Callable[[float], dict[str, Any]]


def timeline(generations: Sequence[tuple[Array, Array]], sensed: Sensed | None = None) -> Timeline:
    """Join made-up generations with what ``sensed`` says at each tenth of a second; without it nothing is readable."""
    tokens = []
    for number, (at_ms, took_ms) in enumerate(generations):
        first_ms = at_ms[0] - took_ms[0]
        tokens.append(Token(number, "timed", 0, int(first_ms * MS), 50.0, None))
        pairs = zip(at_ms.tolist(), took_ms.tolist(), strict=True)
        tokens += [Token(number, "timed", n, int(at * MS), took, None) for n, (at, took) in enumerate(pairs, start=1)]
    end_s = generations[-1][0][-1] / 1000
    moments = np.arange(0.0, end_s, 0.1).tolist()
    states = [State(int(at_s * 1e9), **(sensed(at_s) if sensed else {})) for at_s in moments]
    return Timeline(tuple(tokens), tuple(states), begun_ns=0)
