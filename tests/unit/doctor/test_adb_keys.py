from __future__ import annotations

from pathlib import Path

import pytest

from harness.doctor.adb_keys import check_keys
from harness.doctor.host import Host

from .conftest import MakeHost


def key(host: Host) -> Path:
    path = host.home / ".android" / "adbkey"
    path.parent.mkdir()
    path.write_text("secret")
    return path


def test_a_key_that_can_be_read_is_fine(make_host: MakeHost) -> None:
    host = make_host()
    key(host)
    assert check_keys(host) == []


def test_a_key_that_is_roots_is_an_error_with_the_command_that_mends_it(make_host: MakeHost) -> None:
    host = make_host(may_use=lambda path: path.name != "adbkey")
    path = key(host)
    [finding] = check_keys(host)
    assert (finding.code, finding.severity) == ("adb_key_denied", "error")
    assert finding.fix.startswith(f"sudo chown ada: {path} {path}.pub")


def test_no_key_yet_is_only_told(make_host: MakeHost) -> None:
    [finding] = check_keys(make_host())
    assert (finding.code, finding.severity) == ("adb_key_new", "info")


def test_no_key_and_no_way_to_make_one_is_an_error(make_host: MakeHost) -> None:
    [finding] = check_keys(make_host(may_use=lambda path: path.name != "home"))
    assert (finding.code, finding.severity) == ("adb_key_impossible", "error")
    assert "set HOME" in finding.fix


@pytest.mark.parametrize("variable", ["ANDROID_USER_HOME", "ANDROID_SDK_HOME"])
def test_a_key_where_adb_does_not_look_is_a_warning(make_host: MakeHost, tmp_path: Path, variable: str) -> None:
    elsewhere = tmp_path / "studio" / "adbkey"
    elsewhere.parent.mkdir()
    elsewhere.write_text("secret")
    [finding] = check_keys(make_host({variable: str(elsewhere.parent)}))
    assert (finding.code, finding.severity) == ("adb_key_elsewhere", "warning")
    assert finding.fix.startswith(f"export ADB_VENDOR_KEYS={elsewhere}")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda place: None, "it does not exist"),
        (lambda place: place.mkdir(), "it holds no *.adb_key"),
        (lambda place: (place.mkdir(), (place / "denied.adb_key").touch()), "ada may not read it"),
    ],
)
def test_vendor_keys_that_adb_cannot_use_are_named(make_host: MakeHost, tmp_path: Path, make, problem: str) -> None:
    make(tmp_path / "keys")
    host = make_host({"ADB_VENDOR_KEYS": str(tmp_path / "keys")}, may_use=lambda path: "denied" not in path.name)
    key(host)
    [finding] = check_keys(host)
    assert (finding.code, finding.severity) == ("adb_vendor_key", "warning")
    assert finding.detail == f"{tmp_path / 'keys'}: {problem}"


def test_vendor_keys_that_can_be_read_are_fine(make_host: MakeHost, tmp_path: Path) -> None:
    (tmp_path / "lab.adb_key").touch()
    host = make_host({"ADB_VENDOR_KEYS": f"{tmp_path}:{tmp_path / 'lab.adb_key'}"})
    key(host)
    assert check_keys(host) == []
