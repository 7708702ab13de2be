"""Every fault of the test bench at the moments before a run on the phone has begun: the step is done again, or why not.

What a verdict has to be beside the reason is in ``arena.check_verdicts``.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

OK = ("ok", "ok")
# So that a run is still going on when a fault has struck, on however busy a computer.
SLOW = ("token_ms=200",)


def gone(reason: str) -> tuple[str, str]:
    """The cell in flight has the reason; the phone is given up, and the next cell never begins."""
    return (reason, "phone_gone")


# Fault, moment, what becomes of the phone's two cells (or the reason for which it is left out), and where needed: when
# it is mended, in s; what else the runner is told.
CASES: list[tuple[Any, ...]] = [
    *[("cut", moment, ("device_lost",)) for moment in ("connect", "lease", "facts")],
    *[("cut", moment, gone("device_lost")) for moment in ("prepare", "verify", "push")],
    *[("cut=0.3", moment, OK) for moment in ("connect", "facts", "push")],
    *[("reboot=0.3", moment, OK) for moment in ("lease", "push")],
    ("offline", "connect", ("device_offline",)),
    ("offline", "push", gone("device_offline")),
    ("unauthorized", "facts", ("unauthorized",)),
    ("full-disk", "lease", ("no_space",)),
    ("full-disk", "push", ("no_space", "no_space")),
    ("read-only", "lease", ("read_only",)),
    ("read-only", "push", ("read_only", "read_only")),
    ("slow=2000000", "push", OK),
    ("stalled", "connect", ("link_stalled",)),
    ("stalled", "push", gone("link_stalled")),
    ("exit-lost", "facts", ("adb_error",)),
    ("exit-lost", "verify", gone("adb_error")),
    ("garbage", "connect", ("adb_error",)),
    ("garbage", "verify", gone("adb_error")),
    ("truncated", "verify", gone("adb_error")),
    ("adbd-restarted", "push", OK),
    ("thermal-shutdown", "push", OK, 0.3),
    ("corrupt", "verify", OK),
    ("replaced", "push", gone("device_lost"), None, SLOW),
    ("lease-stolen", "verify", ("lease_lost", "lease_lost")),
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
