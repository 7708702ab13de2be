from __future__ import annotations

from typing import Any

import pytest

from harness.payload.mnn_tokenizer import MnnTokenizer
from harness.payload.model_fit import Embedding, check_embedding, check_ids, check_tokenizer, embedding_of

TIED = {"weight_offset": 100, "alpha_offset": 500, "alpha_size": 80, "quant_bit": 8, "quant_block": 64}


def tokenizer(tokens: int | None, ordinary: int | None = None, **other: Any) -> MnnTokenizer:
    fields: dict[str, Any] = {"special_ids": (), "stop_ids": (), "prefix_ids": (), "texts": None, **other}
    return MnnTokenizer(kind=4, tokens=tokens, ordinary=tokens if ordinary is None else ordinary, **fields)


def told(found: MnnTokenizer, rows: int, **config: Any) -> list[tuple[str, str]]:
    return [(problem.check, problem.severity) for problem in check_tokenizer(found, "t.mtok", rows, config)]


@pytest.mark.parametrize(
    ("config", "embedding"),
    [
        ({"hidden_size": 8, "tie_embeddings": TIED}, Embedding("llm_weight", 580, 50, None, 80)),
        ({"hidden_size": 8, "tie_embeddings": [100, 500, 80, 4, 64]}, Embedding("llm_weight", 580, 100, None, 80)),
        ({"hidden_size": 8, "tie_embeddings": [100, 500, 80, 4, 64, 1]}, Embedding("llm_weight", 580, 100, None, 80)),
        (
            {"hidden_size": 8, "tie_embeddings": {**TIED, "weight_offset": 0, "alpha_offset": 400}},
            Embedding("embedding_file", 480, 50, None, 80),
        ),
        ({"hidden_size": 8}, Embedding("embedding_file", 1, None, 16)),
        ({"hidden_size": 8, "tie_embeddings": [1]}, Embedding("embedding_file", 1, None, 16)),
        ({}, Embedding("embedding_file", 1, None, 8192)),
        (
            {"hidden_size": 8, "tie_embeddings": {"weight_offset": 100, "quant_bit": 16}},
            Embedding("llm_weight", 100, None, None),
        ),
        ({"hidden_size": "8"}, None),
        ({"hidden_size": 0}, None),
        ({"hidden_size": 8, "tie_embeddings": {**TIED, "alpha_size": "80"}}, None),
        ({"hidden_size": 8, "tie_embeddings": [-1, 2, 3, 4, 5]}, None),
    ],
)
def test_where_the_embedding_lies_is_in_the_configuration(config: dict[str, Any], embedding: Embedding | None) -> None:
    assert embedding_of(config) == embedding


@pytest.mark.parametrize(
    ("embedding", "size", "rows", "says"),
    [
        (Embedding("llm_weight", 580, 50, None), 580, 50, ""),
        (Embedding("llm_weight", 580, 50, None), 579, 50, "cut off: it has 579 bytes and the embedding reaches to 580"),
        (Embedding("embedding_file", 1, None, 16), 800, 50, ""),
        (Embedding("embedding_file", 1, None, 16), 960, 60, ""),
        (Embedding("embedding_file", 1, None, 16), 400, 25, "an embedding of 25 tokens and the graph computes 50"),
        (Embedding("embedding_file", 1, None, 16), 401, 25, "401 bytes are no whole number of rows of 16 bytes"),
        (Embedding("llm_weight", 580, 40, None), 580, 40, "an embedding of 40 tokens and the graph computes 50"),
    ],
)
def test_the_embedding_is_whole_and_has_a_row_for_each_token(
    embedding: Embedding, size: int, rows: int, says: str
) -> None:
    found, problems = check_embedding(embedding, "w", size, 50)
    assert found == rows
    assert [problem.check for problem in problems] == (["embedding_short"] if says else [])
    assert all(says in problem.detail and not problem.warning for problem in problems)


@pytest.mark.parametrize(
    ("tokens", "rows"),
    [(151665, 151936), (49152, 49152), (128256, 128256), (64798, 65024), (330, 640 - 182), (1000, 1000)],
)
def test_the_padding_of_real_models_is_no_problem(tokens: int, rows: int) -> None:
    assert told(tokenizer(tokens), rows) == []


def test_an_added_token_that_the_model_has_no_row_for_is_only_suspicious() -> None:
    assert told(tokenizer(262145, 262144), 262144) == [("tokenizer_too_big", "warning")]
    assert told(tokenizer(262145, 262145), 262144) == [("tokenizer_too_big", "warning")]
    # The old Qwen exports list their special tokens twice.
    assert told(tokenizer(152059, special_ids=tuple(range(151643, 151851))), 151936) == [
        ("tokenizer_too_big", "warning")
    ]


@pytest.mark.parametrize(("tokens", "rows"), [(49152, 640), (128256, 32064), (32100, 32000)])
def test_a_tokenizer_with_more_tokens_than_the_model_has_is_anothers(tokens: int, rows: int) -> None:
    assert told(tokenizer(tokens), rows) == [("tokenizer_too_big", "error")]


@pytest.mark.parametrize(
    ("tokens", "rows", "severity"), [(640, 49152, "error"), (32000, 128256, "error"), (100_000, 128256, "warning")]
)
def test_a_tokenizer_that_leaves_too_many_rows_unused_is_anothers(tokens: int, rows: int, severity: str) -> None:
    assert told(tokenizer(tokens), rows) == [("tokenizer_too_small", severity)]


def test_special_ids_that_the_model_does_not_have() -> None:
    assert told(tokenizer(50, prefix_ids=(50,)), 50) == [("special_id_beyond", "error")]
    assert told(tokenizer(50, stop_ids=(50, 51)), 50) == [("special_id_beyond", "warning")]
    assert told(tokenizer(50, stop_ids=(7, 51), prefix_ids=(1,)), 50) == []


def test_a_tokenizer_whose_count_is_unknown_is_judged_by_its_ids_alone() -> None:
    assert told(tokenizer(None, None, prefix_ids=(60,)), 50) == [("special_id_beyond", "error")]


def test_words_of_the_chat_template_are_tokens() -> None:
    known = tokenizer(50, texts=frozenset([b"<end>"]))
    assert told(known, 50, jinja={"eos": "<end>", "bos": ""}) == []
    assert told(known, 50, jinja={"eos": "</s>", "bos": "<end>"}) == [("special_word_unknown", "warning")]
    assert told(tokenizer(50), 50, jinja={"eos": "</s>"}) == []


@pytest.mark.parametrize(
    ("key", "value", "suspicious"),
    [
        ("eos_token_id", 50, True),
        ("eos_token_id", [1, 99], True),
        ("image_pad", 49, False),
        ("vision_start", 151652, True),
        ("bos_token_id", None, False),
        ("hidden_size", 4096, False),
    ],
)
def test_ids_that_the_configuration_names_are_within_the_model(key: str, value: Any, suspicious: bool) -> None:
    found = [(problem.check, problem.warning) for problem in check_ids({key: value}, "llm_config.json", 50)]
    assert found == ([("special_id_beyond", True)] if suspicious else [])
