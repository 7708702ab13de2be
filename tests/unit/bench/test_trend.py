from __future__ import annotations

import pytest

from harness.bench.trend import clearly_grows, growth

MIB = 1 << 20


def test_growth_is_the_median_of_all_slopes_and_one_odd_value_does_not_move_it() -> None:
    assert growth([100, 103, 106, 109]) == 3
    assert growth([100, 103, 900, 109, 112]) == 3
    assert growth([5, 5]) == 0
    assert growth([5]) is None
    assert growth([]) is None


def test_of_a_long_soak_every_so_many_values_count_and_the_slope_stays_that_of_one_step() -> None:
    assert growth([7 * n for n in range(10_000)]) == 7
    assert growth([(n // 2) * 10 for n in range(5_000)]) == pytest.approx(5, rel=0.01)


@pytest.mark.parametrize(
    ("sizes", "grows"),
    [
        ([100 * MIB + n * 2 * MIB for n in range(5)], True),
        ([100 * MIB + n * MIB // 2 for n in range(5)], True),  # less than a MiB each, but each time, and 2 % in all
        ([100 * MIB + n * 3 * MIB - (n == 6) * 9 * MIB for n in range(12)], True),  # once some were given back
        ([100 * MIB + n * 2 * MIB for n in range(4)], False),  # four may rise by chance
        ([100 * MIB + n * 40_000 for n in range(5)], False),  # noise of pages
        ([100 * MIB, 108 * MIB, 108 * MIB, 108 * MIB, 108 * MIB, 108 * MIB], False),  # a buffer that is kept
        ([100 * MIB, 103 * MIB, 101 * MIB, 104 * MIB, 100 * MIB, 102 * MIB], False),
        ([], False),
    ],
)
def test_a_growth_is_told_from_noise(sizes: list[int], grows: bool) -> None:
    assert clearly_grows(sizes, 110 * MIB) is grows
