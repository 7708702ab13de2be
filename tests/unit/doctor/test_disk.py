from __future__ import annotations

import pytest

from harness.doctor.disk import NEEDED_BYTES, check_disk

from .conftest import MakeHost

GIB = 1024**3


def test_enough_room_is_fine_and_unknown_is_not_held_against_it(make_host: MakeHost) -> None:
    assert check_disk(make_host()) == []
    assert check_disk(make_host(free=lambda _: None)) == []


@pytest.mark.parametrize(("free", "severity"), [(4 * GIB - 1, "warning"), (NEEDED_BYTES - 1, "error")])
def test_little_room_is_told_with_what_moves_the_place(make_host: MakeHost, free: int, severity: str) -> None:
    host = make_host()
    [finding] = check_disk(make_host(free=lambda path: free if path == host.cache else 2**40))
    assert (finding.code, finding.severity) == ("disk_low", severity)
    assert finding.detail.endswith(f"free at {host.cache}; 4.0 GiB are wanted")
    assert finding.fix.endswith("MNN_FARM_CACHE")


def test_a_folder_that_is_not_there_yet_is_judged_by_the_one_above(make_host: MakeHost) -> None:
    host = make_host()
    host.reports.rmdir()
    assert check_disk(host) == []
    above = make_host(may_use=lambda path: path != host.reports.parent)
    [finding] = check_disk(above)
    assert (finding.code, finding.severity) == ("folder_denied", "error")
    assert finding.detail == f"{host.reports.parent} may not be written by ada"
    assert finding.fix.endswith("--run-dir")
