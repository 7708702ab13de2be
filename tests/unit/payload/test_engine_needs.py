from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from harness.core.resources import data_root
from harness.payload.engine_needs import EngineNeed, check_engine, engine_needs, too_old, version_of
from harness.payload.model_check import check_model

TINY = data_root() / "profiles" / "models" / "tiny-llama"
TOKENIZER = EngineNeed("the tokenizer tokenizer.mtok (kind 4)", "3.5.0", "3.4.1")
LOGITS = EngineNeed("the graph's input logits_index", "3.1.0", "3.1.0")
ATTENTION = EngineNeed("the graph's operator Attention", "2.9.0", "2.9.0")


def test_what_the_shipped_model_needs_is_told_newest_first() -> None:
    assert engine_needs(check_model(TINY)) == (TOKENIZER, LOGITS, ATTENTION)


def test_what_only_newer_engines_know(kit: ModuleType, tmp_path: Path) -> None:
    ops = [*kit.head(), kit.op(102, {}, b"rope", [0], 9, type_=306), kit.op(100, {}, b"state", [0], 8, type_=305)]
    folder = kit.write_model(tmp_path / "toy", llm__mnn=kit.graph(ops), tokenizer__mtok=kit.header(1) + b"2\na\nb\n")
    assert engine_needs(check_model(folder)) == (
        EngineNeed("the graph's operator RoPE", "3.6.1", "3.6.0"),
        EngineNeed("tie_embeddings as a table in the configuration", "3.6.0", "3.5.0"),
        EngineNeed("the graph's operator LinearAttention", "3.4.1", "3.4.0"),
    )


@pytest.mark.parametrize(
    ("engine", "code"),
    [
        ("3.6.1", None),
        ("4.0", None),
        (None, None),
        ("unknown", None),
        ("3.6.0", "engine_older_than_model"),
        ("3.5", "engine_older_than_model"),
        ("3.4.1", "engine_older_than_model"),  # may be built from the sources before 3.5.0
        ("3.4.0", "engine_too_old"),
        ("v3.0.5-android", "engine_too_old"),
        ("2.8", "engine_too_old"),
    ],
)
def test_an_engine_is_too_old_only_where_that_is_sure(engine: str | None, code: str | None) -> None:
    found = too_old(engine, "3.6.1", (TOKENIZER, LOGITS, ATTENTION))
    assert (found.code if found is not None else None) == code


def test_what_an_old_engine_does_not_know_is_said_with_what_to_do() -> None:
    [problem] = check_engine(check_model(TINY), "3.0.5")
    assert problem.to_json() == {
        "code": "bundle_mismatch",
        "check": "engine_too_old",
        "severity": "error",
        "detail": f"{TINY}: MNN 3.0.5 does not know the tokenizer tokenizer.mtok (kind 4), which came with MNN 3.5.0",
        "fix": "take device binaries of MNN 3.5.0 or newer, or export the model with MNN 3.0.5",
    }
    [problem] = check_engine(check_model(TINY), "3.6.0")
    assert (problem.warning, problem.detail) == (
        True,
        f"{TINY}: the graph was written by MNN 3.6.1, and the engine is 3.6.0",
    )
    assert list(check_engine(check_model(TINY), "3.6.1")) == []


def test_a_model_that_does_not_tell_its_version_is_judged_by_what_it_has() -> None:
    assert too_old("3.6.0", None, (TOKENIZER,)) is None
    found = too_old("3.4.1", None, (TOKENIZER,))
    assert found is not None
    assert found.says == "the tokenizer tokenizer.mtok (kind 4) came with MNN 3.5.0, and the engine is 3.4.1"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("3.6.1", (3, 6, 1)), ("3.5.0", (3, 5)), ("v3.5-rc1", (3, 5)), (" 3", (3,)), ("", None), ("master", None)],
)
def test_versions_are_compared_as_numbers(text: str, numbers: tuple[int, ...] | None) -> None:
    assert version_of(text) == numbers
