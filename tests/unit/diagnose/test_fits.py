"""The rungs about bundle and model on a phone, as far as they need none."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from harness.core.reasons import Reason
from harness.diagnose.fits import library_named, why_not_started
from harness.diagnose.rung import broke, telling

GLIBC = "/d/farm_runner: error while loading shared libraries: libx.so: cannot open shared object file: No such file"
BIONIC = 'CANNOT LINK EXECUTABLE "/d/farm_runner": library "libx.so" not found: needed by main executable'


@pytest.mark.parametrize("says", [GLIBC, BIONIC])
def test_whichever_loader_speaks_the_missing_library_is_the_cause(says: str) -> None:
    outcome = library_named(broke(Reason.LINK_ERROR, says), ["farm_runner"])
    assert outcome.code == "missing_shared_library"
    assert "libx.so is neither among the files of the bundle nor on this phone" in outcome.cause
    assert outcome.advice == ("Add libx.so, built for this ABI, to the bundle, or link it statically.",)


def test_a_library_that_lies_beside_the_program_is_not_looked_for_there() -> None:
    outcome = library_named(broke(Reason.LINK_ERROR, GLIBC), ["farm_runner", "libx.so"])
    assert "is among the files of the bundle, but the loader does not look there" in outcome.cause
    assert "LD_LIBRARY_PATH" in outcome.advice[0]


def test_other_words_of_a_loader_keep_their_own_cause() -> None:
    outcome = broke(Reason.LINK_ERROR, 'CANNOT LINK EXECUTABLE: cannot locate symbol "f"')
    assert library_named(outcome, []) is outcome


@pytest.mark.parametrize(
    ("end", "stderr", "reason"),
    [
        ({"why": "spawn_failed", "errno": "ENOEXEC", "exit_code": None}, b"", Reason.ABI_MISMATCH),
        ({"why": "spawn_failed", "errno": "ENOENT", "exit_code": None}, b"", Reason.LINK_ERROR),
        ({"why": "spawn_failed", "errno": "EACCES", "exit_code": None}, b"", Reason.NOEXEC),
        ({"exit_code": None, "signal": 4}, b"", Reason.ILLEGAL_INSTRUCTION),
        ({"exit_code": None, "signal": 11}, b"", Reason.CRASH),
        ({"exit_code": 127}, GLIBC.encode(), Reason.LINK_ERROR),
        ({"exit_code": 1}, BIONIC.encode(), Reason.LINK_ERROR),
        ({"exit_code": 126}, b"can't execute: Permission denied", Reason.NOEXEC),
        ({"why": "deadline", "exit_code": None, "signal": 9}, b"", Reason.HANG),
        # A tool that was asked for its usage may end as it likes.
        ({"exit_code": 1}, b"Usage: llm_demo config.json", None),
        ({"exit_code": 0}, b"", None),
    ],
)
def test_what_kept_a_program_from_starting_is_told_from_how_it_ended(
    bench: ModuleType, end: dict[str, Any], stderr: bytes, reason: Reason | None
) -> None:
    evidence = bench.evidence(b"", stderr=stderr, **end)
    first = next(why_not_started(evidence), None)
    assert (None if first is None else first.reason) is reason


def test_evidence_is_what_people_can_read_and_nothing_twice() -> None:
    assert telling(["stderr: no library\nno library", "\ufffd\ufffd", "", "another"]) == (
        "stderr: no library",
        "another",
    )
