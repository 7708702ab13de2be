"""The rungs up to a phone that is ours, as far as they need none: the commands that they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.adbprogram import adb_word
from harness.core.provider import Endpoint
from harness.diagnose.reach import adb_of, listing


@pytest.fixture
def adb_in_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "adb"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("adb_in_path")
def test_a_command_names_the_server_where_it_is_not_the_usual_one() -> None:
    assert adb_of(Endpoint("p", transport_serial="R58")) == ["adb", "-s", "R58"]
    other = Endpoint("p", adb_host="lab", adb_port=6000, transport_serial="R58")
    assert adb_of(other) == ["adb", "-H", "lab", "-P", "6000", "-s", "R58"]


@pytest.mark.usefixtures("adb_in_path")
def test_phones_are_listed_on_every_server_that_was_asked_for() -> None:
    assert listing(None) == "adb devices -l"
    assert listing("lab:6000, 127.0.0.1:5038") == ("adb -H lab -P 6000 devices -l; adb -H 127.0.0.1 -P 5038 devices -l")


def test_adb_is_called_by_its_path_where_it_is_not_in_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Path(adb_word()).is_absolute()
    assert Path(adb_word()).name == "adb"
