"""Student's quantile against the tables of statistics books."""

import math

import pytest

from harness.report.student import quantile_t


@pytest.mark.parametrize(
    ("chance", "degrees", "tabled"),
    [
        (0.975, 1, 12.7062),
        (0.975, 2, 4.30265),
        (0.975, 4, 2.77645),
        (0.975, 10, 2.22814),
        (0.975, 30, 2.04227),
        (0.975, 120, 1.97993),
        (0.95, 5, 2.01505),
        (0.995, 3, 5.84091),
        (0.9995, 2, 31.5991),
    ],
)
def test_it_is_the_tabled_value(chance: float, degrees: float, tabled: float) -> None:
    assert quantile_t(chance, degrees) == pytest.approx(tabled, rel=2e-6)


def test_with_one_and_two_degrees_it_is_the_closed_form() -> None:
    for chance in (0.6, 0.9, 0.97, 0.9999):
        assert quantile_t(chance, 1) == pytest.approx(math.tan(math.pi * (chance - 0.5)), rel=1e-9)
        share = 2 * chance - 1
        assert quantile_t(chance, 2) == pytest.approx(share * math.sqrt(2 / (1 - share * share)), rel=1e-9)


def test_it_is_symmetric_and_becomes_the_normal_one() -> None:
    assert quantile_t(0.1, 7) == -quantile_t(0.9, 7)
    assert quantile_t(0.975, math.inf) == pytest.approx(1.959964, abs=1e-6)
    assert quantile_t(0.975, 1999) == pytest.approx(quantile_t(0.975, 2000), abs=2e-3)


def test_degrees_between_whole_ones_lie_between_their_quantiles() -> None:
    assert quantile_t(0.975, 5) < quantile_t(0.975, 4.5) < quantile_t(0.975, 4)


@pytest.mark.parametrize(("chance", "degrees"), [(0, 5), (1, 5), (0.5, 0.9), (0.5, math.nan)])
def test_what_has_no_quantile_is_refused(chance: float, degrees: float) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        quantile_t(chance, degrees)
