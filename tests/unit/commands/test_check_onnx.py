"""``mnn-farm models check`` against ONNX Runtime: agreement, the usual mistakes by name, and accuracy kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from harness.commands.models import app
from harness.core.errors import ConfigError
from harness.payload.convert import ConvertOptions, convert_model
from harness.payload.mnn_weights import Weights
from harness.payload.tensor_files import write_tensors
from harness.payload.tensor_run import run_model

pytest.importorskip("onnxruntime")

RANDOM = np.random.default_rng(4)


def check(*args: object) -> Result:
    return CliRunner().invoke(app, ["check", *map(str, args)])


def answer(*args: object) -> tuple[int, dict[str, Any]]:
    result = check(*args, "--json")
    return result.exit_code, json.loads(result.stdout)


@pytest.fixture(scope="session")
def models(onnx_kit: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that makes a model with mistakes, and converts it where it is asked for as ``.mnn``."""
    folder = tmp_path_factory.mktemp("onnx")
    made: dict[str, Path] = {}

    def make(name: str, weights: Weights | None = Weights.FULL, **mistakes: Any) -> Path:
        key = f"{name}-{weights.value if weights else 'onnx'}"
        if key not in made:
            source = folder / f"{name}.onnx"
            if not source.exists():
                onnx_kit.classifier(source, **mistakes)
            if weights is None:
                made[key] = source
            else:
                model = convert_model(source, folder / key, ConvertOptions(weights)).model
                assert model is not None
                made[key] = model
        return made[key]

    return make


def test_a_converted_model_agrees_with_its_original(models: Callable[..., Path]) -> None:
    for sides in ((models("right", None), models("right")), (models("right"), models("right", None))):
        status, told = answer(*sides, "--seed", 3)
        assert (status, told["ok"], told["judged_by"], told["findings"]) == (0, True, "tolerance", [])
        [output] = told["outputs"]
        assert output["share"] == 1
        assert output["max_error"] < 1e-5


@pytest.mark.parametrize(
    ("name", "mistakes", "code", "detail"),
    [
        ("bgr", {"bgr": True}, "channel_order", "its channels in reverse"),
        ("nhwc", {"nhwc": True}, "layout", "its input as NHWC"),
        ("imagenet", {"normalised": "imagenet"}, "normalization", "without (x - mean) / std of ImageNet"),
        ("bytes", {"normalised": ([0.0], [255.0])}, "normalization", "without x / 255"),
        ("both", {"normalised": ([127.5], [127.5]), "bgr": True}, "channel_order+normalization", "127.5"),
        ("whole", {"cast": 6}, "dtype", "cut to whole numbers"),
    ],
)
def test_a_usual_mistake_is_named_and_proven(
    models: Callable[..., Path], onnx_kit: ModuleType, name: str, mistakes: dict[str, Any], code: str, detail: str
) -> None:
    if mistakes.get("normalised") == "imagenet":
        mistakes = {"normalised": onnx_kit.IMAGENET}
    status, told = answer(models("right", None), models(name, **mistakes))
    found = {finding["code"]: finding for finding in told["findings"]}
    assert (status, told["ok"]) == (1, False)
    assert code in found
    assert detail in found[code]["detail"]
    assert found[code]["fix"]


def test_a_missing_normalisation_is_put_before_the_model(models: Callable[..., Path], onnx_kit: ModuleType) -> None:
    reference = models("imagenet", None, normalised=onnx_kit.IMAGENET)
    status, told = answer(reference, models("right"))
    [finding] = told["findings"]
    assert (status, finding["code"]) == (1, "normalization")
    assert finding["fix"] == "put the mean and scale before right.mnn"


def test_another_model_is_no_usual_mistake(models: Callable[..., Path]) -> None:
    status, told = answer(models("right", None), models("odd", normalised=([0.3, 0.2, 0.1], [0.9, 1.1, 1.3])))
    assert (status, [finding["code"] for finding in told["findings"]]) == (1, ["unexplained"])


def test_a_phones_outputs_are_explained_too(models: Callable[..., Path], tmp_path: Path) -> None:
    given = RANDOM.standard_normal((1, 3, 16, 16)).astype(np.float32)
    write_tensors(tmp_path / "x.npz", {"x": given})
    made = run_model(models("right"), {"x": given[:, ::-1]}).outputs
    write_tensors(tmp_path / "phone.npz", {"whatever": made["y"]})
    status, told = answer(tmp_path / "phone.npz", models("right", None), "--input", tmp_path / "x.npz")
    [finding] = told["findings"]
    assert (status, finding["code"]) == (1, "channel_order")
    assert "acts as if it were fed so" in finding["fix"]


