"""``dumpsys battery``: level, temperature, charger.

Format: AOSP ``BatteryService.dumpInternal``, one ``  key: value`` a line. Samsung appends its own event log, whose
lines look alike and hold older values; some phones leave lines out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# Numbers of Android's BatteryManager.
_STATUS = {1: "unknown", 2: "charging", 3: "discharging", 4: "not_charging", 5: "full"}
_HEALTH = {1: "unknown", 2: "good", 3: "overheat", 4: "dead", 5: "over_voltage", 6: "failure", 7: "cold"}
# In order of preference: who hangs on two is charged by the stronger.
_PLUGS = {"ac": "AC powered", "usb": "USB powered", "wireless": "Wireless powered", "dock": "Dock powered"}
# Without a "scale" line: BatteryService has always had 100.
_DEFAULT_SCALE = 100
# Beyond these a number is no battery's temperature or voltage (two cells in a row give up to 9 V).
_COLDEST_C, _HOTTEST_C = -30.0, 100.0
_LEAST_MV, _MOST_MV = 1_000, 20_000

_LINE = re.compile(r"\s*([A-Za-z][A-Za-z ]*): *(\S.*)")
_NUMBER = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True)
class Battery:
    """A phone's battery at one moment; ``None`` is unknown, with its reason in ``nulls``.

    ``plugged`` is ``ac``, ``usb``, ``wireless``, ``dock`` or ``none``; ``status`` is ``charging``, ``discharging``,
    ``full``, ``not_charging`` or ``unknown``; ``health`` is ``good``, ``overheat``, ``cold``, ….
    ``overridden`` says that somebody froze the readings by ``dumpsys battery set`` or ``unplug``: they may be untrue.
    """

    level_pct: int | None
    temp_c: float | None
    plugged: str | None
    status: str | None
    health: str | None
    voltage_mv: int | None
    overridden: bool
    nulls: Mapping[str, str] = field(default_factory=dict)

    @property
    def charging(self) -> bool:
        """Whether the level is going to rise."""
        return self.status == "charging"


def parse_battery(data: bytes) -> Battery:
    """Read the output of ``dumpsys battery``; never raises, whatever the phone sent."""
    text = data.decode("utf-8", "replace")
    dump = _Dump(_state_lines(text))
    return Battery(
        level_pct=dump.level_pct(),
        temp_c=dump.temp_c(),
        plugged=dump.plugged(),
        status=dump.word("status", _STATUS),
        health=dump.word("health", _HEALTH),
        voltage_mv=dump.voltage_mv(),
        overridden="UPDATES STOPPED" in text,
        nulls=dump.nulls,
    )


class _Dump:
    """The lines of one dump by key; what cannot be read of them is told in ``nulls``."""

    def __init__(self, said: Mapping[str, str]) -> None:
        self._said = said
        self.nulls: dict[str, str] = {}

    def level_pct(self) -> int | None:
        name = "level_pct"
        level = self._number(name, "level")
        scale = self._number(name, "scale") if "scale" in self._said else _DEFAULT_SCALE
        if level is None or scale is None:
            return None
        if self._possible(name, "scale", scale > 0) and self._possible(name, "level", 0 <= level <= scale):
            return round(100 * level / scale)
        return None

    def temp_c(self) -> float | None:
        tenths = self._number("temp_c", "temperature")
        if tenths is None:
            return None
        # 0 is what phones without a sensor say
        real = tenths != 0 and _COLDEST_C < tenths / 10 < _HOTTEST_C
        return tenths / 10 if self._possible("temp_c", "temperature", real) else None

    def voltage_mv(self) -> int | None:
        value = self._number("voltage_mv", "voltage")
        if value is None:
            return None
        if value >= 1000 * _LEAST_MV:
            value //= 1000  # some vendors hand the kernel's microvolts on
        return value if self._possible("voltage_mv", "voltage", _LEAST_MV <= value <= _MOST_MV) else None

    def word(self, key: str, words: Mapping[int, str]) -> str | None:
        value = self._number(key, key)
        if value is None:
            return None
        return words[value] if self._possible(key, key, value in words) else None

    def plugged(self) -> str | None:
        for name, key in _PLUGS.items():
            if self._said.get(key) == "true":
                return name
        # Not every phone has the lines of the other two.
        for key in (_PLUGS["ac"], _PLUGS["usb"]):
            if self._said.get(key) != "false":
                self.nulls["plugged"] = f"dumpsys battery does not tell {key!r}"
                return None
        return "none"

    def _number(self, name: str, key: str) -> int | None:
        word = self._said.get(key)
        if word is None:
            self.nulls[name] = f"dumpsys battery has no line {key!r}"
        elif not _NUMBER.fullmatch(word):
            self.nulls[name] = f"dumpsys battery says {key}: {word[:40]!r}, no number"
        else:
            return int(word)
        return None

    def _possible(self, name: str, key: str, possible: bool) -> bool:
        if not possible:
            self.nulls[name] = f"dumpsys battery says {key}: {self._said[key][:40]}, which cannot be"
        return possible


def _state_lines(text: str) -> dict[str, str]:
    """Return the service's own lines by key: what follows the first repeated key, or a ``[heading]``, is a log."""
    said: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("["):
            break
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            continue
        if match[1] in said:
            break
        said[match[1]] = match[2]
    return said
