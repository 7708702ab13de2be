"""The rungs that need nothing but this computer."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.bench.match import Expected, Reference
from harness.bench.reference_store import Maker
from harness.core.errors import HostError, ModelRunError
from harness.diagnose.asked import Request
from harness.diagnose.pc import host_runs_it, model_is_whole
from harness.diagnose.rung import State
from harness.diagnose.subject import Subject
from harness.payload.models import find_model

MAKER = Maker("3.6.1", "0123456789abcdef")
SAID = Reference(
    engine_version="3.6.1",
    timed=Expected(token_ids=tuple(range(8)), text="A phone lay on it", finish="length"),
    answers=(),
)


@pytest.fixture
def subject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Subject:
    """A copy of the tiny model, to break; no reference is kept yet."""
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "cache"))
    model = tmp_path / "mine"
    shutil.copytree(find_model("tiny-llama"), model)
    return Subject(Request("phone", model, "mine"), "diagnose-1", tmp_path / "run", lambda _: None)


def halve(model: Path) -> None:
    weights = model / "llm.mnn.weight"
    weights.write_bytes(weights.read_bytes()[:1000])


def cut_tokenizer(model: Path) -> None:
    tokenizer = model / "tokenizer.mtok"
    tokenizer.write_bytes(tokenizer.read_bytes()[:100])


def test_a_whole_model_holds_and_is_there_for_the_rungs_above(subject: Subject) -> None:
    outcome = model_is_whole(subject)
    assert outcome.state is State.HELD
    assert outcome.detail.startswith("5 files, 0.4 MB of weights")
    assert subject.model.name == "mine"


@pytest.mark.parametrize(
    ("breaks", "code", "says"),
    [
        (halve, "weights_short", "llm.mnn.weight (llm_weight) is cut off"),
        (cut_tokenizer, "tokenizer_unreadable", "tokenizer.mtok"),
        (lambda model: (model / "llm.mnn").unlink(), "file_missing", "llm.mnn"),
        (lambda model: (model / "config.json").unlink(), "file_missing", "config.json"),
    ],
    ids=["half", "tokenizer", "graph", "config"],
)
def test_a_model_that_is_not_whole_breaks_the_first_rung(
    subject: Subject, breaks: Callable[[Path], None], code: str, says: str
) -> None:
    breaks(subject.request.model)
    outcome = model_is_whole(subject)
    assert (outcome.state, outcome.code) == (State.BROKE, code)
    assert says in outcome.detail
    assert outcome.reproduce == f"mnn-farm models verify {subject.request.model}"
    assert not subject.has("model")


def test_a_model_that_runs_here_is_not_at_fault_and_its_text_is_kept(subject: Subject) -> None:
    model_is_whole(subject)
    outcome = host_runs_it(subject, lambda *_: SAID, lambda: MAKER)
    assert (outcome.state, outcome.detail) == (State.HELD, "MNN 3.6.1 says 'A phone lay on it'")

    def never(*_: object) -> Reference:
        raise AssertionError("it is kept")

    again = host_runs_it(subject, never, lambda: MAKER)
    assert again.state is State.HELD
    assert again.detail.endswith(", kept)")


def test_a_model_that_the_engine_here_cannot_run_either_breaks_the_rung(subject: Subject) -> None:
    model_is_whole(subject)

    def fails(*_: object) -> Reference:
        raise ModelRunError("the runner crashed here (signal 11): last words")

    outcome = host_runs_it(subject, fails, lambda: MAKER)
    assert outcome.state is State.BROKE
    assert "crashed here (signal 11)" in outcome.detail


def test_a_failure_of_an_engine_that_is_older_than_the_model_says_nothing_about_the_model(subject: Subject) -> None:
    model_is_whole(subject)
    subject.model = replace(subject.model, engine_version="99.0.0")

    def fails(*_: object) -> Reference:
        raise ModelRunError("the runner failed here (load: unknown operator)")

    outcome = host_runs_it(subject, fails, lambda: MAKER)
    assert outcome.state is State.UNKNOWN
    assert "the graph was written by MNN 99.0.0" in outcome.detail


def test_a_computer_without_the_engine_or_the_memory_cannot_tell(subject: Subject) -> None:
    model_is_whole(subject)

    def missing() -> Maker:
        raise HostError("the Python package MNN is not installed here", remedy="pip install MNN")

    assert host_runs_it(subject, lambda *_: SAID, missing).state is State.UNKNOWN

    def too_big(*_: object) -> Reference:
        raise HostError("the model needs about 99.0 GiB here")

    outcome = host_runs_it(subject, too_big, lambda: MAKER)
    assert (outcome.state, "99.0 GiB" in outcome.detail) == (State.UNKNOWN, True)


@pytest.mark.parametrize("text", ["", "   "])
def test_a_model_that_says_nothing_here_is_at_fault(subject: Subject, text: str) -> None:
    model_is_whole(subject)
    silent = SAID.model_copy(update={"timed": Expected(token_ids=tuple(range(8)), text=text, finish="length")})
    outcome = host_runs_it(subject, lambda *_: silent, lambda: MAKER)
    assert outcome.reason is not None
    assert outcome.reason.code == "output_degenerate"
