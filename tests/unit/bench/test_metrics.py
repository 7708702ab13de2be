from __future__ import annotations

import statistics

import pytest

from harness.bench.metrics import decode_tps, latency, outliers, prefill_tps, speed, token_times
from harness.runners.events import Generation


def generation(*token_ms: float, prompt: int = 64, prefill_ms: float = 200.0) -> Generation:
    return Generation(
        index=0,
        kind="timed",
        prompt_tokens=prompt,
        generated_tokens=len(token_ms) + 1,
        prefill_ms=prefill_ms,
        ttft_ms=prefill_ms + 1,
        token_ms=token_ms,
        finish="length",
    )


def test_decode_speed_counts_the_gaps_between_tokens() -> None:
    assert decode_tps(generation(10.0, 30.0, 20.0)) == 50.0
    assert decode_tps(generation()) is None


def test_prefill_speed_is_prompt_tokens_over_prefill_time() -> None:
    assert prefill_tps(generation(prompt=64, prefill_ms=200.0)) == 320.0
    assert prefill_tps(generation(prompt=0)) is None


def test_a_time_of_nothing_gives_an_infinite_speed_for_validity_to_refuse() -> None:
    assert decode_tps(generation(0.0)) == float("inf")
    assert prefill_tps(generation(prefill_ms=0.0)) == float("inf")


def test_speeds_are_summarised_by_their_median_not_their_mean() -> None:
    summary = speed([10.0, 11.0, 12.0, 13.0, 100.0])
    assert summary is not None
    assert (summary.median, summary.mad, summary.n) == (12.0, 1.0, 5)
    assert summary.cv == pytest.approx(statistics.stdev([10, 11, 12, 13, 100]) / 29.2)
    assert summary.ci95 is not None
    assert 10.0 <= summary.ci95[0] <= 12.0 <= summary.ci95[1] <= 100.0


def test_the_interval_is_the_same_each_time() -> None:
    values = [20.0, 21.0, 19.5, 22.0, 20.4]
    assert speed(values) == speed(values)


def test_what_too_few_samples_cannot_tell_is_null() -> None:
    one, two = speed([20.0]), speed([20.0, 22.0])
    assert one is not None
    assert two is not None
    assert (one.median, one.cv, one.ci95, one.n) == (20.0, None, None, 1)
    assert (two.median, two.ci95, two.n) == (21.0, None, 2)
    assert two.cv == pytest.approx(2**0.5 / 21)
    assert speed([]) is None


def test_p90_needs_twenty_samples() -> None:
    few, enough = latency([float(n) for n in range(1, 20)]), latency([float(n) for n in range(1, 21)])
    assert few is not None
    assert enough is not None
    assert (few.p50, few.p90, few.min, few.max, few.n) == (10.0, None, 1.0, 19.0, 19)
    assert enough.p90 == pytest.approx(18.1)
    assert latency([]) is None


def test_p95_of_token_times_needs_forty() -> None:
    few = token_times([generation(*[1.0] * 20), generation(*[3.0] * 19)])
    enough = token_times([generation(*[1.0] * 20), generation(*[3.0] * 20)])
    assert few is not None
    assert enough is not None
    assert (few.p50, few.p95, few.max) == (1.0, None, 3.0)
    assert (enough.p50, enough.p95, enough.max) == (2.0, 3.0, 3.0)
    assert token_times([generation()]) is None


@pytest.mark.parametrize(
    ("values", "far"),
    [
        ([20.0, 20.2, 19.9, 20.1, 12.0], [False, False, False, False, True]),
        ([20.0, 20.2, 19.9, 20.1, 31.0, 20.0], [False, False, False, False, True, False]),
        ([20.0, 20.0, 20.0, 20.0, 20.3], [False] * 5),  # all but one are equal: 1.5 % is still nothing
        ([20.0, 24.0, 17.0, 28.0, 15.0], [False] * 5),  # a wide spread has no outlier
        ([20.0, 20.1, 20.2, 5.0], [False] * 4),  # four values single nobody out
        ([], []),
    ],
)
def test_an_outlier_lies_far_from_the_others_by_their_own_spread(values: list[float], far: list[bool]) -> None:
    assert outliers(values) == tuple(far)


def test_each_percentile_waits_for_enough_tokens() -> None:
    def told(count: int) -> tuple[bool, bool]:
        times = token_times([generation(*([10.0] * count))])
        assert times is not None
        return times.p95 is not None, times.p99 is not None

    assert [told(count) for count in (39, 40, 199, 200)] == [(False, False), (True, False), (True, False), (True, True)]


def test_the_99th_percentile_is_that_of_all_tokens_together() -> None:
    times = token_times([generation(*([10.0] * 147 + [50.0] * 3)), generation(*([10.0] * 150))])
    assert times is not None
    assert (times.p50, times.p95, times.max) == (10.0, 10.0, 50.0)
    assert times.p99 == pytest.approx(10.4)
