from __future__ import annotations

from harness.doctor.checkup import CHECKS, check_up
from harness.doctor.host import Ran

from .conftest import MakeHost


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
