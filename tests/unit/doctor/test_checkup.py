from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.doctor.checkup import CHECKS, check_up
from harness.doctor.host import Ran, run_program
from harness.virtual.sandbox import SWITCH

from .conftest import MakeHost, adb, plug_in


def test_every_finding_of_a_bare_computer_has_detail_and_fix(make_host: MakeHost) -> None:
    host = make_host(
        {"ADB_VENDOR_KEYS": "/nowhere", "ADB_SERVER_SOCKET": "tcp:1"},
        python_version=(3, 9),
        requirements=("typer>=99",),
        run=lambda *_: Ran(1, "", "no"),
        free=lambda _: 0,
    )
    checked = list(check_up(host))
    assert [one.name for one in checked[: len(CHECKS)]] == list(CHECKS)
    findings = [finding for one in checked for finding in one.findings]
    assert {finding.code for finding in findings} >= {
        "adb_missing", "adb_socket_set", "adb_vendor_key", "adb_key_new", "disk_low", "python_old", "packages_wrong",
        "mnn_broken", "zig_broken",
    }  # fmt: skip
    assert all(finding.title and finding.detail and finding.fix for finding in findings)
    assert all("\n" not in finding.fix for finding in findings)


def test_providers_of_phones_bring_checks_of_their_own(make_host: MakeHost) -> None:
    host = make_host(run=lambda *_: Ran(0, "0.15.1", ""), requirements=())
    assert "virtual phones" in [one.name for one in check_up(host)]


def test_two_adb_versions_no_udev_access_and_no_sandbox_are_three_findings_each_with_its_fix(
    make_host: MakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = adb(tmp_path / "old", 39), adb(tmp_path / "new", 41)
    monkeypatch.setenv(SWITCH, "bubblewrap")
    monkeypatch.setenv("PATH", str(tmp_path / "new"))

    def run(argv: Sequence[str], seconds: float) -> Ran:
        return run_program(argv, seconds) if argv[-1] == "version" and "adb" in argv[0] else Ran(0, "0.15.1", "")

    host = make_host(
        {"PATH": f"{old.parent}:{new.parent}"}, run=run, requirements=(), may_use=lambda path: path.name != "017"
    )
    plug_in(host)
    fixes = {finding.code: finding.fix for one in check_up(host) for finding in one.findings}
    assert fixes["adb_versions_differ"].startswith(f"keep one: put {old.parent} first in PATH")
    assert fixes["usb_denied"].endswith("sudo usermod -aG plugdev ada, log in again; replug the phone")
    assert fixes["sandbox_missing"].startswith("install bubblewrap and allow user namespaces")
