"""``--until HH:MM`` and ``--budget 8h``: the moment after which no cell is started. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from harness.core.errors import ConfigError

_BUDGET = re.compile(r"(?:(?P<hours>\d{1,4})h)?(?:(?P<minutes>\d{1,5})m)?(?:(?P<seconds>\d{1,6})s)?")
_UNTIL = re.compile(r"(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)")


def parse_budget(text: str) -> timedelta:
    """Read ``8h``, ``90m``, ``1h30m`` or ``45s``.

    Raises:
        ConfigError: it is none of these, or no time at all.
    """
    match = _BUDGET.fullmatch(text.strip())
    budget = timedelta(**{unit: int(value) for unit, value in match.groupdict("0").items()}) if match else timedelta(0)
    if not budget:
        raise ConfigError(f"--budget {text}: it is no time", remedy="write it like 8h, 90m, 1h30m or 45s")
    return budget


def parse_until(text: str, now: datetime) -> datetime:
    """Read ``HH:MM``: the next moment after ``now`` at which a clock on the wall shows it. Both without a time zone.

    Raises:
        ConfigError: it is no time of day.
    """
    match = _UNTIL.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"--until {text}: it is no time of day", remedy="write it like 06:30")
    until = now.replace(hour=int(match["hour"]), minute=int(match["minute"]), second=0, microsecond=0)
    return until if until > now else until + timedelta(days=1)


def stop_at(until: str | None, budget: str | None, now: datetime) -> datetime | None:
    """Return the moment after which no cell is started; with both options the earlier one, with none ``None``.

    ``now`` has a time zone; ``until`` is read in this computer's own, with its change of clocks in the night.

    Raises:
        ConfigError: one of them cannot be read.
    """
    ends = [] if until is None else [parse_until(until, now.astimezone().replace(tzinfo=None)).astimezone()]
    if budget is not None:
        ends.append(now + parse_budget(budget))
    return min(ends, default=None)
