"""The timed prompt as text: exactly as many tokens as the plan asks, and the same ids that our own runner feeds."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.errors import ConfigError, HostError
from harness.core.reasons import Reason
from harness.core.resources import cache_dir
from harness.payload.folder import read_folder
from harness.payload.models import ModelFolder, find_model, read_model
from harness.runners import prompt_text as module
from harness.runners._encode_prompt import cut
from harness.runners.farm_runner import PROMPT_TEXT
from harness.runners.prompt_text import prompt_text

TEXT = "One two three, four. "


def words(text: str) -> list[int]:
    """A tokenizer of words and signs, with a first token of its own; a word's id is its length."""
    return [1, *(10 + len(word) for word in re.findall(r"\w+|[^\w]", text))]


def pairs(text: str) -> Sequence[int]:
    """A tokenizer that makes two tokens of every word, so that no odd count is ever met."""
    return [n for word in re.findall(r" ?\w+ ?", text) for n in (len(word), 0)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("tokens", [2, 7, 8, 20, 200])
def test_the_cut_is_that_long_and_of_the_ids_that_our_runner_feeds(tokens: int) -> None:
    found = cut(words, TEXT, tokens)
    body = words(TEXT)[1:]
    assert found["token_ids"] == ([1] + body * (tokens // len(body) + 1))[:tokens]
    assert words(found["text"]) == found["token_ids"]
    assert (TEXT * 200).startswith(found["text"])


def test_where_other_ids_are_made_at_the_seam_the_cut_that_agrees_longest_is_taken() -> None:
    def joined(text: str) -> list[int]:
        return words(text.replace(". One", "_One"))

    found = cut(joined, TEXT, 12)
    assert len(found["token_ids"]) == 12
    assert found["token_ids"][:8] == joined(TEXT)[:8]


def test_a_count_that_no_cut_has_names_the_nearest() -> None:
    assert cut(pairs, "one two three four", 5) == {"nearest": [4, 6]}
    assert cut(words, TEXT, 1) == {"nearest": [2]}, "an empty line is no prompt"


def test_a_tokenizer_that_makes_nothing_is_an_error() -> None:
    assert "makes no tokens" in cut(lambda text: [1], TEXT, 5)["error"]


def tiny() -> ModelFolder:
    return read_model(find_model("tiny-llama"))


def test_the_engines_own_tokenizer_decides_and_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = prompt_text(tiny(), 16)
    assert len(found.token_ids) == 16
    assert PROMPT_TEXT.startswith(found.text)
    assert found.stop_tokens == (2,)
    monkeypatch.setattr(module, "_ask", lambda *_: pytest.fail("it was asked again"))
    assert prompt_text(tiny(), 16) == found


def test_a_damaged_file_in_the_cache_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ask", lambda *_: {"text": "x", "token_ids": [1, 2]})
    assert prompt_text(tiny(), 2).text == "x"
    [file] = cache_dir("prompts").iterdir()
    file.write_text('{"text": "y"')
    assert prompt_text(tiny(), 2).text == "x"
    assert json.loads(file.read_text())["text"] == "x"


def test_a_length_that_cannot_be_made_is_the_plans_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ask", lambda *_: {"nearest": [4, 6]})
    with pytest.raises(ConfigError, match="exactly 5 tokens of tiny-llama: the nearest are 4 or 6") as refused:
        prompt_text(tiny(), 5)
    assert refused.value.reason is Reason.BAD_PLAN


def test_a_tokenizer_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text('{"tokenizer_file": "t.txt"}')
    (tmp_path / "m" / "t.txt").write_text("no tokenizer")
    model = replace(tiny(), folder=read_folder(tmp_path / "m"))
    with pytest.raises(ConfigError, match="is no tokenizer of MNN's"):
        prompt_text(model, 5)


def test_an_engine_that_fails_is_this_computers_fault(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text('{"tokenizer_file": "t.txt"}')
    (tmp_path / "m" / "t.txt").write_text("430 3\n0 1 0\n2\n1 0\nYQ==\n")
    model = replace(tiny(), folder=read_folder(tmp_path / "m"))
    with pytest.raises(HostError, match="tokenizer"):
        prompt_text(model, 5)
