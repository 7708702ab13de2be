"""Every fault of the test bench at the moments from the run on the phone to the leaving of it.

What a verdict has to be beside the reason is in ``arena.check_verdicts``.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

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
    *[("cut", moment, gone("device_lost")) for moment in ("load", "decode")],
    ("cut", "end", ("ok", "device_lost")),
    ("cut", "pull", ("crash", "device_lost"), None, CRASHES),
    ("cut", "restore", OK),
    *[("cut=0.3", moment, OK) for moment in ("prefill", "decode")],
    ("cut=0.3", "pull", ("crash", "crash"), None, CRASHES),
    ("reboot=0.3", "end", OK),
    *[("reboot=0.3", moment, ("rebooted", "ok"), None, SLOW) for moment in ("load", "prefill", "decode")],
    ("offline", "decode", gone("device_offline")),
    ("unauthorized", "load", gone("unauthorized")),
    ("full-disk", "decode", ("ok", "no_space")),
    ("read-only", "decode", ("ok", "read_only")),
    ("stalled", "decode", gone("link_stalled")),
    ("stalled", "restore", OK),
    ("exit-lost", "decode", ("ok", "adb_error")),
    ("clock-jumped", "load", OK),
    *[("asleep", moment, ("suspended", "ok"), None, SLOW) for moment in ("load", "decode")],
    ("adbd-restarted", "decode", OK),
    ("thermal-shutdown", "load", gone("device_lost"), None, SLOW),
    ("thermal-shutdown", "decode", ("thermal_shutdown", "ok"), 0.3, SLOW),
    ("replaced", "load", gone("device_lost"), None, SLOW),
    ("replaced", "end", ("ok", "device_lost")),
    ("lmkd-kill", "decode", ("out_of_memory", "ok"), None, (*SLOW, "peak_mb=96")),
    ("lease-stolen", "load", ("lease_lost", "lease_lost"), None, ("load_ms=7000",)),
]


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: "-".join(case[:2]) + ("-mended" if len(case) > 3 and case[3] else "")
)
def test_a_fault_ends_in_the_one_right_verdict(
    arena: ModuleType, played: Callable[[tuple[Any, ...]], Any], case: tuple[Any, ...]
) -> None:
    arena.check_verdicts(played(case), case)


def test_there_are_enough_of_them_and_none_twice() -> None:
    assert len({case[:2] + case[3:4] for case in CASES}) == len(CASES) >= 25
