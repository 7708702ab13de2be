from __future__ import annotations

import re
import time
from datetime import date
from pathlib import Path

import pytest

from harness.core.errors import ConfigError
from harness.plan.known import Known, load_known

ENTRY = """
[[known]]
ticket = "FARM-1"
expires = 2026-12-31
note = "the driver loses a queue"
reason = "crash"
phone = "atlas*"
"""


def known(**over: object) -> Known:
    return Known.model_validate(
        {"ticket": "T-1", "expires": date(2026, 12, 31), "note": "n", "reason": "crash", **over}
    )


def load(tmp_path: Path, text: str) -> tuple[Known, ...]:
    file = tmp_path / "known_issues.toml"
    file.write_text(text)
    return load_known(file)


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    assert load(tmp_path, f'schema = 1\n{ENTRY}owner = "ada"\n') == (
        known(ticket="FARM-1", note="the driver loses a queue", phone="atlas*", owner="ada"),
    )


def test_a_file_without_entries_is_no_error(tmp_path: Path) -> None:
    assert load(tmp_path, "schema = 1\n") == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (ENTRY.replace("ticket", "tickt"), "unknown key 'known.0.tickt'; did you mean 'ticket'? keys here are ticket"),
        (ENTRY.replace("expires = 2026-12-31\n", ""), "the key 'known.0.expires' is missing"),
        (ENTRY.replace("2026-12-31", '"soon"'), "known.0.expires: write a day without quotes, like 2026-12-31"),
        (ENTRY.replace("2026-12-31", "2026-12-31T08:00:00"), "write a day without quotes, like 2026-12-31"),
        (ENTRY.replace('"crash"', '"crsh"'), "known.0.reason: did you mean 'crash'? allowed are backend_fallback, "),
        (
            ENTRY.replace('reason = "crash"\nphone = "atlas*"\n', ""),
            "known.0: it would match every failure (FARM-1); give ",
        ),
        (ENTRY.replace('"atlas*"', '""'), "known.0.phone"),
        ("known = 3", "known"),
        ("[[known]", "is not TOML"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_file_and_key(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)) as error:
        load(tmp_path, text)
    assert str(error.value).startswith(str(tmp_path / "known_issues.toml"))
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"mine\.toml cannot be read"):
        load_known(tmp_path / "mine.toml")


@pytest.mark.parametrize(
    ("conditions", "holds"),
    [
        ({}, True),
        ({"reason": "hang"}, False),
        ({"reason": "crash", "phone": "at*"}, True),
        ({"phone": "Model ?tlas"}, True),
        ({"phone": "birch"}, False),
        ({"model": "tiny-*", "backend": "opencl"}, True),
        ({"backend": "cpu"}, False),
        ({"detail": "signal 11 in *"}, True),
        ({"detail": "signal 11"}, False),
        ({"detail": "signal [0-9][0-9] *"}, True),
    ],
)
def test_all_conditions_must_hold(conditions: dict[str, str], holds: bool) -> None:
    entry = known(**conditions)
    seen = entry.matches("crash", ("atlas", "Model atlas"), "tiny-llama", "opencl", "signal 11\nin libMNN.so")
    assert seen is holds


def test_a_phone_whose_model_is_unknown_matches_by_its_name_alone() -> None:
    assert not known(phone="M*").matches("crash", ("atlas", None), "m", "cpu", "")


def test_it_counts_on_its_last_day_and_not_after() -> None:
    entry = known(expires=date(2026, 3, 5))
    assert [entry.expired(date(2026, 3, day)) for day in (4, 5, 6)] == [False, False, True]


def test_no_pattern_takes_long_on_any_detail() -> None:
    worst = ["*a" * 99 + "*b", "*" + "?" * 190 + "b*c", "*a?" * 60 + "*c"]
    begun = time.process_time()
    assert not any(known(detail=each).matches("crash", (), "m", "cpu", "a" * 1_000_000) for each in worst)
    # Less than a hundredth of a second, or, with a pattern that tries everything, for ever.
    assert time.process_time() - begun < 10
