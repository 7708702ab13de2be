"""``mnn-farm models check`` over models of the real engine and over captured outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from harness.commands.models import app
from harness.core.errors import ConfigError
from harness.payload.tensor_files import write_tensors


def check(*args: object) -> Result:
    return CliRunner().invoke(app, ["check", *map(str, args)])


def answer(*args: object) -> tuple[int, dict[str, Any]]:
    result = check(*args, "--json")
    return result.exit_code, json.loads(result.stdout)


def outputs(path: Path, **arrays: Any) -> Path:
    write_tensors(path, {name: np.array(array, np.float32) for name, array in arrays.items()})
    return path


def test_a_model_against_itself_is_exact(mnn_graphs: Path) -> None:
    model = mnn_graphs / "mixed.mnn"
    status, told = answer(model, model, "--tolerance", 0)
    assert (status, told["ok"]) == (0, True)
    assert [(row["name"], row["max_error"], row["share"]) for row in told["outputs"]] == [
        ("halves", 0, 1),
        ("product", 0, 1),
        ("sums", 0, 1),
    ]
    assert told["first"]["backend"] == "cpu"
    assert told["first"]["inputs"] == {"bytes": [4], "floats": [2, 3], "ints": [3, 4]}


def test_one_changed_weight_is_found_where_it_counts(mnn_graphs: Path, tmp_path: Path) -> None:
    # The second element of the third column is larger by 0.5, and the second row has the larger value for it.
    given = outputs(tmp_path / "x.npz", x=[[1, 1, 1], [1, 4, 1]])
    status, told = answer(mnn_graphs / "linear_changed.mnn", mnn_graphs / "linear.mnn", "--input", given)
    [row] = told["outputs"]
    assert (status, told["ok"], row["agreeing"], row["count"]) == (1, False, 6, 8)
    assert (row["max_error"], row["max_error_at"]) == (pytest.approx(2), [1, 2])
    assert row["mean_error"] == pytest.approx((0.5 + 2) / 8)
    assert row["worst"]["at"] == [1, 2]
    assert row["worst"]["first"] - row["worst"]["second"] == pytest.approx(2)


def test_it_is_told_in_words_and_by_its_exit_status(mnn_graphs: Path, tmp_path: Path) -> None:
    captured = outputs(tmp_path / "phone.npz", y=[3, 2, 1, 0])
    given = outputs(tmp_path / "x.npz", x=[9, 4, 1, 1])
    result = check(captured, mnn_graphs / "root.mnn", "--input", given)
    first, second, output, verdict = result.stdout.splitlines()
    assert result.exit_code == 1
    assert first == f"first: {captured}, captured outputs"
    assert second.endswith("on cpu, precision high")
    assert output == (
        "  y (4): max error 1 at [3], mean error 0.25, 3 of 4 elements agree (75.00 %); worst at [3]: 0 against 1"
    )
    assert verdict == "DIFFER: allowed is 0.0001 × max(1, |second|) for each element"
    agreed = check(captured, mnn_graphs / "root.mnn", "--input", given, "--tolerance", 1)
    assert (agreed.exit_code, agreed.stdout.splitlines()[-1][:6]) == (0, "agree:")


def test_what_is_no_number_is_told_and_fits_in_json(tmp_path: Path) -> None:
    first = outputs(tmp_path / "a.npz", y=[np.nan, np.inf, 1], z=[1])
    second = outputs(tmp_path / "b.npz", y=[np.nan, 2, 1], z=[1, 2])
    status, told = answer(first, second)
    y, z = told["outputs"]
    assert status == 1
    assert (y["same_non_finite"], y["mismatched_non_finite"], y["max_error"]) == (1, 1, 0)
    assert y["worst"] == {"at": [1], "first": "inf", "second": 2}
    assert (z["ok"], z["problem"]) == (False, "the shapes differ: 1 in the first and 2 in the second")
    text = check(first, second).stdout
    assert "in 1 a NaN or infinity stands against something else; 1 are the same NaN or infinity on both sides" in text
    assert "  z: the shapes differ" in text


def test_nearly_all_is_not_all(tmp_path: Path) -> None:
    same = [0.0] * 99_999
    first, second = outputs(tmp_path / "a.npz", y=[0, *same]), outputs(tmp_path / "b.npz", y=[1, *same])
    assert "99999 of 100000 elements agree (99.99 %)" in check(first, second).stdout


def test_a_model_that_the_engine_cannot_load_is_bad_and_not_wrong_usage(mnn_graphs: Path, tmp_path: Path) -> None:
    half = tmp_path / "half.mnn"
    half.write_bytes((mnn_graphs / "linear.mnn").read_bytes()[:300])
    status, told = answer(half, mnn_graphs / "linear.mnn")
    assert (status, told["ok"], told["problem"]["code"], told["outputs"]) == (1, False, "load_error", [])
    result = check(half, half)
    assert result.exit_code == 1
    assert "half.mnn: the engine cannot load it" in result.stdout


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("linear.mnn", "y.npz"), "a model is compared with captured outputs"),
        (("y.npz", "y.npz", "--seed", "1"), "neither side is a model, so nothing is run"),
        (("linear.mnn", "linear.mnn", "--seed", "1", "--input", "y.npz"), "ways to say the same"),
        (("linear.tflite", "linear.mnn"), "linear.tflite is neither a .mnn model nor an .npz file"),
        (("linear.onnx", "linear.mnn"), "linear.onnx cannot be read"),
        (("linear.mnn", "linear.mnn", "--samples", "."), "--samples compares with an .onnx model"),
        (("linear.mnn", "linear.mnn", "--tolerance", "inf"), "a tolerance of inf makes no sense"),
        (("nowhere.mnn", "linear.mnn"), "nowhere.mnn cannot be read (No such file or directory)"),
    ],
)
def test_wrong_usage_is_one_sentence(mnn_graphs: Path, args: tuple[str, ...], says: str) -> None:
    outputs(mnn_graphs / "y.npz", y=[1])
    error = check(*(mnn_graphs / arg if "." in arg else arg for arg in args)).exception
    assert isinstance(error, ConfigError)
    assert says in str(error)


@pytest.mark.parametrize("option", [("--tolerance", "-1"), ("--precision", "half"), ("--seed", "-1")])
def test_options_are_checked(option: tuple[str, str]) -> None:
    assert check("a.mnn", "b.mnn", *option).exit_code == 2
