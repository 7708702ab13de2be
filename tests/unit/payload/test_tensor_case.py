"""What a tensor cell feeds and expects."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.errors import ConfigError, FarmError
from harness.payload import tensor_case
from harness.payload.models import find_model, read_tensor_model
from harness.payload.tensor_case import TensorCase, case_of, inputs_hash
from harness.payload.tensor_files import read_tensors, write_tensors
from harness.payload.tensor_model import TensorModel


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return Path(shutil.copytree(find_model("tiny-cnn"), tmp_path / "net"))


def model_in(folder: Path) -> TensorModel:
    model = read_tensor_model(folder).tensor
    assert model is not None
    return model


def case(folder: Path, count: int = 4, seed: int = 0) -> TensorCase:
    return case_of(model_in(folder), "hash", count, seed, lambda _: None)


def test_what_lies_beside_the_model_needs_no_engine(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(tensor_case, "run_many")
    made = case(net, 2)
    assert (made.samples, made.names, made.reference) == (("0.npz", "1.npz"), ("000000", "000001"), "onnxruntime")
    assert (made.real_inputs, made.bits) == (True, 32)
    assert np.array_equal(made.expected[1]["y"], read_tensors(net / "expected" / "1.npz")["y"])
    assert made.first().samples == ("0.npz",)


def test_only_samples_with_something_expected_are_run_where_there_are_any(net: Path) -> None:
    (net / "expected" / "0.npz").unlink()
    assert case(net, 2).samples == ("1.npz", "2.npz")


def test_the_runner_reads_raw_little_endian_files_and_their_index(net: Path) -> None:
    files = case(net, 1).files()
    assert json.loads(files["index.json"]) == {
        "samples": [
            {
                "name": "000000",
                "tensors": [{"name": "x", "dtype": "float32", "shape": [1, 3, 12, 12], "file": "000000.0.bin"}],
            }
        ]
    }
    fed = np.frombuffer(files["000000.0.bin"], "<f4").reshape(1, 3, 12, 12)
    assert np.array_equal(fed, read_tensors(net / "samples" / "0.npz")["x"])


def test_a_sample_of_another_size_is_refused_by_name(net: Path) -> None:
    write_tensors(net / "samples" / "0.npz", {"x": np.zeros((1, 3, 9, 9), np.float32)})
    with pytest.raises(ConfigError, match=r"samples/0.npz: input x has another shape: 1×3×9×9 was given for 1×3×12×12"):
        case(net)


def test_other_samples_are_other_inputs_and_what_is_expected_is_not(net: Path) -> None:
    def of(count: int = 4, seed: int = 0) -> str:
        return inputs_hash(model_in(net), count, seed)

    first = of()
    assert (len(first), of(seed=5)) == (16, first)
    assert of(2) != first
    write_tensors(net / "expected" / "0.npz", {"y": np.zeros((1, 10), np.float32)})
    assert of() == first
    write_tensors(net / "samples" / "0.npz", {"x": np.zeros((1, 3, 12, 12), np.float32)})
    assert of() != first
    shutil.rmtree(net / "samples")
    assert of() != of(seed=5)


def test_without_expectations_this_computers_engine_is_asked_once(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(net / "expected")
    asked: list[Any] = []

    def run_many(model: Path, inputs: Any, options: Any) -> Any:
        asked.append((model.name, len(inputs), options.precision))
        return [{"out/y": arrays["x"].sum(axis=(2, 3))} for arrays in inputs]

    monkeypatch.setattr(tensor_case, "run_many", run_many)
    first, again = case(net, 2), case(net, 2)
    assert asked == [("tiny-cnn.mnn", 2, "high")]
    assert first.reference == again.reference
    assert first.reference.startswith("mnn ")
    for one, other in zip((*first.inputs, *first.expected), (*again.inputs, *again.expected), strict=True):
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[name], other[name]) for name in one)
    [kept] = (net.parent / "cache" / "tensor-references").glob("*.npz")
    kept.write_bytes(b"damaged")
    case(net, 2)
    assert len(asked) == 2


def test_a_sample_that_this_computer_cannot_run_is_said(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(net / "expected")
    monkeypatch.setattr(tensor_case, "run_many", lambda *_, **__: [{"y": np.zeros(1)}, "no room"])
    with pytest.raises(FarmError, match=r"MNN cannot run .*tiny-cnn.mnn: no room"):
        case(net, 2)