@pytest.mark.parametrize("weights", [Weights.HALF, Weights.INT8])
def test_weights_of_fewer_bits_are_judged_by_the_accuracy_they_keep(
    models: Callable[..., Path], tmp_path: Path, weights: Weights
) -> None:
    for index in range(4):
        write_tensors(tmp_path / f"{index}.npz", {"x": RANDOM.standard_normal((1, 3, 16, 16)).astype(np.float32)})
    status, told = answer(models("right", None), models("right", weights), "--samples", tmp_path)
    [kept] = told["accuracy"]
    assert (status, told["judged_by"], told["weights"], told["findings"]) == (0, "accuracy", weights.value, [])
    assert (kept["samples"], kept["failed"], kept["same_top1"]) == (4, 0, 1)
    assert 0.99 < kept["cosine_min"] <= kept["cosine_mean"] <= 1
    assert kept["max_error"] > 0
    status, told = answer(models("right", None), models("bgr", weights, bgr=True), "--samples", tmp_path)
    assert (status, [finding["code"] for finding in told["findings"]]) == (1, ["channel_order"])


def test_accuracy_over_random_input_says_that_it_is(models: Callable[..., Path]) -> None:
    result = check(models("right", None), models("right", Weights.HALF))
    assert result.exit_code == 0
    assert "warning: inputs_random" in result.stdout
    assert "accuracy kept over 1 sample:" in result.stdout


def test_without_a_record_the_model_itself_tells_its_weights(models: Callable[..., Path], tmp_path: Path) -> None:
    alone = tmp_path / "alone.mnn"
    alone.write_bytes(models("right", Weights.HALF).read_bytes())
    assert answer(models("right", None), alone)[1]["weights"] == "fp16"


def test_open_dimensions_have_to_be_given(onnx_kit: ModuleType, tmp_path: Path) -> None:
    source = onnx_kit.relu(tmp_path / "m.onnx", ("N", 3, "H", "W"))
    model = convert_model(source, tmp_path / "out").model
    error = check(source, model).exception
    assert isinstance(error, ConfigError)
    assert "input x is ?×3×?×?: give one of full size with --input FILE.npz" in str(error)
    write_tensors(tmp_path / "x.npz", {"x": RANDOM.standard_normal((1, 3, 5, 4))})
    assert check(source, model, "--input", tmp_path / "x.npz").exit_code == 0


@pytest.mark.parametrize(
    ("options", "says"), [({"opset": 99}, "operator set 99"), ({"ir": 99}, "ONNX Runtime reads up to")]
)
def test_what_onnx_runtime_refuses_is_explained(
    onnx_kit: ModuleType, tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    source = onnx_kit.relu(tmp_path / "m.onnx", **options)
    status, told = answer(source, convert_model(source, tmp_path / "out").model)
    assert (status, told["problem"]["code"]) == (1, "load_error")
    assert says in told["problem"]["detail"]
    assert told["problem"]["fix"]


def test_several_inputs_and_outputs_of_several_types(onnx_kit: ModuleType, tmp_path: Path) -> None:
    kit = onnx_kit
    nodes = [kit.node("Gather", ["table", "ids"], ["rows"]), kit.node("Mul", ["rows", "scale"], ["scaled"])]
    inputs = [kit.value("table", (4, 3)), kit.value("ids", (2,), kit.INT64), kit.value("scale", (1,))]
    path = kit.save(tmp_path / "m.onnx", nodes, inputs, [kit.value("rows", (2, 3)), kit.value("scaled", (2, 3))])
    status, told = answer(path, convert_model(path, tmp_path / "out").model)
    assert (status, [output["name"] for output in told["outputs"]]) == (0, ["rows", "scaled"])


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("m.onnx", "m.onnx"), "both sides are ONNX models"),
        (("m.onnx", "y.npz"), "captured outputs are compared with a model"),
        (("m.onnx", "m.mnn", "--seed", "1", "--samples", "."), "--samples and --seed are ways to say the same"),
    ],
)
def test_wrong_usage_is_one_sentence(args: tuple[str, ...], says: str) -> None:
    error = check(*args).exception
    assert isinstance(error, ConfigError)
    assert says in str(error)
