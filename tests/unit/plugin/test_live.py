from __future__ import annotations

import io
import logging
import threading
from pathlib import Path

import pytest
from rich.console import Console

from harness.plugin.live import Follower
from harness.plugin.progress import log_to, teller


def shown(tmp_path: Path, steps: list[str], before: str = "") -> list[str]:
    """Run a follower over what a phone said, ``before`` by an earlier start; return what it printed."""
    path = tmp_path / "log.txt"
    path.write_text(before)
    out = io.StringIO()
    seen = threading.Event()

    class Watched(io.StringIO):
        def write(self, text: str) -> int:
            out.write(text)
            if "the end" in text:
                seen.set()
            return len(text)

    follower = Follower(path, ["p1"], {"p1": 1}, Console(file=Watched(), width=200), lines=True)
    handler = log_to(path)
    try:
        follower.start()
        for step in [*steps, "the end"]:
            teller("p1")(step)
        assert seen.wait(10)
    finally:
        follower.stop()
        logging.getLogger("harness").removeHandler(handler)
        handler.close()
    return [line.strip() for line in out.getvalue().splitlines()]


def test_a_plain_log_shows_each_step_once_and_not_every_percent(tmp_path: Path) -> None:
    steps = [
        "pushing m 10 % of 5 MB",
        "pushing m 20 % of 5 MB",
        "running x: generation 1 of 9",
        "running x: generation 2 of 9",
    ]
    assert shown(tmp_path, steps) == ["p1: pushing m 10 % of 5 MB", "p1: running x: generation 1 of 9", "p1: the end"]


def test_what_a_phone_says_is_one_line_and_no_markup(tmp_path: Path) -> None:
    assert shown(tmp_path, ["evil [red]x[/red]\nsecond line"])[0] == "p1: evil [red]x[/red] second line"


def test_other_phones_and_other_loggers_are_not_shown(tmp_path: Path) -> None:
    teller("stranger")("hello")
    logging.getLogger("harness.payload.store").info("[p1] pushed")
    assert shown(tmp_path, []) == ["p1: the end"]


def test_a_log_that_the_disk_does_not_take_costs_the_log_only(capsys: pytest.CaptureFixture[str]) -> None:
    handler = log_to(Path("/dev/full"))
    try:
        teller("p1")("pushing m")
    finally:
        logging.getLogger("harness").removeHandler(handler)
        handler.close()
    assert capsys.readouterr().err == ""


def test_what_an_earlier_start_left_in_the_log_is_not_shown_as_if_it_happened_now(tmp_path: Path) -> None:
    old = "2026-01-01 00:00:00,000 INFO harness.progress: [p1] pushing m\n"
    assert shown(tmp_path, [], before=old) == ["p1: the end"]
