from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.core.errors import ConfigError, ModelIncompleteError
from harness.payload.engine_needs import engine_needs
from harness.payload.model_check import check_model
from harness.payload.model_shape import shape_of
from harness.payload.models import ModelFolder, find_model, read_model

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 99\n"
FILES = ("config.json", "llm.mnn", "llm.mnn.weight", "llm_config.json", "tokenizer.mtok")


@pytest.fixture
def model(kit: ModuleType, tmp_path: Path) -> Path:
    return Path(kit.write_model(tmp_path / "toy"))


def test_a_whole_model_is_read(model: Path) -> None:
    found = read_model(model)
    assert found == ModelFolder(
        name="toy",
        folder=found.folder,
        weight_bytes=517,
        quant_bits=7,
        pinned=False,
        read_per_token_bytes=517,
        read_per_token_why="",
        engine_version="3.6.1",
        warnings=(),
        shape=shape_of(check_model(model)),
        engine_needs=engine_needs(check_model(model)),
    )
    assert tuple(file.path for file in found.folder.files) == FILES


@pytest.mark.parametrize(
    ("name", "content", "bits"),
    [
        ("export_args.json", b'{"quant_bit": 8}', 8),
        ("export_args.json", b'{"quant_bit": "4"}', 7),
        ("export_args.json", b'{"quant_bit": true}', 7),
        ("export_args.json", b"{", 7),
    ],
)
def test_the_bits_of_a_weight_are_those_the_exporter_noted_else_those_of_the_layers(
    model: Path, name: str, content: bytes, bits: int | None
) -> None:
    (model / name).write_bytes(content)
    assert read_model(model).quant_bits == bits


def test_the_bits_may_stand_in_the_models_own_configuration(kit: ModuleType, tmp_path: Path) -> None:
    folder = kit.write_model(tmp_path / "toy", llm_config__json=kit.model_config(quant_bit=4))
    assert read_model(folder).quant_bits == 4


def test_every_weight_file_counts(model: Path) -> None:
    (model / "visual.mnn.weight").write_bytes(b"w" * 20)
    assert read_model(model).weight_bytes == 537


@pytest.mark.parametrize("name", ["w.bin", "./w.bin", "sub/../w.bin"])
def test_a_weight_file_of_another_name_counts_however_it_is_written(kit: ModuleType, tmp_path: Path, name: str) -> None:
    files = {"llm__mnn__weight": None, "w__bin": kit.WEIGHTS}
    folder = kit.write_model(tmp_path / "toy", {"llm_weight": name}, **files)
    (folder / "sub").mkdir()
    assert read_model(folder).weight_bytes == 517


def test_an_older_tokenizer_is_found(kit: ModuleType, tmp_path: Path) -> None:
    old = kit.header(1, stop=[31]) + b"32\n" + b"SGk=\n" * 32
    config = {"tokenizer_file": "tokenizer.txt"}
    folder = kit.write_model(tmp_path / "toy", config, tokenizer__mtok=None, tokenizer__txt=old)
    assert read_model(folder).name == "toy"


@pytest.mark.parametrize("name", FILES[1:])
@pytest.mark.parametrize(
    ("damage", "says"),
    [("missing", "lacks "), ("empty", "is empty"), ("pointer", "is a Git LFS pointer, not the file")],
)
def test_a_file_the_engine_needs_is_refused_missing_empty_or_a_pointer(
    model: Path, name: str, damage: str, says: str
) -> None:
    if damage == "missing":
        (model / name).unlink()
    else:
        (model / name).write_bytes(b"" if damage == "empty" else POINTER)
    with pytest.raises(ModelIncompleteError) as caught:
        read_model(model)
    assert says in str(caught.value)
    assert name in str(caught.value)
    assert caught.value.reason.code == "model_incomplete"


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"llm_weight": "../secret"}, "leads out of the model folder"),
        ({"llm_model": "/etc/hostname"}, "leads out of the model folder"),
        ({"llm_model": "link"}, "leads out of the model folder"),
        ({"llm_model": 3}, "llm_model is 3: it must name a file"),
        ({"llm_model": ""}, "llm_model is '': it must name a file"),
        ({"tokenizer_file": None}, "tokenizer_file is None: it must name a file"),
        ({"llm_model": "."}, "lacks ."),
        ({"llm_model": "a\0b"}, "llm_model is 'a\\x00b': it must name a file"),
        ({"llm_model": "\ud800"}, "it must name a file"),
        ({"llm_model": "x" * 5000}, "cannot be read"),
        ({"llm_model": "circle"}, "circle"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused(
    kit: ModuleType, tmp_path: Path, config: dict[str, Any], says: str
) -> None:
    (tmp_path / "secret").write_text("x")
    folder = kit.write_model(tmp_path / "toy", config)
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "circle").symlink_to(folder / "circle")
    with pytest.raises(ModelIncompleteError) as caught:
        read_model(folder)
    assert says in str(caught.value)


@pytest.mark.parametrize("content", [b"{", b"[]", b"3", b"\xff"])
def test_a_configuration_that_is_no_json_object_is_refused(model: Path, content: bytes) -> None:
    (model / "config.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"config\.json (cannot be read as JSON|holds no JSON object)") as caught:
        read_model(model)
    assert "\n" not in str(caught.value)


def test_what_is_no_model_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing is not a folder: name a folder with config\.json in it"):
        read_model(tmp_path / "nothing")
    with pytest.raises(ModelIncompleteError, match=r"has no config\.json"):
        read_model(tmp_path)


def test_the_model_that_comes_with_the_product_is_whole_and_small() -> None:
    found = read_model(find_model("tiny-llama"))
    assert found.name == "tiny-llama"
    assert 0 < found.weight_bytes < 1_000_000
    assert found.folder.size < 1_000_000
    assert found.warnings == ()


def test_a_model_is_found_by_folder_or_by_its_configuration(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_model(str(model)) == model
    assert find_model(str(model / "config.json")) == model
    monkeypatch.chdir(tmp_path)
    assert find_model("toy") == Path("toy")


def test_a_name_nobody_has_is_told_with_those_there_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path))
    with pytest.raises(ConfigError, match=r"there is no model called tiny-lama: name a folder .*tiny-llama"):
        find_model("tiny-lama")
    with pytest.raises(ConfigError, match="run: mnn-farm models fetch smollm2-135m"):
        find_model("smollm2-135m")
