from __future__ import annotations

import random
from types import ModuleType

import pytest

from harness.core.reasons import Reason
from harness.report.news_slower import Timings, slower, timings_of
from harness.store.schema import CellRecord

RUNS, CELLS = 40, 200
# Between two runs of one phone, and among the repeats of one cell: as bad as a plan's cv_limit lets it be.
SHIFT, SPREAD = 0.03, 0.05


def timings(*tps: float, ttft: tuple[float, ...] = (), start_c: float | None = 30.0) -> Timings:
    return Timings(tps, ttft, start_c)


def measured(dice: random.Random, repeats: int, speed: float = 50.0, shift: float = SHIFT, spread: float = SPREAD):
    here = speed * (1 + dice.gauss(0, shift))
    each = [max(0.1, here * (1 + dice.gauss(0, spread))) for _ in range(repeats)]
    return Timings(tuple(each), tuple(64_000 / tps for tps in each), 30.0)


def with_samples(make: ModuleType, speeds: list[float | None], **over) -> CellRecord:
    samples = [
        {"kind": "timed", "ttft_ms": 100.0, "prefill_ms": 90.0, "decode_tps": tps, "prompt_tokens": 64}
        | {"generated_tokens": 32, "finish": "length"}
        for tps in speeds
    ]
    return make.record(samples=[{**samples[0], "kind": "warmup", "decode_tps": 1.0}, *samples], **over)


def test_the_timed_generations_count_and_no_warm_up(make: ModuleType) -> None:
    cell = with_samples(make, [40.0, None, 50.0])
    assert timings_of(cell) == Timings((40.0, 50.0), (100.0, 100.0, 100.0), 30.5)


def test_of_a_sustained_cell_its_last_quarter_counts(make: ModuleType) -> None:
    cell = with_samples(make, [9.0] * 9 + [3.0, 3.1, 3.2], config={"kind": "sustained", "duration_s": 60.0})
    assert timings_of(cell) == Timings((3.0, 3.1, 3.2), (), 30.5)


def test_a_cell_that_is_not_ok_has_no_timings(make: ModuleType) -> None:
    assert timings_of(make.record(reason=Reason.NOISY)) is None


def test_a_lost_third_is_told_with_both_figures_and_the_interval() -> None:
    assert slower(timings(60, 61, 60, 59, 60), timings(40, 41, 40, 39, 40)) == (
        "decode 40.0 tok/s, was 60.0 (-33%, interval -36% to -30%)"
    )


def test_a_tenth_is_left_to_compare() -> None:
    assert slower(timings(60, 61, 60, 59, 60), timings(54, 55, 54, 53, 54)) is None


def test_faster_is_nothing_to_tell() -> None:
    assert slower(timings(40, 41, 40, 39, 40), timings(60, 61, 60, 59, 60)) is None


def test_two_repeats_prove_nothing() -> None:
    assert slower(timings(60, 60), timings(6, 6)) is None


def test_a_first_token_that_comes_late_is_told_only_if_people_notice() -> None:
    same = (50.0, 50.1, 49.9)
    late = slower(timings(*same, ttft=(200, 201, 199)), timings(*same, ttft=(400, 402, 398)))
    assert late is not None
    assert late.startswith("first token after 400 ms, was 200 (+100%")
    assert slower(timings(*same, ttft=(2.0, 2.01, 1.99)), timings(*same, ttft=(4.0, 4.02, 3.98))) is None


@pytest.mark.parametrize(("start_c", "told"), [(34.0, True), (36.0, False), (None, True), (20.0, True)])
def test_a_phone_that_began_warmer_proves_nothing(start_c: float | None, told: bool) -> None:
    found = slower(timings(60, 61, 60, 59, 60), timings(40, 41, 40, 39, 40, start_c=start_c))
    assert (found is not None) is told


@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_200_unchanged_cells_are_red_in_fewer_than_one_run_of_twenty(repeats: int) -> None:
    dice = random.Random(repeats)  # noqa: S311
    red = sum(
        any(slower(measured(dice, repeats), measured(dice, repeats)) is not None for _ in range(CELLS))
        for _ in range(RUNS)
    )
    assert red < RUNS / 20


def test_a_lost_third_is_found_in_nine_of_ten_cells() -> None:
    dice = random.Random(7)  # noqa: S311
    found = sum(
        slower(measured(dice, 5, spread=0.03), measured(dice, 5, 50 * 2 / 3, spread=0.03)) is not None
        for _ in range(200)
    )
    assert found >= 180
