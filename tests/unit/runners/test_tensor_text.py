"""Arrays as text: every bit of an input arrives, and an output is numbers of the right count or nothing."""

from __future__ import annotations

import numpy as np
import pytest

from harness.core.errors import ConfigError
from harness.runners.tensor_text import array_of, text_of


def test_an_input_keeps_every_bit() -> None:
    array = np.random.default_rng(3).standard_normal((2, 3, 5)).astype(np.float32) * np.float32(1e-20)
    assert (array_of(text_of(array, "x"), (2, 3, 5)).astype(np.float32) == array).all()


def test_the_last_dimension_changes_first_however_the_array_lies_in_memory() -> None:
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    assert text_of(turned, "x") == b"0\n3\n1\n4\n2\n5\n"


def test_integers_are_written_as_integers() -> None:
    assert text_of(np.array([-(2**31), 7, 16777217], np.int32), "x") == b"-2147483648\n7\n16777217\n"
    assert text_of(np.array([True, False]), "x") == b"1\n0\n"


def test_what_is_too_small_to_be_normal_becomes_zero() -> None:
    assert text_of(np.array([1e-40, -1e-39, 1.5e-38], np.float32), "x") == b"0\n0\n1.50000004e-38\n"


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_c_cannot_read_is_refused(wrong: float) -> None:
    with pytest.raises(ConfigError, match="input mask holds NaN or infinity"):
        text_of(np.array([1.0, wrong], np.float32), "mask")


def test_outputs_have_the_references_shape() -> None:
    got = array_of(b"1.5\t-2\t\n nan\t-inf\n", (1, 2, 2))
    assert got.shape == (1, 2, 2)
    np.testing.assert_array_equal(got.ravel(), [1.5, -2, np.nan, -np.inf])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"1 2 3", "has 3 numbers, the reference has 4"),
        (b"", "has 0 numbers"),
        (b"1 2 x 4", "is no text of numbers"),
        (b"1 2 \xff 4", "is no text of numbers"),
    ],
)
def test_what_is_no_output_is_none(text: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        array_of(text, (2, 2))
