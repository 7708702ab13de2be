"""``mnn-farm diagnose``: wrong usage ends before anything is touched; what happens meanwhile is shown."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from harness.cli import app
from harness.commands.diagnose import Live, diagnose
from harness.core.errors import ConfigError
from harness.diagnose import ladder
from harness.diagnose.asked import choose_bundles, read_backends


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--backend", "metal"], "there is no such backend"),
        (["--bundle", "./nowhere"], "there is no such folder"),
        (["--bundle", "nothing-of-that-name"], "there is no bundle called nothing-of-that-name"),
    ],
)
def test_what_makes_no_sense_is_refused_first(words: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["diagnose", "--device", "phone", "--model", "tiny-llama", *words])
    assert isinstance(done.exception, ConfigError)
    assert says in str(done.exception)


def test_device_and_model_are_needed() -> None:
    assert CliRunner().invoke(app, ["diagnose"]).exit_code == 2


def test_the_cpu_is_climbed_anyway_and_a_backend_that_is_named_twice_is_one() -> None:
    assert read_backends(("vulkan", "cpu", "opencl", "vulkan")) == ("vulkan", "opencl")


def test_a_build_that_was_not_imported_is_refused_by_what_is_wrong_with_it_or_is_to_be_imported(tmp_path: Path) -> None:
    (tmp_path / "readme").write_text("no program here")
    bundles, problems = choose_bundles(str(tmp_path))
    assert bundles == ()
    assert [problem.check for problem in problems] == ["bundle_empty"]


def test_a_line_for_each_new_thing_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    live = Live()
    live.begin("load: the engine loads the model")
    live.say("preparing")
    live.say("preparing")
    live.say("running")
    live.over(lambda: None)
    live.say("trying 1 thread")
    assert capsys.readouterr().err.splitlines() == [
        "… load: the engine loads the model",
        "… load: preparing",
        "… load: running",
        "… trying 1 thread",
    ]


@pytest.fixture
def climb_that(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Callable[[], None]], None]:
    """Run the command with a climb that does nothing but this."""

    def run(does: Callable[[], None]) -> None:
        monkeypatch.setattr(ladder, "diagnose", lambda *_: does())
        values: dict[str, Any] = {"device": "R58", "model": "tiny-llama", "run_dir": tmp_path / "run"}
        diagnose(**values)

    return run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_ends_a_climb_ends_it_in_order(
    climb_that: Callable[[Callable[[], None]], None], capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    # Whoever runs the tests in the background may have them ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(typer.Exit) as ended:
        climb_that(lambda: os.kill(os.getpid(), number))
    assert ended.value.exit_code == 130
    assert "the phone is left as it was found" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before
