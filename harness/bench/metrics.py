"""Figures from generations. Pure; nothing here decides whether a figure may be believed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from harness.runners.events import Generation
from harness.store.schema import Latency, Speed, TokenTimes

# A percentile needs enough samples to stand on: two values beyond it at least.
P90_SAMPLES = 20
P95_SAMPLES = 40
P99_SAMPLES = 200
# Iglewicz and Hoaglin's modified z-score; a spread below 2 % is no reason to single anything out.
OUTLIER_SAMPLES = 5
_OUTLIER_SCORE = 3.5
_SCORE_OF_MAD = 0.6745
_OUTLIER_LEAST = 0.02
# Resamples for the interval; fixed seed, so that a report rebuilt from the same samples says the same.
_RESAMPLES = 2000
_SEED = 20260101


# Beyond these a time is refused anyway, and figures made from it would overflow.
_LEAST_MS, _MOST_MS = 1e-6, 1e12


def possible_ms(value: float | None) -> float | None:
    """Return a time that sums, medians and quotients can be made of; NaN compares false."""
    return value if value is not None and _LEAST_MS <= value <= _MOST_MS else None


def decode_tps(generation: Generation) -> float | None:
    """Return (tokens - 1) / (last token time - first token time), tok/s; ``None`` below two tokens.

    Where single tokens have no times: the tokens over the time that is told for them.
    """
    if not generation.token_ms:
        if not generation.decode_steps or generation.decode_ms is None:
            return None
        return generation.decode_steps / generation.decode_ms * 1000 if generation.decode_ms > 0 else float("inf")
    span_ms = sum(generation.token_ms)
    return len(generation.token_ms) / span_ms * 1000 if span_ms > 0 else float("inf")


def prefill_tps(generation: Generation) -> float | None:
    """Return prompt tokens / prefill time, tok/s; ``None`` without a prompt or a time."""
    if generation.prompt_tokens < 1 or generation.prefill_ms is None:
        return None
    return generation.prompt_tokens / generation.prefill_ms * 1000 if generation.prefill_ms > 0 else float("inf")


def speed(values: Sequence[float]) -> Speed | None:
    """Summarise speeds: median, median absolute deviation, CV, bootstrap 95 % interval of the median."""
    if not values:
        return None
    middle = statistics.median(values)
    mean = statistics.fmean(values)
    return Speed(
        median=middle,
        mad=statistics.median(abs(value - middle) for value in values),
        cv=statistics.stdev(values) / mean if len(values) > 1 and mean > 0 else None,
        ci95=_bootstrap(values) if len(values) > 2 else None,
        n=len(values),
    )


def latency(values: Sequence[float], *, with_p99: bool = False) -> Latency | None:
    """Summarise times in ms; the 99th percentile is of tensor cells, whose samples are many."""
    if not values:
        return None
    return Latency(
        p50=statistics.median(values),
        p90=float(np.percentile(values, 90)) if len(values) >= P90_SAMPLES else None,
        min=min(values),
        max=max(values),
        n=len(values),
        p99=float(np.percentile(values, 99)) if with_p99 and len(values) >= P99_SAMPLES else None,
    )


def token_times(generations: Sequence[Generation]) -> TokenTimes | None:
    """Summarise the times between tokens over all generations, in ms."""
    values = [value for generation in generations for value in generation.token_ms]
    if not values:
        return None
    return TokenTimes(
        p50=statistics.median(values),
        p95=float(np.percentile(values, 95)) if len(values) >= P95_SAMPLES else None,
        max=max(values),
        p99=float(np.percentile(values, 99)) if len(values) >= P99_SAMPLES else None,
    )


def outliers(values: Sequence[float]) -> tuple[bool, ...]:
    """Return which values lie far from the others, by a score that outliers do not move; none below 5 values.

    They are marked for people to look at. They count all the same: a phone that is slow now and then is slow then.
    """
    if len(values) < OUTLIER_SAMPLES:
        return (False,) * len(values)
    middle = statistics.median(values)
    mad = statistics.median(abs(value - middle) for value in values)
    least = _OUTLIER_LEAST * abs(middle)
    return tuple(abs(value - middle) > max(least, _OUTLIER_SCORE * mad / _SCORE_OF_MAD) for value in values)


def _bootstrap(values: Sequence[float]) -> tuple[float, float]:
    drawn = np.random.default_rng(_SEED).choice(np.asarray(values), size=(_RESAMPLES, len(values)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return float(low), float(high)
