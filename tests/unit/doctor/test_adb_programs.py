from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.doctor.adb_programs import AdbProgram, adb_programs, check_killers, check_programs

from .conftest import MakeHost, adb, version_answer

Serve = Callable[[bytes], dict[str, str]]


def path_of(*programs: Path) -> str:
    return os.pathsep.join(str(program.parent) for program in programs)


def test_programs_are_found_in_path_in_the_sdk_and_in_the_wheel_each_once(make_host: MakeHost, tmp_path: Path) -> None:
    first, sdk = adb(tmp_path / "a"), adb(tmp_path / "sdk/platform-tools", 40, "28.0.1")
    carried = adb(tmp_path / "wheel")
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "adb").symlink_to(first)
    (tmp_path / "no-program").mkdir()
    (tmp_path / "no-program" / "adb").write_text("")
    environ = {
        "PATH": path_of(first, tmp_path / "again/adb", tmp_path / "no-program/adb"),
        "ANDROID_HOME": str(tmp_path / "sdk"),
        "ANDROID_SDK_ROOT": str(tmp_path / "sdk"),
    }
    assert adb_programs(make_host(environ, carried_adb=carried)) == [
        AdbProgram(first, "PATH", 41, "36.0.0-99"),
        AdbProgram(sdk, "ANDROID_HOME", 40, "28.0.1-99"),
        AdbProgram(carried, "the package adbutils", 41, "36.0.0-99"),
    ]


def test_one_adb_is_fine(make_host: MakeHost, tmp_path: Path) -> None:
    assert check_programs(make_host({"PATH": path_of(adb(tmp_path / "a"))})) == []


def test_two_versions_that_kill_each_others_server_are_a_warning_with_a_fix(
    make_host: MakeHost, tmp_path: Path
) -> None:
    one, other = adb(tmp_path / "a"), adb(tmp_path / "b", 39, "28.0.1")
    [finding] = check_programs(make_host({"PATH": path_of(one, other)}))
    assert (finding.code, finding.severity) == ("adb_versions_differ", "warning")
    assert finding.detail == (
        f"{one} (from PATH) has version 41, release 36.0.0-99; {other} (from PATH) has version 39, release 28.0.1-99"
    )
    assert finding.fix == f"keep one: put {one.parent} first in PATH for everybody and remove or update the others"


def test_two_releases_of_one_version_are_only_told(make_host: MakeHost, tmp_path: Path) -> None:
    programs = adb(tmp_path / "a"), adb(tmp_path / "b", 41, "34.0.4")
    [finding] = check_programs(make_host({"PATH": path_of(*programs)}))
    assert (finding.code, finding.severity) == ("adb_versions_differ", "info")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("echo no such library >&2; exit 127", "exit code 127: no such library"),
        ("kill -ILL $$", "ended by SIGILL"),
        ("echo hello", "exit code 0: hello"),
    ],
)
def test_an_adb_that_does_not_run_is_named(make_host: MakeHost, tmp_path: Path, body: str, says: str) -> None:
    broken, whole = adb(tmp_path / "a", body=body), adb(tmp_path / "b")
    [finding] = check_programs(make_host({"PATH": path_of(broken, whole)}))
    assert (finding.code, finding.severity, finding.detail) == ("adb_broken", "warning", f"{broken}: {says}")
    assert [finding.severity for finding in check_programs(make_host({"PATH": path_of(broken)}))] == ["error", "error"]


def test_no_adb_at_all_is_an_error(make_host: MakeHost) -> None:
    [finding] = check_programs(make_host())
    assert (finding.code, finding.severity) == ("adb_missing", "error")
    assert "apt-get install adb" in finding.fix


def test_without_a_server_nobody_kills_one(make_host: MakeHost, tmp_path: Path) -> None:
    assert check_killers(make_host({"PATH": path_of(adb(tmp_path / "a", 39))})) == []


def test_the_adb_that_people_type_must_not_kill_the_running_server(
    make_host: MakeHost, tmp_path: Path, serve: Serve
) -> None:
    typed, second = adb(tmp_path / "a", 39), adb(tmp_path / "b", 40)
    fine = adb(tmp_path / "c", 41)
    environ = {"PATH": path_of(typed, second, fine), **serve(version_answer(41))}
    first, other = check_killers(make_host(environ))
    assert (first.code, first.severity, other.code, other.severity) == (
        "adb_kills_server", "error", "adb_kills_server", "warning",
    )  # fmt: skip
    assert first.detail.startswith(f"{typed} (from PATH) has version 39")
    assert first.detail.endswith(f"the server at 127.0.0.1:{environ['ANDROID_ADB_SERVER_PORT']} has version 41")
    assert first.fix.endswith(f"{typed} kill-server; {typed} start-server")
    assert other.fix == f"remove {second}, or update it to the server's version"
