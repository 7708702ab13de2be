"""``mnn-farm models convert`` with MNN's own converter: what comes out, and why nothing does."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from harness.commands.models import app
from harness.core.errors import ConfigError
from harness.payload.convert_record import read_record
from harness.payload.hashes import sha256_of
from harness.payload.mnn_weights import Weights, stored_weights
from harness.payload.models import read_tensor_model
from harness.payload.onnx_findings import FINDINGS, markdown_table
from harness.payload.tensor_files import read_tensors, write_tensors
from harness.payload.tensor_run import run_many


def convert(*args: object) -> Result:
    return CliRunner().invoke(app, ["convert", *map(str, args)])


def answer(*args: object) -> tuple[int, dict[str, Any]]:
    result = convert(*args, "--json")
    return result.exit_code, json.loads(result.stdout)


def refused(path: Path, out: Path, *args: object) -> dict[str, str]:
    """Convert what cannot be, and return the first error; nothing but a log may be left."""
    status, told = answer(path, "-o", out, *args)
    assert (status, told["ok"], told["facts"]) == (1, False, {})
    assert {file.name for file in out.iterdir()} <= {"convert.log"}
    problem: dict[str, str] = next(problem for problem in told["problems"] if problem["severity"] == "error")
    assert FINDINGS[problem["code"]][0] == "error"
    assert problem["fix"]
    return problem


def test_a_model_comes_with_its_log_and_its_record(onnx_kit: ModuleType, tmp_path: Path) -> None:
    source, out = onnx_kit.classifier(tmp_path / "m.onnx"), tmp_path / "out"
    status, told = answer(source, "-o", out)
    assert (status, told["ok"], told["problems"]) == (0, True, [])
    assert {file.name for file in out.iterdir()} == {"m.mnn", "convert.log", "convert.json"}
    assert "Converted Success!" in (out / "convert.log").read_text()
    assert str(tmp_path) not in (out / "convert.log").read_text() + (out / "convert.json").read_text()
    record = read_record(out / "m.mnn")
    assert record is not None
    assert (record.weights, record.api, record.engine_needed) == (Weights.FULL, "session", None)
    assert record.value["inputs"] == [
        {"name": "x", "shape": [1, 3, 16, 16], "dtype": "float32", "engine_dtype": "float32"}
    ]
    assert record.value["source"]["sha256"] == sha256_of(source)
    assert told["facts"]["converter"] == record.value["converter"]


@pytest.mark.parametrize(
    ("option", "weights"),
    [
        ((), Weights.FULL),
        (("--fp16",), Weights.HALF),
        (("--weight-bits", 8), Weights.INT8),
        (("--weight-bits", 4), Weights.INT4),
    ],
)
def test_weights_are_stored_as_asked_and_the_model_shows_it(
    onnx_kit: ModuleType, tmp_path: Path, option: tuple[object, ...], weights: Weights
) -> None:
    status, told = answer(onnx_kit.classifier(tmp_path / "m.onnx"), "-o", tmp_path / "out", *option)
    assert (status, told["facts"]["weights"]) == (0, weights.value)
    assert stored_weights((tmp_path / "out" / "m.mnn").read_bytes()) is weights


def test_a_record_is_that_of_its_model_only(onnx_kit: ModuleType, tmp_path: Path) -> None:
    convert(onnx_kit.relu(tmp_path / "m.onnx"), "-o", tmp_path)
    assert read_record(tmp_path / "m.mnn") is not None
    (tmp_path / "m.mnn").write_bytes(b"another model")
    assert read_record(tmp_path / "m.mnn") is None


def test_what_is_no_whole_model_is_refused(onnx_kit: ModuleType, tmp_path: Path) -> None:
    whole = onnx_kit.classifier(tmp_path / "m.onnx").read_bytes()
    (tmp_path / "half.onnx").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "page.onnx").write_text("<html>404</html>")
    assert refused(tmp_path / "half.onnx", tmp_path / "a")["code"] == "onnx_cut_off"
    assert refused(tmp_path / "page.onnx", tmp_path / "b")["code"] == "not_onnx"


def test_an_operator_that_mnn_does_not_know_is_named(onnx_kit: ModuleType, tmp_path: Path) -> None:
    kit = onnx_kit
    nodes = [kit.node("Relu", ["x"], ["t"]), kit.node("Fancy", ["t"], ["y"], domain="acme")]
    path = kit.save(tmp_path / "m.onnx", nodes, [kit.value("x")], [kit.value("y", None)], domain="acme")
    problem = refused(path, tmp_path / "out")
    assert (problem["code"], problem["detail"]) == ("op_unsupported", "MNN's converter does not know Fancy")
    assert "These Op Not Support" in (tmp_path / "out" / "convert.log").read_text()


def test_a_tensor_that_nothing_makes_is_found_before_the_converter_crashes(
    onnx_kit: ModuleType, tmp_path: Path
) -> None:
    kit = onnx_kit
    path = kit.save(tmp_path / "m.onnx", [kit.node("Add", ["x", "gone"], ["y"])], [kit.value("x")], [kit.value("y")])
    problem = refused(path, tmp_path / "out")
    assert problem["code"] == "tensor_undefined"
    assert "'gone'" in problem["detail"]


def test_weights_that_lie_elsewhere_have_to_be_there_and_whole(onnx_kit: ModuleType, tmp_path: Path) -> None:
    kit = onnx_kit
    where = {"save_as_external_data": True, "location": "m.data", "size_threshold": 0}
    nodes = [kit.node("Conv", ["x", "w"], ["y"])]
    source = kit.save(tmp_path / "m.onnx", nodes, [kit.value("x")], [kit.value("y", None)], {"w": kit.KERNEL}, **where)
    data = tmp_path / "m.data"
    status, told = answer(source, "-o", tmp_path / "whole")
    assert (status, told["facts"]["source"]["bytes"]) == (0, source.stat().st_size + data.stat().st_size)
    data.write_bytes(data.read_bytes()[:100])
    assert refused(source, tmp_path / "a")["code"] == "external_short"
    data.unlink()
    problem = refused(source, tmp_path / "b")
    assert (problem["code"], problem["fix"]) == ("external_missing", "copy m.data to the folder of the model")
    source.write_bytes(source.read_bytes().replace(b"m.data", b"../x.y"))
    assert refused(source, tmp_path / "c")["code"] == "external_outside"


def test_what_mnn_has_no_type_for_is_refused(onnx_kit: ModuleType, tmp_path: Path) -> None:
    kit = onnx_kit
    nodes = [kit.node("StringNormalizer", ["x"], ["y"])]
    path = kit.save(tmp_path / "m.onnx", nodes, [kit.value("x", (1,), kit.STRING)], [kit.value("y", None, kit.STRING)])
    assert refused(path, tmp_path / "out")["code"] == "type_unsupported"


@pytest.mark.parametrize(
    ("options", "code", "detail"),
    [
        ({"shape": ("batch", 3, "height", 8)}, "shape_open", "input x is ?×3×?×8 (batch, height)"),
        ({"opset": 99}, "opset_new", "operator set 99"),
        ({"ir": 99}, "ir_new", "IR version 99"),
    ],
)
def test_what_to_watch_out_for_is_a_warning(
    onnx_kit: ModuleType, tmp_path: Path, options: dict[str, Any], code: str, detail: str
) -> None:
    status, told = answer(onnx_kit.relu(tmp_path / "m.onnx", **options), "-o", tmp_path / "out")
    [problem] = told["problems"]
    assert (status, problem["severity"], problem["code"]) == (0, "warning", code)
    assert detail in problem["detail"]


def test_conditions_need_the_module_api_and_names_may_be_anything(onnx_kit: ModuleType, tmp_path: Path) -> None:
    kit = onnx_kit
    then = kit.graph([kit.node("Relu", ["in/put é"], ["a"])], "t", [], [kit.value("a", (1, 3))])
    other = kit.graph([kit.node("Neg", ["in/put é"], ["b"])], "e", [], [kit.value("b", (1, 3))])
    nodes = [kit.node("If", ["c"], ["out:0"], then_branch=then, else_branch=other)]
    inputs = [kit.value("in/put é", (1, 3)), kit.value("c", (), kit.BOOL)]
    path = kit.save(tmp_path / "modèle 1.onnx", nodes, inputs, [kit.value("out:0", (1, 3))])
    status, told = answer(path, "-o", tmp_path / "out")
    assert (status, told["facts"]["api"]) == (0, "module")
    assert [problem["code"] for problem in told["problems"]] == ["type_narrowed", "needs_module"]
    check = CliRunner().invoke(app, ["check", str(path), str(tmp_path / "out" / "modèle 1.mnn")])
    assert check.exit_code == 0, check.stdout


def test_calibration_takes_real_samples_and_refuses_random_ones(onnx_kit: ModuleType, tmp_path: Path) -> None:
    source, random = onnx_kit.classifier(tmp_path / "m.onnx"), np.random.default_rng(1)
    real, noise = tmp_path / "real", tmp_path / "noise"
    real.mkdir()
    noise.mkdir()
    slope = np.tile(np.linspace(-1, 1, 16, dtype=np.float32), (1, 3, 16, 1))
    for index in range(16):
        write_tensors(real / f"{index}.npz", {"x": slope * (1 - index / 20)})
        write_tensors(noise / f"{index}.npz", {"x": random.standard_normal(slope.shape).astype(np.float32)})
    problem = refused(source, tmp_path / "a", "--quantize", noise)
    assert (problem["code"], "--anyway" in problem["fix"]) == ("calibration_random", True)
    status, told = answer(source, "-o", tmp_path / "b", "--quantize", noise, "--anyway")
    assert (status, [problem["code"] for problem in told["problems"]]) == (0, ["calibration_accepted"])
    status, told = answer(source, "-o", tmp_path / "c", "--quantize", real)
    assert (status, told["problems"], told["facts"]["weights"]) == (0, [], "int8-calibrated")
    assert told["facts"]["calibration"] == {"samples": 16}
    assert stored_weights((tmp_path / "c" / "m.mnn").read_bytes()) is Weights.CALIBRATED


def test_samples_come_to_lie_beside_the_model_with_what_onnx_runtime_makes_of_them(
    onnx_kit: ModuleType, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    source, samples, out = onnx_kit.classifier(tmp_path / "m.onnx"), tmp_path / "samples", tmp_path / "out"
    samples.mkdir()
    x = np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype(np.float32)
    write_tensors(samples / "cat.npz", {"x": x})
    np.save(samples / "dog.npy", 2 * x)
    assert answer(source, "-o", out, "--samples", samples)[0] == 0
    model = read_tensor_model(out).tensor
    assert model is not None
    assert model.samples == model.expected == ("cat.npz", "dog.npz")
    assert np.array_equal(read_tensors(out / "samples" / "dog.npz")["x"], 2 * x)
    wanted = run_many(source, [{"x": x}])[0]
    assert isinstance(wanted, dict)
    assert np.array_equal(read_tensors(out / "expected" / "cat.npz")["y"], wanted["y"])

    write_tensors(samples / "bad.npz", {"x": x[:, :, 1:]})
    error = convert(source, "-o", out, "--samples", samples).exception
    assert isinstance(error, ConfigError)
    assert "cannot be run on bad.npz" in str(error)
    assert read_tensor_model(out).tensor == model

    assert answer(source, "-o", out, "--fp16")[0] == 0
    again = read_tensor_model(out).tensor
    assert again is not None
    assert (again.samples, again.expected) == (model.samples, ())


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("nowhere.onnx", "-o", "out"), "is no file"),
        (("m.onnx", "-o", "out", "--fp16", "--weight-bits", "8"), "different ways to store"),
        (("m.onnx", "-o", "out", "--anyway"), "--anyway is about calibration"),
        (("m.onnx", "-o", "other"), "holds another model, n.mnn"),
        (("m.onnx", "-o", "out", "--quantize", "nowhere"), "cannot be read"),
    ],
)
def test_wrong_usage_is_one_sentence(onnx_kit: ModuleType, tmp_path: Path, args: tuple[str, ...], says: str) -> None:
    onnx_kit.relu(tmp_path / "m.onnx")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "n.mnn").touch()
    paths = ("m.onnx", "nowhere.onnx", "out", "other", "nowhere")
    error = convert(*(tmp_path / arg if arg in paths else arg for arg in args)).exception
    assert isinstance(error, ConfigError)
    assert says in str(error)


def test_the_documentation_has_every_finding() -> None:
    page = Path(__file__).parents[3] / "docs" / "onnx.md"
    assert markdown_table() in page.read_text(encoding="utf-8")
