"""How inputs are made and made to fit, without the engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.payload.tensor_inputs import Input, RunError, fit_inputs, random_inputs


def wants(shape: tuple[int, ...], dtype: Any = np.float32, name: str = "x") -> Input:
    return Input(name, shape, np.dtype(dtype), layout=None)


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        (wants((2, 3)), np.ones((2, 3), np.float64)),
        (wants((-1, 3)), np.ones((5, 3), np.float16)),
        (wants((2,)), np.array([True, False])),
        (wants((2,), np.int32), np.array([2**31 - 1, -(2**31)])),
        (wants((2,), np.int32), np.array([3.0, -4.0])),
        (wants((2,), np.uint8), np.array([0, 255])),
        (wants((), np.int32), np.array(5)),
        (wants(()), np.ones((1, 2, 3))),  # a rank that the model does not know is told as none
        (wants((1, 2)), np.array([[np.nan, np.inf]])),
        (wants((2, 2)), np.asfortranarray([[1, 2], [3, 4]])),
    ],
)
def test_values_are_given_in_the_type_of_the_model(wanted: Input, given: Any) -> None:
    fitted = fit_inputs((wanted,), {"x": given})["x"]
    assert (fitted.dtype, fitted.shape, fitted.flags.c_contiguous) == (wanted.dtype, given.shape, True)
    assert np.array_equal(fitted, given, equal_nan=True)


@pytest.mark.parametrize(
    ("wanted", "given", "said"),
    [
        (wants((2, 3)), np.zeros((2, 4)), "input x has another shape: 2×4 was given for 2×3"),
        (
            wants((1, 3, 8, 8)),
            np.zeros((1, 8, 8, 3)),
            "input x has another shape: 1×8×8×3 was given for 1×3×8×8; "
            "it is NCHW that the model takes: transpose(0, 3, 1, 2)",
        ),
        (wants((2, 3)), np.zeros((1, 2, 3)), "input x has another shape: 1×2×3 was given for 2×3"),
        (wants((-1, 3)), np.zeros(3), "input x has another shape: 3 was given for ?×3"),
        (wants((1,), np.int32), np.array([1.5]), "input x is int32, which cannot hold all values given"),
        (wants((1,), np.int32), np.array([2**31]), "input x is int32, which cannot hold all values given"),
        (wants((1,), np.int32), np.array([np.nan]), "input x is int32, which cannot hold all values given"),
        (wants((1,)), np.array([1e300]), "input x is float32, which cannot hold all values given"),
        (wants((1,), np.uint8), np.array([-1]), "input x is uint8, which cannot hold all values given"),
    ],
)
def test_what_does_not_fit_is_said(wanted: Input, given: Any, said: str) -> None:
    with pytest.raises(RunError) as caught:
        fit_inputs((wanted,), {"x": given})
    assert (str(caught.value), caught.value.code) == (said, "bad_plan")


@pytest.mark.parametrize(("given", "named"), [({"X": 1}, "X"), ({"a": 1, "x": 1}, "a, x"), ({"a": 1, "b": 1}, "a, b")])
def test_names_have_to_be_those_of_the_model(given: dict[str, int], named: str) -> None:
    with pytest.raises(RunError, match=f"^the model takes x; what was given is {named}$"):
        fit_inputs((wants(()),), {name: np.array(value) for name, value in given.items()})


def test_a_model_without_inputs_takes_none() -> None:
    with pytest.raises(RunError, match=r"^the model takes no input; what was given is x$"):
        fit_inputs((), {"x": np.zeros(1)})
    assert random_inputs((), 0) == {}


def test_random_values_depend_on_seed_and_name_and_not_on_their_order() -> None:
    both = (wants((50,), name="a"), wants((50,), name="b"))
    made = random_inputs(both, 1)
    again = random_inputs(both[::-1], 1)
    assert all(np.array_equal(made[name], again[name]) for name in ("a", "b"))
    assert not np.array_equal(made["a"], made["b"])
    assert not np.array_equal(made["a"], random_inputs(both, 2)["a"])


def test_random_values_are_as_models_take_them() -> None:
    made = random_inputs(
        (wants((500,), name="f"), wants((500,), np.int32, "i"), wants((500,), np.uint8, "u"), wants((), name="s")), 1
    )
    assert {name: array.dtype.name for name, array in made.items()} == {
        "f": "float32",
        "i": "int32",
        "u": "uint8",
        "s": "float32",
    }
    assert -0.2 < made["f"].mean() < 0.2
    assert set(made["i"]) == {0, 1}
    assert (made["u"].min() < 20, made["u"].max() > 235) == (True, True)
    assert made["s"].shape == ()


def test_an_open_dimension_has_no_random_size() -> None:
    with pytest.raises(RunError, match=r"^input x is 1×3×\?: give one of full size with --input FILE\.npz$"):
        random_inputs((wants((1, 3, -1)),), 0)
