"""All that is wrong with a model folder, at once."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.core.errors import ConfigError
from harness.core.resources import data_root
from harness.payload.mnn_graph import read_graph
from harness.payload.mnn_tokenizer import read_tokenizer
from harness.payload.model_pins import pin_file
from harness.payload.models import read_model, verify_model

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 99\n"
Checks = list[tuple[str, str, str]]


def checks(folder: Path) -> Checks:
    return [(problem.check, problem.severity, problem.reason.code) for problem in verify_model(folder).problems]


def incomplete(*names: str) -> Checks:
    return [(name, "error", "model_incomplete") for name in names]


def test_a_whole_model_has_no_problems_and_its_facts(kit: ModuleType, tmp_path: Path) -> None:
    report = verify_model(kit.write_model(tmp_path / "toy"))
    assert (report.ok, report.problems) == (True, ())
    digest = report.facts.pop("hash")
    assert len(digest) == 64
    assert report.facts == {
        "name": "toy",
        "files": 5,
        "pinned": False,
        "pin": None,
        "weight_bytes": 517,
        "quant_bits": 7,
        "quant_block": 4,
        "read_per_token_bytes": 517,
        "vocabulary": 32,
        "tokenizer_tokens": 32,
        "engine_version": "3.6.1",
        "engine_needed": "3.6.0",
        "needs_bytes": [3017456, 81375858],
        "needs_for_tokens": 640,
        "needs_64_bit": False,
    }


def test_a_folder_that_cannot_be_hashed_and_its_broken_pin_are_told_beside_the_rest(
    kit: ModuleType, tmp_path: Path
) -> None:
    folder = kit.write_model(tmp_path / "toy", {"precision": "best"})
    pin_file(folder).write_text("{")
    (folder / "away").symlink_to("/etc/hostname")
    assert [found[0] for found in checks(folder)] == ["setting_unknown", "file_unreadable", "pin_unreadable"]


def test_half_a_weight_file_is_told_with_both_lengths(kit: ModuleType, tmp_path: Path) -> None:
    folder = kit.write_model(tmp_path / "toy", llm__mnn__weight=kit.WEIGHTS[:258])
    [problem] = verify_model(folder).problems
    assert problem.to_json() == {
        "code": "model_incomplete",
        "check": "weights_short",
        "severity": "error",
        "detail": f"{folder}/llm.mnn.weight (llm_weight) is cut off: it has 258 bytes and the graph reads 517",
        "fix": "export or download the model again",
    }


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"llm__mnn": POINTER}, incomplete("lfs_pointer")),
        ({"llm__mnn": b"graph"}, incomplete("graph_unreadable")),
        ({"llm__mnn__weight": b"\0" * 517}, incomplete("weights_other")),
        ({"tokenizer__mtok": b"430 4\n0 0 0\n\n\0"}, incomplete("tokenizer_unreadable")),
        ({"tokenizer__mtok": b"{}"}, incomplete("tokenizer_unreadable")),
        ({"llm_config__json": b"[]"}, incomplete("config_unreadable", "file_missing")),
        ({"llm__mnn": None, "llm__mnn__weight": None}, incomplete("file_missing", "file_missing")),
    ],
)
def test_a_file_that_is_not_whole_is_told(
    kit: ModuleType, tmp_path: Path, files: dict[str, Any], expected: Checks
) -> None:
    assert checks(kit.write_model(tmp_path / "toy", **files)) == expected


def test_everything_is_told_at_once_in_the_order_of_the_engine(kit: ModuleType, tmp_path: Path) -> None:
    folder = kit.write_model(
        tmp_path / "toy",
        {"backend_type": "opencll", "thread_num": "4"},
        llm__mnn__weight=kit.WEIGHTS[:100],
        tokenizer__mtok=kit.mtok(499, {499: b"<end>"}),
    )
    assert checks(folder) == incomplete("setting_unknown", "setting_unknown", "weights_short", "tokenizer_too_big")
    with pytest.raises(ConfigError, match=r'write "opencl"$') as caught:
        read_model(folder)
    assert f"(3 more: mnn-farm models verify {folder})" in caught.value.message


def test_a_setting_in_the_models_own_configuration_is_told_with_that_file(kit: ModuleType, tmp_path: Path) -> None:
    folder = kit.write_model(tmp_path / "toy", llm_config__json=kit.model_config(precision="lo"))
    [problem] = verify_model(folder).problems
    assert problem.detail.startswith(f'{folder}/llm_config.json: precision is "lo"')


def test_a_swapped_tokenizer_is_told(kit: ModuleType, tmp_path: Path) -> None:
    folder = kit.write_model(tmp_path / "toy", tokenizer__mtok=kit.mtok(639, {639: b"<end>"}))
    [problem] = verify_model(folder).problems
    says = "(tokenizer_file) knows 640 tokens and the model has 32: it is another model's tokenizer"
    assert problem.detail == f"{folder}/tokenizer.mtok {says}"
    assert problem.fix == "copy the tokenizer that was exported together with this model"


def test_what_is_only_suspicious_is_a_warning_and_the_model_is_used(
    kit: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = kit.write_model(tmp_path / "toy", llm__mnn__weight=kit.WEIGHTS + b"more")
    assert checks(folder) == [("weights_long", "warning", "model_incomplete")]
    assert verify_model(folder).ok
    [warning] = read_model(folder).warnings
    assert "has 521 bytes and the model reads 517: it may be another model's" in warning
    assert warning in caplog.text


def test_an_embedding_in_a_file_of_its_own_is_needed_whole(kit: ModuleType, tmp_path: Path) -> None:
    untied = kit.model_config(tie_embeddings=None)
    missing = kit.write_model(tmp_path / "missing", llm_config__json=untied)
    assert checks(missing) == incomplete("file_missing")
    whole = kit.write_model(tmp_path / "whole", llm_config__json=untied, embeddings_bf16__bin=bytes(32 * 16))
    assert checks(whole) == []
    half = kit.write_model(tmp_path / "half", llm_config__json=untied, embeddings_bf16__bin=bytes(16 * 16))
    assert checks(half) == incomplete("embedding_short")


def test_an_embedding_behind_the_weights_makes_the_weight_file_longer_and_is_no_part_of_a_token(
    kit: ModuleType, tmp_path: Path
) -> None:
    tied = {"weight_offset": 517, "alpha_offset": 517 + 256, "alpha_size": 9, "quant_bit": 8}
    config = kit.model_config(tie_embeddings=tied)
    whole = kit.write_model(tmp_path / "whole", llm_config__json=config, llm__mnn__weight=kit.WEIGHTS + bytes(265))
    assert checks(whole) == []
    assert read_model(whole).read_per_token_bytes == 517
    short = kit.write_model(tmp_path / "short", llm_config__json=config, llm__mnn__weight=kit.WEIGHTS + bytes(264))
    assert checks(short) == incomplete("embedding_short")


@pytest.mark.parametrize("by", ["graph", "configuration"])
def test_a_mixture_of_experts_does_not_say_what_a_token_reads(kit: ModuleType, tmp_path: Path, by: str) -> None:
    files: dict[str, Any] = {"llm_config__json": kit.model_config(num_experts=8)}
    if by == "graph":
        files = {"llm__mnn": kit.graph(subgraphs=[(b"/expert/0_0", kit.head())])}
    found = read_model(kit.write_model(tmp_path / "toy", **files))
    assert found.read_per_token_bytes is None
    assert found.read_per_token_why == "a mixture of experts reads for each token those that it chooses"


def test_a_tokenizer_that_the_configuration_does_not_name_is_not_found_by_the_engine(
    kit: ModuleType, tmp_path: Path
) -> None:
    config = {key: value for key, value in kit.CONFIG.items() if key != "tokenizer_file"}
    folder = kit.write_model(tmp_path / "toy", config__json=json.dumps(config).encode())
    [problem] = verify_model(folder).problems
    assert problem.check == "file_unnamed"
    assert problem.fix == 'write "tokenizer_file": "tokenizer.mtok" into it'


def test_a_model_that_sees_needs_its_encoder_with_all_its_weights(kit: ModuleType, tmp_path: Path) -> None:
    seeing = kit.model_config(is_visual=True)
    assert checks(kit.write_model(tmp_path / "blind", llm_config__json=seeing)) == incomplete("file_missing")
    parts = {"llm_config__json": seeing, "visual__mnn": kit.graph()}
    assert checks(kit.write_model(tmp_path / "none", **parts)) == incomplete("file_missing")
    half = kit.write_model(tmp_path / "half", **parts, visual__mnn__weight=kit.WEIGHTS[:-1])
    assert checks(half) == incomplete("weights_short")
    assert checks(kit.write_model(tmp_path / "whole", **parts, visual__mnn__weight=kit.WEIGHTS)) == []


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"base_dir": "/sdcard/other/"}, incomplete("file_outside")),
        ({"llm_weight": "../secret"}, incomplete("file_outside")),
        ({"hidden_size": 8, "ple_embed_file": "ple.bin"}, incomplete("file_missing")),
    ],
)
def test_a_configuration_that_leads_elsewhere_is_told(
    kit: ModuleType, tmp_path: Path, config: dict[str, Any], expected: Checks
) -> None:
    assert checks(kit.write_model(tmp_path / "toy", config)) == expected


@pytest.mark.parametrize(("name", "read"), [("llm.mnn", read_graph), ("tokenizer.mtok", read_tokenizer)])
def test_no_damage_makes_a_reader_fail_in_a_way_of_its_own(name: str, read: Callable[[bytes], object]) -> None:
    whole = (data_root() / "profiles" / "models" / "tiny-llama" / name).read_bytes()
    dice = random.Random(20261130)  # noqa: S311  nothing secret
    refused = 0
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(dice.choice([1, 3, 20])):
            at = dice.randrange(len(data))
            data[at : at + dice.randrange(9)] = dice.choice([b"", b"\xff" * 4, bytes(4), dice.randbytes(40)])
        try:
            read(bytes(data))
        except ValueError:
            refused += 1
    assert 0 < refused < 300
