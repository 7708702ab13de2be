"""Outputs held to the reference: what passes, what does not, and what is said of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.bench.tensor_compare import Demand, TensorResult, demand_of
from harness.bench.tensor_pull import Pulled
from harness.payload.mnn_weights import Weights
from harness.payload.tensor_case import TensorCase
from harness.payload.tensors import Array
from harness.plan.matrix import PlannedCell

RANDOM = np.random.default_rng(3)
WANTED = [RANDOM.standard_normal((1, 4, 50)).astype(np.float32) for _ in range(2)]
EXACT, HALF, EIGHT = Demand(1e-4, None), Demand(1e-4, 0.999), Demand(1e-4, 0.98)


def result(made: list[Any], demand: Demand = EXACT, wanted: list[Array] | None = None) -> TensorResult:
    expected = WANTED if wanted is None else wanted
    case = TensorCase(
        samples=tuple(f"{n}.npz" for n in range(len(expected))),
        inputs=({},) * len(expected),
        expected=tuple({"y": array} for array in expected),
        reference="onnxruntime",
        real_inputs=True,
        weights=Weights.FULL,
    )
    return TensorResult(case, Pulled(tuple({} if one is None else {"y": one} for one in made), ()), demand)


def bent(by: float, at: tuple[int, ...] = (0, 1, 2), sample: int = 1) -> list[Array]:
    made = [array.copy() for array in WANTED]
    made[sample][at] += by
    return made


@pytest.mark.parametrize(
    ("backend", "precision", "weights", "floor"),
    [
        ("cpu", "high", Weights.FULL, None),
        ("cpu", "normal", Weights.FULL, None),
        ("cpu", "low", Weights.FULL, 0.999),
        ("opencl", "normal", Weights.FULL, 0.999),
        ("opencl", "high", Weights.FULL, None),
        ("cpu", "high", Weights.HALF, 0.999),
        ("cpu", "high", Weights.INT8, 0.98),
        ("vulkan", "low", Weights.INT8, 0.98),
        ("cpu", "low", Weights.INT4, 0.8),
        ("cpu", "high", Weights.CALIBRATED, 0.9),
    ],
)
def test_what_is_demanded_follows_weights_and_precision(
    backend: str, precision: str, weights: Weights, floor: float | None
) -> None:
    cell = PlannedCell("net", backend, 2, precision, "low", 0, 0, 0, tensor=True)
    assert demand_of(cell, weights, 1e-4) == Demand(1e-4, floor)


def test_the_same_outputs_are_right_whatever_is_demanded() -> None:
    for demand in (EXACT, HALF, EIGHT):
        found = result([array.copy() for array in WANTED], demand)
        assert (list(found.wrong()), list(found.degenerate()), list(found.rounded())) == ([], [], [])


def test_an_element_that_is_off_is_told_with_its_place() -> None:
    found = result(bent(0.5))
    value = WANTED[1][0, 1, 2]
    assert list(found.wrong()) == [
        "output y differs from the reference: 1 of 400 elements are beyond 0.0001; the worst is in sample 1.npz at "
        f"[0, 1, 2]: {value + np.float32(0.5):g} instead of {value:g}"
    ]


def test_rounding_that_a_steep_layer_enlarges_passes_and_is_told() -> None:
    found = result(bent(4e-4))
    assert list(found.wrong()) == []
    [says] = found.rounded()
    assert says.startswith("output y: 1 of 400 elements are beyond 0.0001; the worst is in sample 1.npz at [0, 1, 2]: ")


def test_what_is_beyond_ten_times_the_tolerance_or_in_many_elements_is_no_rounding() -> None:
    large = result(bent(3e-3))
    assert (len(list(large.wrong())), list(large.rounded())) == (1, [])
    many = result([array + np.float32(3e-4) for array in WANTED])
    assert (len(list(many.wrong())), list(many.rounded())) == (1, [])


def test_a_single_nan_is_wrong_however_little_is_demanded() -> None:
    for demand in (EXACT, HALF, EIGHT):
        [says] = result(bent(float("nan")), demand).wrong()
        assert says.startswith("output y has NaN or infinity beside numbers: 1 of 400 elements")
        assert "[0, 1, 2]: nan instead of" in says


def test_fewer_bits_are_held_to_the_accuracy_they_keep() -> None:
    noise = [array + 0.1 * RANDOM.standard_normal(array.shape).astype(np.float32) for array in WANTED]
    assert list(result(noise, EIGHT).wrong()) == []
    [says] = result(noise, HALF).wrong()
    assert says.startswith("output y keeps a cosine similarity of 0.99")
    assert "demanded are 0.999 and 0.995; " in says


def test_one_sample_that_is_all_wrong_is_not_hidden_in_the_mean() -> None:
    wanted = [RANDOM.standard_normal((1, 30)) for _ in range(100)]
    made = [array.copy() for array in wanted]
    made[7] = made[7][:, ::-1]
    found = result(made, EIGHT, wanted)
    assert found.kept[0].cosine_mean is not None
    assert found.kept[0].cosine_mean > 0.98
    [says] = found.wrong()
    assert "sample 7.npz" in says


def test_outputs_of_another_length_are_wrong_though_they_point_the_same_way() -> None:
    [says] = result([2 * array for array in WANTED], Demand(1e-4, 0.8)).wrong()
    assert says.startswith("output y is 2.00 times as large as the reference; ")
    [says] = result([np.float32(0.9) * array for array in WANTED], HALF).wrong()
    assert says.startswith("output y is 0.90 times as large")


def test_an_output_that_is_missing_in_a_sample_is_wrong() -> None:
    [says] = result([WANTED[0], None], EIGHT).wrong()
    assert says.startswith("output y could not be compared in 1 of 2 samples")


def test_one_number_everywhere_is_degenerate_only_where_the_reference_is_not() -> None:
    constant = [np.full_like(array, 0.25) for array in WANTED]
    assert list(result(constant).degenerate()) == ["output y is 0.25 everywhere, in 2 samples"]
    assert list(result([constant[0], WANTED[1]]).degenerate()) == []
    assert list(result(constant, wanted=constant).degenerate()) == []
    single = [np.ones((1, 1), np.float32)] * 2
    assert list(result(single, wanted=[2 * one for one in single]).degenerate()) == []


def test_the_demand_is_said_in_words() -> None:
    assert EXACT.words.startswith("every element within 0.0001 × max(1, |reference|)")
    assert HALF.words.startswith("a mean cosine similarity of 0.999 with the reference (0.995 in each sample)")
