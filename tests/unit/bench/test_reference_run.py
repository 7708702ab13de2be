"""The process that computes references, with the real engine and the tiny model."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.bench import reference_run as subject
from harness.bench.reference_run import compute, maker
from harness.bench.reference_store import Query
from harness.core.deadline import Deadline
from harness.core.errors import DeadlineError, FarmError, ModelRunError
from harness.payload.models import ModelFolder, find_model, read_model

QUERY = Query(
    model_hash="m",
    prompt_text_hash="p",
    precision="low",
    memory="low",
    prompt_tokens=16,
    generate_tokens=6,
    context_tokens=4,
    engine=(("chunk", 8),),
    questions=(("What is the capital of France?", 12), ("Häuser?\n", 2)),
)


@pytest.fixture(scope="module")
def tiny() -> ModelFolder:
    return read_model(find_model("tiny-llama"))


def deadline(seconds: float = 120) -> Deadline:
    return Deadline(seconds, "computing the reference", "this computer")


def test_the_engine_gives_each_text_with_its_margins(tiny: ModelFolder) -> None:
    found = compute(QUERY, tiny, deadline())
    assert found.engine_version == maker().engine_version
    assert len(found.timed.token_ids) == len(found.timed.margins) == 6
    assert len(found.answers) == 2
    assert "Paris" in found.answers[0].text
    for text in (found.timed, *found.answers):
        for token, rivals in zip(text.token_ids, text.margins, strict=True):
            gaps = [gap for _, gap in rivals]
            assert gaps == sorted(gaps)
            assert min(gaps) >= 0
            assert token not in [rival for rival, _ in rivals]


def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    file = tmp_path / "runner.py"
    file.write_text(code)
    monkeypatch.setattr(subject, "runner_file", lambda: file)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import os, sys; sys.stderr.write('last words'); sys.stderr.flush(); os.abort()", r"signal 6\): last words"),
        ('print(\'{"event":"hello","runner":"r","engine":"MNN"}\')', "exit status 0 and no whole account"),
        ("import sys; sys.exit('no such option')", "exit status 1 .*no such option"),
        ('print(\'{"event":"error","stage":"load","message":"half a file"}\')', "load: half a file"),
    ],
)
def test_a_runner_that_fails_says_why(
    tiny: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, says: str
) -> None:
    runner(tmp_path, monkeypatch, code)
    with pytest.raises(ModelRunError, match=says):
        compute(QUERY, tiny, deadline())


def test_a_runner_that_does_not_end_is_ended(
    tiny: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner(tmp_path, monkeypatch, "import signal; signal.pause()")
    with pytest.raises(DeadlineError, match="computing the reference"):
        compute(QUERY, tiny, deadline(0.5))


def test_a_model_that_does_not_fit_is_not_even_tried(tiny: ModelFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere")
    huge = replace(tiny, weight_bytes=2**50)
    with pytest.raises(FarmError, match=r"the model needs about 1048576\.5 GiB here and .* GiB are free"):
        compute(QUERY, huge, deadline())
    unpacked = replace(tiny, weight_bytes=2**50, quant_bits=4)
    with pytest.raises(FarmError, match=r"needs about 8388608\.5 GiB"):
        compute(replace(QUERY, memory="high"), unpacked, deadline())
