"""Every fault of the test bench at the moments at which it can strike ends in the one right verdict.

The phone that is struck gets it, the other phone's cells are all ok, nothing of ours runs on afterwards and the
settings are as before. What a lost phone still owes is put back by whoever sees it next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.core.reasons import Fault, Reason

OK = ("ok", "ok")
CRASHES = ("fault=SIGSEGV",)
# So that a run is still going on when a fault has struck, on however busy a computer.
SLOW = ("token_ms=200",)


def gone(reason: str) -> tuple[str, str]:
    """The cell in flight has the reason; the phone is given up, and the next cell never begins."""
    return (reason, "phone_gone")


# Fault, moment, what becomes of the phone's two cells (or the reason for which it is left out), and where needed: when
# it is mended, in s; what else the runner is told.
CASES: list[tuple[Any, ...]] = [
    *[("cut", moment, ("device_lost",)) for moment in ("connect", "lease", "facts")],
    *[("cut", moment, gone("device_lost")) for moment in ("prepare", "verify", "push", "load", "decode")],
    ("cut", "end", ("ok", "device_lost")),
    ("cut", "pull", ("crash", "device_lost"), None, CRASHES),
    ("cut", "restore", OK),
    *[("cut=0.3", moment, OK) for moment in ("connect", "facts", "push", "prefill", "decode")],
    ("cut=0.3", "pull", ("crash", "crash"), None, CRASHES),
    *[("reboot=0.3", moment, OK) for moment in ("lease", "push", "end")],
    *[("reboot=0.3", moment, ("rebooted", "ok"), None, SLOW) for moment in ("load", "prefill", "decode")],
    ("offline", "connect", ("device_offline",)),
    *[("offline", moment, gone("device_offline")) for moment in ("push", "decode")],
    ("unauthorized", "facts", ("unauthorized",)),
    ("unauthorized", "load", gone("unauthorized")),
    ("full-disk", "lease", ("no_space",)),
    ("full-disk", "push", ("no_space", "no_space")),
    ("full-disk", "decode", ("ok", "no_space")),
    ("read-only", "lease", ("read_only",)),
    ("read-only", "push", ("read_only", "read_only")),
    ("read-only", "decode", ("ok", "read_only")),
    ("slow=2000000", "push", OK),
    ("stalled", "connect", ("link_stalled",)),
    *[("stalled", moment, gone("link_stalled")) for moment in ("push", "decode")],
    ("stalled", "restore", OK),
    ("exit-lost", "facts", ("adb_error",)),
    ("exit-lost", "verify", gone("adb_error")),
    ("exit-lost", "decode", ("ok", "adb_error")),
    ("garbage", "connect", ("adb_error",)),
    ("garbage", "verify", gone("adb_error")),
    ("truncated", "verify", gone("adb_error")),
    ("clock-jumped", "load", OK),
    *[("asleep", moment, ("suspended", "ok"), None, SLOW) for moment in ("load", "decode")],
    *[("adbd-restarted", moment, OK) for moment in ("push", "decode")],
    ("thermal-shutdown", "load", gone("device_lost"), None, SLOW),
    ("thermal-shutdown", "decode", ("thermal_shutdown", "ok"), 0.3, SLOW),
    ("thermal-shutdown", "push", OK, 0.3),
    ("corrupt", "verify", OK),
    *[("replaced", moment, gone("device_lost"), None, SLOW) for moment in ("push", "load")],
    ("replaced", "end", ("ok", "device_lost")),
    ("lmkd-kill", "decode", ("out_of_memory", "ok"), None, (*SLOW, "peak_mb=96")),
    ("lease-stolen", "verify", ("lease_lost", "lease_lost")),
    ("lease-stolen", "load", ("lease_lost", "lease_lost"), None, ("load_ms=7000",)),
]
LONGEST_S = 90.0
INTO = {"suspended": "rejected", "phone_gone": "skipped"}


def name_of(case: tuple[Any, ...]) -> str:
    return f"{case[0]}-{case[1]}{'-mended' if len(case) > 3 and case[3] else ''}"


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_fault_ends_in_the_one_right_verdict(played: Callable[[tuple[Any, ...]], Any], case: tuple[Any, ...]) -> None:
    done = played(case)
    expected = case[2]
    assert done.verdicts == expected, [record.detail for record in done.struck]
    for record, code in zip(done.struck, expected, strict=False):
        if code == "ok":
            assert (record.verdict.value, record.reason, record.fault) == ("ok", None, None)
        else:
            reason = Reason.from_code(code)
            assert (record.verdict, record.reason, record.fault) == (reason.verdict, code, reason.fault)
            assert record.verdict.value == INTO.get(code, "failed")
    product = {"crash", "out_of_memory", "thermal_shutdown"}
    assert {record.reason for record in done.struck if record.fault is Fault.PRODUCT} <= product
    assert [record.reason for record in done.other] == ["crash" if case[-1] == CRASHES else None] * 2
    assert done.seconds < LONGEST_S
    # A phone that was given up could not be tidied up; one that answers to the end is left with nothing of ours.
    lost = len(expected) == 1 or expected[-1] != "ok" or case[1] == "restore"
    if not lost:
        assert done.left_running == []
    assert done.still_running == []
    assert done.settings_after == done.settings_before


def test_there_are_enough_of_them_and_none_twice() -> None:
    assert len({case[:2] + case[3:4] for case in CASES}) == len(CASES) >= 40
