from __future__ import annotations

from typing import Any, cast

import pytest

from harness.core.deadline import Deadline
from harness.core.transport import ShellResult
from harness.fleet.meeting import why_not_ready


class Asked:
    """A transport that answers ``getprop`` and ``df``."""

    name = "toy"
    base_dir = "/data/local/tmp/mnn-farm"

    def __init__(self, getprop: bytes, df: bytes) -> None:
        self._answers = {"getprop": getprop, "df /data/local/tmp": df}

    def shell(self, argv: list[str], *, deadline: Deadline) -> ShellResult:
        return ShellResult(0, self._answers[" ".join(argv)], b"")


@pytest.mark.parametrize(
    ("getprop", "free_kb", "code"),
    [
        (b"[ro.build.version.sdk]: [34]\n[sys.boot_completed]: [1]\n", 9_000_000, None),
        (b"[ro.build.version.sdk]: [34]\n", 9_000_000, "booting"),
        (b"[ro.build.version.sdk]: [34]\n[sys.boot_completed]: [1]\n", 400, "no_space"),
        (b"", 9_000_000, None),
    ],
)
def test_a_phone_is_asked_whether_it_is_ready(getprop: bytes, free_kb: int, code: str | None) -> None:
    df = b"Filesystem 1K-blocks Used Available Use%% Mounted on\n/dev/x 10000000 1 %d 1%% /data\n" % free_kb
    why = why_not_ready(cast(Any, Asked(getprop, df)))
    assert (None if why is None else why.code) == code
