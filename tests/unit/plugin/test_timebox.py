from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from harness.core.errors import ConfigError
from harness.plugin.timebox import parse_budget, parse_until, stop_at

NOW = datetime(2026, 3, 5, 22, 10, 30, tzinfo=timezone.utc)
WALL = datetime(2026, 3, 5, 22, 10, 30)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("8h", 28800), ("90m", 5400), ("1h30m", 5400), ("45s", 45), (" 1h0m1s ", 3601), ("100h", 360000)],
)
def test_a_budget_is_hours_minutes_and_seconds(text: str, seconds: int) -> None:
    assert parse_budget(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "8", "h", "0s", "0h0m", "30m1h", "-1h", "1.5h", "8 h", "1h 30m", "99999999h"])
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--budget .*: it is no time: write it like 8h, 90m, 1h30m or 45s"):
        parse_budget(text)


@pytest.mark.parametrize(
    ("text", "day", "hour", "minute"),
    [("23:00", 5, 23, 0), ("22:11", 5, 22, 11), ("22:10", 6, 22, 10), ("06:30", 6, 6, 30), ("0:05", 6, 0, 5)],
)
def test_until_is_the_next_moment_at_which_the_clock_shows_it(text: str, day: int, hour: int, minute: int) -> None:
    assert parse_until(text, WALL) == datetime(2026, 3, day, hour, minute)


@pytest.mark.parametrize("text", ["", "24:00", "7", "7:5", "07:60", "07:30:00", "7am", "-1:30"])
def test_what_is_no_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--until .*: it is no time of day: write it like 06:30"):
        parse_until(text, WALL)


def test_the_earlier_of_both_counts_and_none_is_no_end() -> None:
    assert stop_at(None, None, NOW) is None
    assert stop_at(None, "2h", NOW) == NOW + timedelta(hours=2)
    local = (NOW + timedelta(hours=3)).astimezone()
    until = f"{local:%H:%M}"
    end = stop_at(until, None, NOW)
    assert end == local.replace(second=0)
    assert stop_at(until, "2h", NOW) == NOW + timedelta(hours=2)
    assert stop_at(until, "4h", NOW) == end
