"""Outputs compared element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.payload.tensors import Comparison, OutputComparison, Place, compare, compare_output, shape_text

NAN, INF = float("nan"), float("inf")


def of(values: Any, dtype: Any = np.float32) -> Any:
    return np.array(values, dtype)


def agreement(first: float, second: float, tolerance: float = 1e-4) -> bool:
    return compare_output("y", of([first], np.float64), of([second], np.float64), tolerance).ok


@pytest.mark.parametrize(
    ("first", "second", "agree"),
    [
        (0.0, 0.0, True),
        (-0.0, 0.0, True),
        (0.00009, 0.0, True),
        (0.00011, 0.0, False),  # below 1 the bound is absolute
        (1e-9, 2e-9, True),
        (1000.09, 1000.0, True),  # above 1 it is relative
        (1000.11, 1000.0, False),
        (-1000.09, -1000.0, True),
        (1.0, -1.0, False),
        (NAN, NAN, True),
        (INF, INF, True),
        (-INF, -INF, True),
        (INF, -INF, False),
        (NAN, INF, False),
        (NAN, 0.0, False),
        (0.0, NAN, False),
        (INF, 3e38, False),
        (3e38, INF, False),
        (1e308, -1e308, False),
    ],
)
def test_when_two_elements_agree(first: float, second: float, agree: bool) -> None:
    assert agreement(first, second) is agree


def test_the_bound_itself_agrees_and_zero_tolerance_asks_for_the_same_value() -> None:
    assert agreement(2.5, 2.0, tolerance=0.25)
    assert not agreement(2.5000001, 2.0, tolerance=0.25)
    assert agreement(2.0, 2.0, tolerance=0)
    assert not agreement(np.nextafter(2.0, 3.0), 2.0, tolerance=0)
    assert agreement(NAN, NAN, tolerance=0)
    assert not agreement(1.0, INF, tolerance=0)


def test_the_second_is_the_reference() -> None:
    assert agreement(11.0, 10.0, tolerance=0.1)
    assert not agreement(9.0, 7.9, tolerance=0.1)
    assert agreement(7.9, 8.7, tolerance=0.1)


def test_how_far_where_and_how_many() -> None:
    # The largest error is allowed, since its element is large; the smaller one is not.
    first, second = of([[1.0, 2000.125], [0.0, 4.0]]), of([[1.0, 2000.0], [0.0625, 4.0]])
    assert compare({"y": first}, {"y": second}) == Comparison(
        1e-4,
        (
            OutputComparison(
                name="y",
                shape=(2, 2),
                count=4,
                agreeing=3,
                max_error=0.125,
                max_error_at=(0, 1),
                mean_error=(0.125 + 0.0625) / 4,
                worst=Place((1, 0), 0.0, 0.0625),
            ),
        ),
    )


def test_what_is_not_finite_stays_out_of_the_errors_and_comes_first_as_the_worst() -> None:
    got = compare_output("y", of([NAN, 1.5, INF, 1.0]), of([NAN, 1.0, 2.0, 1.0]), 1e-4)
    assert got == OutputComparison(
        name="y",
        shape=(4,),
        count=4,
        agreeing=2,
        max_error=0.5,
        max_error_at=(1,),
        mean_error=0.25,
        worst=Place((2,), INF, 2.0),
        same_non_finite=1,
        mismatched_non_finite=1,
    )
    assert got.share == 0.5


def test_without_a_finite_pair_there_is_no_error_to_tell() -> None:
    got = compare_output("y", of([NAN, INF]), of([NAN, INF]), 1e-4)
    assert got == OutputComparison("y", shape=(2,), count=2, agreeing=2, same_non_finite=2)
    assert got.ok


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8, np.uint8, np.int64, np.bool_, ">f4"])
def test_types_may_differ_when_values_do_not(dtype: Any) -> None:
    assert compare({"y": of([0, 1], dtype)}, {"y": of([0, 1])}, tolerance=0).ok


def test_bytes_are_subtracted_as_numbers() -> None:
    assert compare_output("y", of([0], np.uint8), of([255], np.uint8), 1e-4).max_error == 255


def test_a_single_number_has_an_empty_index() -> None:
    assert compare_output("y", of(2.0), of(1.0), 1e-4) == OutputComparison(
        "y", (), count=1, max_error=1.0, max_error_at=(), mean_error=1.0, worst=Place((), 2.0, 1.0)
    )


def test_an_output_that_is_empty_on_both_sides_agrees() -> None:
    got = compare({"boxes": np.zeros((0, 4))}, {"boxes": np.zeros((0, 4))})
    assert got.ok
    assert got.outputs == (OutputComparison("boxes", (0, 4)),)
    assert got.outputs[0].share is None


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        ((2, 3), (3, 2), "the shapes differ: 2×3 in the first and 3×2 in the second"),
        ((1, 2), (2,), "the shapes differ: 1×2 in the first and 2 in the second"),
        ((), (1,), "the shapes differ: scalar in the first and 1 in the second"),
    ],
)
def test_shapes_have_to_be_the_same(first: tuple[int, ...], second: tuple[int, ...], problem: str) -> None:
    got = compare({"y": np.zeros(first)}, {"y": np.zeros(second)})
    assert got.outputs == (OutputComparison("y", problem=problem),)
    assert not got.ok


def test_names_have_to_be_the_same() -> None:
    got = compare({"a": of(1), "b": of(1)}, {"b": of(1), "c": of(1)})
    assert [(output.name, output.problem, output.ok) for output in got.outputs] == [
        ("a", "only the first has it", False),
        ("b", "", True),
        ("c", "only the second has it", False),
    ]
    assert not got.ok


def test_nothing_compared_is_no_agreement() -> None:
    assert not compare({}, {}).ok


@pytest.mark.parametrize("tolerance", [-1e-9, INF, NAN])
def test_a_tolerance_is_a_finite_number_of_at_least_zero(tolerance: float) -> None:
    with pytest.raises(ValueError, match="makes no sense"):
        compare({}, {}, tolerance)


def test_shapes_are_told_with_their_open_dimensions() -> None:
    assert [shape_text(shape) for shape in ((1, 3, -1, 8), (5,), ())] == ["1×3×?×8", "5", "scalar"]
