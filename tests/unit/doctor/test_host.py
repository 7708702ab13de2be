from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.doctor.host import Host, Ran, free_bytes, installed_version, run_program


def test_a_program_is_run_without_input_and_its_end_is_told() -> None:
    assert run_program([sys.executable, "-c", "print(input())"], 20).exit_code == 1
    assert run_program(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], 20) == Ran(3, "out\n", "err\n")
    assert run_program(["/nowhere/adb"], 20).problem == "No such file or directory"


def test_a_program_does_not_see_where_the_adb_server_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", "nonsense")
    assert run_program(["/bin/sh", "-c", "echo ${ANDROID_ADB_SERVER_PORT:-none}"], 20).stdout == "none\n"


def test_a_program_that_does_not_end_is_ended() -> None:
    assert run_program(["sleep", "60"], 0.05).problem == "it did not end in 0.05 s"


def test_free_space_is_that_of_the_nearest_folder_there_is(tmp_path: Path) -> None:
    assert (free_bytes(tmp_path / "not" / "yet") or 0) > 0


def test_this_computer_is_described() -> None:
    host = Host()
    assert host.python_version == sys.version_info[:2]
    assert any(line.startswith("adbutils") for line in host.requirements)
    assert not any("ruff" in line for line in host.requirements)
    assert installed_version("pytest") is not None
    assert installed_version("no-such-package-here") is None
