"""What ``mnn-farm models`` makes of its options; the rest is proven through the program itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.commands.models import app
from harness.core.errors import ConfigError


def verify(*options: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["verify", "tiny-llama", *options])
    if isinstance(done.exception, ConfigError):
        raise done.exception
    return done.exit_code, done.output


def test_a_model_is_held_against_a_phones_memory_and_an_engines_version() -> None:
    status, out = verify("--memory-gib", "0.1", "--context", "200000", "--engine-version", "3.4.0", "--json")
    answer = json.loads(out)
    assert (status, answer["ok"], answer["facts"]["needs_for_tokens"]) == (1, False, 200_000)
    assert [(p["check"], p["code"]) for p in answer["problems"]] == [
        ("does_not_fit", "model_too_big"),
        ("engine_too_old", "bundle_mismatch"),
    ]
    least, most = answer["facts"]["needs_bytes"]
    assert 0.1 * 2**30 < least < most


def test_a_model_that_fits_says_what_it_needs_in_words() -> None:
    status, out = verify("--memory-gib", "0.1", "--engine-version", "3.6.1")
    assert (status, "needs_bytes: 4.1 MB to 89.9 MB of memory\n" in out) == (0, True)


def test_an_engine_version_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="--engine-version new is no version: write it like 3"):
        verify("--engine-version", "new")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["fetch", "hf:toy"], "'hf:toy' names no model of the hub: write hf:ORG/NAME or hf:ORG/NAME@REVISION"),
        (["fetch", "hf:a/b", "--name", "tiny-llama"], "tiny-llama is the name of a model of mnn-farm's own"),
        (["fetch", "smollm2-135m", "--name", "mine"], "smollm2-135m has its name: leave out --name"),
        (["import", "hf:a/b"], "hf:a/b is where a model can be fetched from, not one that is here: run: mnn-farm"),
    ],
)
def test_a_model_of_the_hub_that_is_asked_for_wrongly(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path))
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith(says)
