"""Folders of converted models: what is read of them, and what is refused before a phone is touched."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import ConfigError, ModelIncompleteError
from harness.core.reasons import Reason
from harness.payload.chosen import models_of
from harness.payload.mnn_weights import Weights
from harness.payload.models import find_model, here_models, read_model, read_tensor_model, verify_model
from harness.payload.models_import import import_model, pin_in_place
from harness.payload.tensor_files import write_tensors
from harness.plan.model import Plan


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return Path(shutil.copytree(find_model("tiny-cnn"), tmp_path / "net"))


def test_a_phone_gets_the_model_alone(net: Path) -> None:
    model = read_tensor_model(net)
    assert [file.path for file in model.folder.files] == ["tiny-cnn.mnn"]
    assert model.weight_bytes == (net / "tiny-cnn.mnn").stat().st_size
    assert model.tensor is not None
    assert (model.name, model.quant_bits, model.tensor.weights) == ("net", 32, Weights.FULL)
    assert model.tensor.samples == model.tensor.expected == ("0.npz", "1.npz", "2.npz", "3.npz")
    assert [(one.name, one.shape, str(one.dtype)) for one in model.tensor.inputs] == [("x", (1, 3, 12, 12), "float32")]
    assert len(model.tensor.source) == 64
    shutil.rmtree(net / "samples")
    shutil.rmtree(net / "expected")
    assert read_tensor_model(net).folder.hash == model.folder.hash


@pytest.mark.parametrize(
    ("name", "bits", "weights"), [("tiny-cnn-fp16", 16, Weights.HALF), ("tiny-cnn-int8", 8, Weights.INT8)]
)
def test_shipped_variants_say_how_their_weights_are_stored(name: str, bits: int, weights: Weights) -> None:
    model = read_tensor_model(find_model(name))
    assert model.tensor is not None
    assert (model.quant_bits, model.tensor.weights) == (bits, weights)
    full = read_tensor_model(find_model("tiny-cnn")).tensor
    assert full is not None
    assert model.tensor.source == full.source
    assert full.multiplied == 8 * 3 * 9 + 16 * 8 * 9 + 16 * 10


def test_what_is_shipped_is_small() -> None:
    sizes = [
        file.stat().st_size
        for name in ("tiny-cnn", "tiny-cnn-fp16", "tiny-cnn-int8")
        for file in find_model(name).rglob("*")
        if file.is_file()
    ]
    assert sum(sizes) < 60_000


def cut(net: Path) -> None:
    (net / "tiny-cnn.mnn").write_bytes((net / "tiny-cnn.mnn").read_bytes()[:5000])


def pointer(net: Path) -> None:
    (net / "tiny-cnn.mnn").write_text("version https://git-lfs.github.com/spec/v1\n")


def other_model(net: Path) -> None:
    shutil.copy(find_model("tiny-cnn-int8") / "tiny-cnn.mnn", net)


def two_models(net: Path) -> None:
    shutil.copy(net / "tiny-cnn.mnn", net / "other.mnn")


def no_record(net: Path) -> None:
    (net / "convert.json").unlink()


def broken_record(net: Path) -> None:
    (net / "convert.json").write_text("{")


def record_without_types(net: Path) -> None:
    record = json.loads((net / "convert.json").read_text())
    del record["inputs"][0]["engine_dtype"]
    (net / "convert.json").write_text(json.dumps(record))


def sample_of_other_input(net: Path) -> None:
    write_tensors(net / "samples" / "0.npz", {"image": np.zeros((1, 3, 12, 12), np.float32)})


def broken_sample(net: Path) -> None:
    (net / "samples" / "2.npz").write_bytes(b"PK")


def broken_expectation(net: Path) -> None:
    (net / "expected" / "2.npz").write_bytes(b"")


@pytest.mark.parametrize(
    ("spoil", "check", "says"),
    [
        (cut, "graph_unreadable", "is no whole MNN model"),
        (pointer, "lfs_pointer", "is a Git LFS pointer, not the file"),
        (other_model, "file_other", "is not the model that"),
        (two_models, "file_missing", "holds 2 models (other.mnn, tiny-cnn.mnn)"),
        (no_record, "file_missing", "is not there, which tells what the model takes"),
        (broken_record, "config_unreadable", "cannot be read"),
        (record_without_types, "config_unreadable", "does not tell what the model takes"),
        (sample_of_other_input, "sample_unfit", "gives image, the model takes x"),
        (broken_sample, "sample_unfit", "is not a whole .npz file"),
        (broken_expectation, "sample_unfit", "is not a whole .npz file"),
    ],
)
def test_a_spoiled_folder_is_refused_and_named(net: Path, spoil: Callable[[Path], None], check: str, says: str) -> None:
    spoil(net)
    with pytest.raises(ModelIncompleteError) as caught:
        read_tensor_model(net)
    assert says in caught.value.message
    assert caught.value.reason is Reason.MODEL_INCOMPLETE
    report = verify_model(net)
    assert (report.ok, report.problems[0].check) == (False, check)


def test_an_expectation_of_no_sample_is_told_and_left_out(net: Path) -> None:
    (net / "samples" / "3.npz").unlink()
    model = read_tensor_model(net)
    assert model.tensor is not None
    assert model.tensor.expected == ("0.npz", "1.npz", "2.npz")
    assert "holds 3.npz, which no sample is called" in model.warnings[0]


def test_a_converted_model_is_imported_whole_and_pinned(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "cache"))
    here = import_model(net, "mine", replace=False, say=print)
    assert "mine" in here_models()
    model = read_tensor_model(find_model("mine"))
    assert model.pinned
    assert model.tensor is not None
    assert len(model.tensor.expected) == 4
    assert model.folder.hash == read_tensor_model(net).folder.hash
    write_tensors(here / "expected" / "0.npz", {"y": np.zeros((1, 10), np.float32)})
    with pytest.raises(ConfigError, match=r"expected/0.npz") as caught:
        read_tensor_model(here)
    assert caught.value.reason is Reason.PAYLOAD_CORRUPT
    assert [problem.check for problem in verify_model(here).problems] == ["pin_differs"]
    pin_in_place(here)
    assert read_tensor_model(here).pinned


def test_verify_shows_what_it_is(net: Path) -> None:
    report = verify_model(net, engine_version="3.6.1", memory_bytes=10**9)
    assert report.ok
    assert report.facts["kind"] == "tensor"
    assert (report.facts["weights"], report.facts["samples"], report.facts["expected"]) == ("fp32", 4, 4)
    assert [one.check for one in verify_model(net, engine_version="2.0.0").problems] == ["engine_older_than_model"]
    assert [one.check for one in verify_model(net, memory_bytes=1000).problems] == ["does_not_fit"]


def test_a_model_of_the_other_kind_is_one_clear_sentence(net: Path) -> None:
    with pytest.raises(
        ConfigError, match="holds a language model, and the plan is of kind tensor: take a plan of kind"
    ):
        read_tensor_model(find_model("tiny-llama"))
    with pytest.raises(ConfigError, match=r"no language model: measure it with a plan of kind tensor, e\.g\. --plan"):
        read_model(net)


def test_the_plans_kind_decides_how_its_models_are_read(net: Path) -> None:
    values = {"kind": "tensor", "models": [str(net), "tiny-cnn-int8"], "backends": ["cpu"], "threads": [1]}
    models = models_of(Plan.model_validate(values), None)
    assert {name: model.tensor is not None for name, model in models.items()} == {str(net): True, "tiny-cnn-int8": True}


def test_the_record_says_the_type_that_the_engine_takes(net: Path) -> None:
    record = json.loads((net / "convert.json").read_text())
    record["inputs"][0] |= {"shape": [None, 3, 12, 12], "engine_dtype": "int32"}
    (net / "convert.json").write_text(json.dumps(record))
    model = read_tensor_model(net)
    assert model.tensor is not None
    assert [(one.shape, str(one.dtype)) for one in model.tensor.inputs] == [((-1, 3, 12, 12), "int32")]
