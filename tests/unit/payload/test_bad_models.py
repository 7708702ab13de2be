"""Every kind of bad model folder that people have brought: each refused with its own check, reason and fix."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.core.errors import ConfigError, ModelIncompleteError
from harness.payload.model_check import check_model
from harness.payload.model_problem import CHECKS
from harness.payload.models import find_model, read_model, verify_model

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 99\n"
FILES = ("config.json", "llm_config.json", "llm.mnn", "llm.mnn.weight", "tokenizer.mtok", "embeddings_bf16.bin")
AGAIN = "export or download the model again"
Make = Callable[..., Path]


@pytest.fixture
def make(kit: ModuleType, tmp_path: Path) -> Make:
    """Write a whole model with an embedding in a file of its own; arguments are as of ``write_model``."""

    def write(config: dict[str, Any] | None = None, **files: bytes | None) -> Path:
        parts = {"llm_config__json": kit.model_config(tie_embeddings=None), "embeddings_bf16__bin": bytes(32 * 16)}
        folder: Path = kit.write_model(tmp_path / "bad", config, **{**parts, **files})
        return folder

    return write


def refused(folder: Path) -> tuple[str, str, str]:
    """Return check, detail and fix of the first error, and hold what a run says against it."""
    report = verify_model(folder)
    first = next(problem for problem in report.problems if not problem.warning)
    assert not report.ok
    assert first.check in CHECKS
    assert first.fix
    assert "\n" not in first.detail
    with pytest.raises(ConfigError) as caught:
        read_model(folder)
    assert caught.value.message.startswith(first.detail)
    assert (caught.value.remedy, caught.value.reason) == (first.fix, first.reason)
    return first.check, first.detail.replace(f"{folder}/", "").replace(str(folder), "it"), first.fix


def change(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder


def test_the_model_that_is_made_bad_below_is_good(make: Make) -> None:
    assert verify_model(make()).problems == ()


# --- each file missing, empty, a pointer, unreadable ---


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file(make: Make, name: str) -> None:
    folder = make()
    (folder / name).unlink()
    check, detail, fix = refused(folder)
    assert check == "file_missing"
    assert name in detail
    assert fix == ("name the folder that llmexport wrote" if name == "config.json" else AGAIN)


@pytest.mark.parametrize("name", FILES)
def test_a_pointer_of_git_lfs_instead_of_the_file(make: Make, name: str) -> None:
    """Those of the configurations are found as what they are too, not as bad JSON."""
    check, detail, fix = refused(change(make(), name, POINTER))
    assert (check, fix) == ("lfs_pointer", "run: git lfs pull")
    assert f"{name} " in detail
    assert detail.endswith("is a Git LFS pointer, not the file")


@pytest.mark.parametrize("name", FILES)
def test_an_empty_file(make: Make, name: str) -> None:
    check, detail, _ = refused(change(make(), name, b""))
    assert check == "file_empty"
    assert detail == (f"{name} is empty")


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_leads_out_of_the_folder(make: Make, tmp_path: Path, name: str) -> None:
    folder = make()
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    check, detail, fix = refused(folder)
    assert (check, fix) == ("file_outside", "copy the file into it")
    assert detail.startswith(name)


@pytest.mark.parametrize("name", FILES)
def test_a_link_to_nowhere_or_in_a_circle(make: Make, name: str) -> None:
    folder = make()
    (folder / name).unlink()
    (folder / name).symlink_to(folder / name)
    assert refused(folder)[0] in ("file_missing", "file_unreadable")


@pytest.mark.parametrize("name", FILES)
def test_a_folder_instead_of_the_file(make: Make, name: str) -> None:
    folder = make()
    (folder / name).unlink()
    (folder / name).mkdir()
    assert refused(folder)[0] == "file_missing"


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_may_not_be_read(make: Make, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    folder = make()
    denied = folder / name
    really_open = Path.open

    def open_(path: Path, *args: Any, **how: Any) -> Any:
        if path == denied:  # root may read everything, so permissions alone do not show it here
            raise PermissionError(13, "Permission denied", str(path))
        return really_open(path, *args, **how)

    monkeypatch.setattr(Path, "open", open_)
    check, detail, fix = refused(folder)
    assert (check, fix) == ("file_unreadable", "check its permissions")
    assert detail.endswith("cannot be read (Permission denied)")


# --- cut off ---


def tenths(whole: bytes) -> list[int]:
    return [len(whole) * tenth // 10 for tenth in range(10)]


@pytest.mark.parametrize("tenth", range(10))
@pytest.mark.parametrize(
    ("name", "checks"),
    [
        ("llm.mnn.weight", {"weights_short", "file_empty"}),
        ("llm.mnn", {"graph_unreadable", "file_empty"}),
        ("tokenizer.mtok", {"tokenizer_unreadable", "file_empty"}),
        ("embeddings_bf16.bin", {"embedding_short", "file_empty"}),
        ("config.json", {"config_unreadable", "file_empty"}),
        ("llm_config.json", {"config_unreadable", "file_empty"}),
    ],
)
def test_a_file_that_is_cut_off_at_any_tenth(make: Make, name: str, checks: set[str], tenth: int) -> None:
    folder = make()
    whole = (folder / name).read_bytes()
    check, detail, fix = refused(change(folder, name, whole[: tenths(whole)[tenth]]))
    assert check in checks
    assert (check == "file_empty") is (tenth == 0)
    assert name in detail
    assert fix == (AGAIN if not name.endswith(".json") or check == "file_empty" else "export the model again")


# --- JSON ---


@pytest.mark.parametrize("name", ["config.json", "llm_config.json"])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{\n "a": 1,\n "b": tru\n}', "line 3 column 7"),
        (b'{"a": 1,}', "line 1 column"),
        (b"{'a': 1}", "line 1 column 2"),
        (b'{"a": 1} trailing', "line 1 column 10"),
        (b'\xef\xbb\xbf{"a": 1}', "BOM"),
        (b'{"a": "\xff\xfe"}', "utf-8"),
        ('{"a": "é"}'.encode("latin-1"), "utf-8"),
        ('{"a": 1}'.encode("utf-16"), "utf-8"),
        (b'{"a": "\x00"}', "Invalid control character"),
        (b"[" * 100_000, "recursion"),
        (b'{"a": ' + b"9" * 5000 + b"}", "Exceeds the limit"),
        (b"[]", "holds no JSON object"),
        (b"null", "holds no JSON object"),
        (b'"text"', "holds no JSON object"),
    ],
)
def test_a_configuration_that_is_no_json_says_where(make: Make, name: str, content: bytes, says: str) -> None:
    check, detail, fix = refused(change(make(), name, content))
    assert (check, fix) == ("config_unreadable", "export the model again")
    assert detail.startswith(name)
    assert says in detail


@pytest.mark.parametrize(
    ("config", "check"),
    [
        ({"llm_model": 7}, "file_unnamed"),
        ({"llm_model": ""}, "file_unnamed"),
        ({"llm_model": None}, "file_unnamed"),
        ({"llm_model": ["llm.mnn"]}, "file_unnamed"),
        ({"llm_model": "a\nb"}, "file_unnamed"),
        ({"llm_model": "x" * 5000}, "file_unreadable"),
        ({"llm_model": "."}, "file_missing"),
        ({"llm_weight": "/etc/hostname"}, "file_outside"),
        ({"llm_weight": "../../x"}, "file_outside"),
        ({"tokenizer_file": False}, "file_unnamed"),
        ({"llm_config": 5}, "file_unnamed"),
        ({"base_dir": "/sdcard"}, "file_outside"),
        ({"thread_num": "4"}, "setting_unknown"),
        ({"thread_num": True}, "setting_unknown"),
        ({"thread_num": -1}, "setting_unknown"),
        ({"thread_num": 1e300}, "setting_unknown"),
        ({"backend_type": 3}, "setting_unknown"),
        ({"backend_type": ["cpu"]}, "setting_unknown"),
        ({"precision": "fp16"}, "setting_unknown"),
        ({"memory": {}}, "setting_unknown"),
    ],
)
def test_a_value_of_another_type_or_size_than_it_must_have(make: Make, config: dict[str, Any], check: str) -> None:
    assert refused(make(config))[0] == check


@pytest.mark.parametrize(
    "config",
    [
        {"hidden_size": "8"},
        {"hidden_size": 8.5},
        {"hidden_size": -8},
        {"hidden_size": 0},
        {"hidden_size": float("inf")},
        {"hidden_size": True},
        {"tie_embeddings": {"weight_offset": "13"}},
        {"tie_embeddings": {"weight_offset": -1}},
        {"tie_embeddings": [1.5, 2, 3, 8, 0]},
    ],
)
def test_numbers_that_do_not_fit(make: Make, kit: ModuleType, config: dict[str, Any]) -> None:
    values = {**kit.MODEL_CONFIG, "tie_embeddings": None, **config}
    assert refused(make(llm_config__json=json.dumps(values).encode()))[0] == "config_unreadable"


@pytest.mark.parametrize(
    ("config", "check"),
    [
        ({"hidden_size": 10**30}, "embedding_short"),
        ({"tie_embeddings": {"weight_offset": 10**30, "alpha_offset": 10**31, "quant_bit": 8}}, "embedding_short"),
        ({"tie_embeddings": {"weight_offset": 5, "alpha_offset": 9, "alpha_size": 10**12}}, "embedding_short"),
    ],
)
def test_huge_numbers_are_numbers(make: Make, kit: ModuleType, config: dict[str, Any], check: str) -> None:
    values = {**kit.MODEL_CONFIG, "tie_embeddings": None, **config}
    assert refused(make(llm_config__json=json.dumps(values).encode()))[0] == check


@pytest.mark.parametrize("value", [10**30, "many", None, -5, [[]], {"a": {}}, float("nan"), True])
def test_numbers_that_only_the_estimate_reads_do_no_harm(make: Make, kit: ModuleType, value: Any) -> None:
    keys = ("layer_nums", "key_value_shape", "num_key_value_heads", "head_dim", "attention_mask", "attention_type")
    values = {**kit.MODEL_CONFIG, "tie_embeddings": None, **dict.fromkeys(keys, value)}
    report = verify_model(make({"attention_mode": value, "chunk": value}, llm_config__json=json.dumps(values).encode()))
    assert report.ok
    assert report.facts["needs_bytes"][0] <= report.facts["needs_bytes"][1]


# --- of another model ---


def test_weights_of_another_model(make: Make, kit: ModuleType) -> None:
    other = b"\x02\x40\x00\x08\x00" + kit.WEIGHTS[5:]
    check, detail, fix = refused(make(llm__mnn__weight=other))
    assert (check, fix) == ("weights_other", AGAIN)
    assert "does not have the layer /lm/lm_head/Linear of the graph at byte 0" in detail


@pytest.mark.parametrize("tokens", [4, 499, 9_000])
def test_a_tokenizer_of_another_model(make: Make, kit: ModuleType, tokens: int) -> None:
    rows = 4096 if tokens == 4 else 32  # a graph of 32 tokens is too small for any tokenizer to be too small for it
    parts: dict[str, Any] = {}
    if rows != 32:
        head = kit.head(kit.convolution([0, 300, 0, 0, 0], 8, rows))
        weights = b"\x02\x00\x10\x08\x00" + bytes(295)
        parts = {"llm__mnn": kit.graph(head), "llm__mnn__weight": weights, "embeddings_bf16__bin": bytes(rows * 16)}
    check, detail, fix = refused(make(**parts, tokenizer__mtok=kit.mtok(tokens, {tokens: b"<end>"}, stop=[tokens])))
    assert (check, fix) == (
        "tokenizer_too_small" if tokens == 4 else "tokenizer_too_big",
        "copy the tokenizer that was exported together with this model",
    )
    assert f"knows {tokens + 1} tokens and the model has {rows}: it is another model's tokenizer" in detail


def test_an_embedding_of_another_model(make: Make) -> None:
    check, detail, _ = refused(make(embeddings_bf16__bin=bytes(31 * 16)))
    assert check == "embedding_short"
    assert "has an embedding of 31 tokens and the graph computes 32" in detail


@pytest.mark.parametrize(
    "content", [b"graph", b"{}" * 99, bytes(999), b"\xff" * 999, b"PK\x03\x04" * 99, b"GGUF\x03\0\0\0" * 99]
)
def test_something_else_called_a_graph(make: Make, content: bytes) -> None:
    assert refused(make(llm__mnn=content))[0] == "graph_unreadable"


def test_a_graph_larger_than_mnn_can_read(make: Make) -> None:
    folder = make()
    os.truncate(folder / "llm.mnn", 2**31)
    [problem] = check_model(folder).errors
    assert problem.check == "graph_too_big"
    assert problem.detail.endswith("llm.mnn (llm_model) has 2147483648 bytes, and MNN reads graphs of up to 2147483647")
    assert problem.fix == "export the model with its weights in a file of their own"


# --- no model at all ---


def test_a_folder_without_anything_in_it_and_a_file_instead_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelIncompleteError, match=r"empty has no config\.json: name the folder that llmexport wrote"):
        read_model(tmp_path / "empty")
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"file is not a folder: name a folder with config\.json in it"):
        read_model(tmp_path / "file")
    with pytest.raises(ConfigError, match="there is no model called nothing"):
        find_model("nothing")
