"""``dumpsys thermalservice`` (Android 10 and later): status, sensors by kind, cooling devices, limits. Pure.

Format: AOSP ``ThermalManagerService.dumpInternal``. Everything after ``HAL Ready`` is missing while the vendor's part
is not ready. The cached temperatures may be as old as the boot, so only those asked of the vendor's part now count. The
overall status is the worst of the skin sensors alone, and many phones never leave 0: it proves no coolness.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# android.os.Temperature
_KINDS = {
    -1: "unknown", 0: "cpu", 1: "gpu", 2: "battery", 3: "skin", 4: "usb_port", 5: "power_amplifier", 6: "bcl_voltage",
    7: "bcl_current", 8: "bcl_percentage", 9: "npu", 10: "tpu", 11: "display", 12: "modem", 13: "soc", 14: "wifi",
    15: "camera", 16: "flashlight", 17: "speaker", 18: "ambient", 19: "pogo",
}  # fmt: skip
# Volt, milliampere and percent.
_NO_TEMPERATURES = frozenset({"bcl_voltage", "bcl_current", "bcl_percentage"})
_LAST_STATUS = 6
# No phone is used below or survives above.
_COLDEST_C, _HOTTEST_C = -30.0, 150.0

_OVERRIDE = re.compile(r"^[ \t]*IsStatusOverride:[ \t]*(true|false)[ \t]*$", re.MULTILINE)
_STATUS = re.compile(r"^[ \t]*Thermal Status:[ \t]*(-?\d{1,4})[ \t]*$", re.MULTILINE)
_READY = re.compile(r"^[ \t]*HAL Ready:[ \t]*(true|false)[ \t]*$", re.MULTILINE)
_HAL = re.compile(r"^[ \t]*ThermalHAL[ \t]+(\S.*?)[ \t]+connected:[ \t]*(yes|no)[ \t]*$", re.MULTILINE)
_TEMPERATURES = "Current temperatures from HAL"
_COOLING = "Current cooling devices from HAL"
_THRESHOLDS = "Temperature static thresholds from HAL"
# A section's heading begins with a letter and ends with a colon; an item holds its fields in braces.
_HEADING = re.compile(r"^\s*([A-Za-z][^{}=]*):\s*$")
_ITEM = re.compile(r"\{(.*)\}\s*$")
# "mType=3, mName=…", ".type = SKIN, .name = …" (HIDL) and "type: SKIN, name: …" (AIDL)
_KEY = re.compile(r"(?:^|,)\s*(?:m(?=[A-Z])|\.)?([A-Za-z]\w*)\s*[=:]\s*")


@dataclass(frozen=True)
class Status:
    """The overall status, 0 (none) to 6 (shutdown), or why it is not known."""

    value: int | None = None
    why: str = ""


NOT_ASKED = Status(None, "the thermal service was not asked")


@dataclass(frozen=True)
class Sensor:
    """A sensor of the vendor's. ``celsius`` is ``None`` for none there, for nonsense and for what is no temperature."""

    name: str
    kind: str
    celsius: float | None
    status: int | None


@dataclass(frozen=True)
class CoolingDevice:
    """Something that cools by doing less; ``level`` above 0 means that it does."""

    name: str
    level: int | None


@dataclass(frozen=True)
class Limits:
    """Temperatures (°C) at which a sensor's status becomes 0 to 6; ``None`` where there is no limit."""

    name: str
    kind: str
    hot_c: tuple[float | None, ...]


@dataclass(frozen=True)
class ThermalService:
    """One dump. ``None`` is unknown, with its reason in ``nulls``.

    ``status`` is 0 (none) to 6 (shutdown); ``overridden`` says that somebody set it. ``hal`` is the vendor part's
    version (``2.0``, ``AIDL 1``).
    """

    status: int | None
    overridden: bool
    ready: bool | None
    hal: str | None
    sensors: tuple[Sensor, ...]
    cooling: tuple[CoolingDevice, ...]
    limits: tuple[Limits, ...]
    nulls: Mapping[str, str] = field(default_factory=dict)

    def hottest_c(self, kind: str) -> float | None:
        """Return the highest temperature of sensors of ``kind`` (``skin``, ``battery``, …)."""
        return max((s.celsius for s in self.sensors if s.kind == kind and s.celsius is not None), default=None)


def parse_thermalservice(data: bytes) -> ThermalService:
    """Read the output of ``dumpsys thermalservice``; never raises, whatever the phone sent."""
    text = data.decode("utf-8", "replace").replace("\r", "")
    nulls: dict[str, str] = {}
    items = _items(text)
    status, ready, hal = _STATUS.search(text), _READY.search(text), _HAL.search(text)
    known = None if status is None or not 0 <= int(status[1]) <= _LAST_STATUS else int(status[1])
    if known is None:
        said = next((line.strip() for line in text.splitlines() if line.strip()), "nothing")
        nulls["status"] = f"it says 'Thermal Status: {status[1]}'" if status else f"it says {said[:120]!r}"
    if ready is None:
        nulls["ready"] = "it has no line 'HAL Ready'"
    if hal is None:
        nulls["hal"] = "the vendor's part is not ready" if ready and ready[1] == "false" else "it names no version"
    sensors = tuple(_sensor(fields) for fields in items.get(_TEMPERATURES, ()))
    if not sensors:
        nulls["sensors"] = "the vendor's part lists no temperatures" if _TEMPERATURES in items else _absent(ready)
    return ThermalService(
        status=known,
        overridden=any(match[1] == "true" for match in _OVERRIDE.finditer(text)),
        ready=None if ready is None else ready[1] == "true",
        hal=" ".join(hal[1].split()) if hal else None,
        sensors=sensors,
        cooling=tuple(
            CoolingDevice(fields.get("name", ""), _whole(fields.get("value"))) for fields in items.get(_COOLING, ())
        ),
        limits=tuple(
            Limits(fields.get("name", ""), _kind(fields.get("type")), _numbers(fields.get("hotThrottlingThresholds")))
            for fields in items.get(_THRESHOLDS, ())
        ),
        nulls=nulls,
    )


def _absent(ready: re.Match[str] | None) -> str:
    if ready is not None and ready[1] == "false":
        return "the vendor's part is not ready"
    return "it has no temperatures of the vendor's part"


def _items(text: str) -> dict[str, list[dict[str, str]]]:
    """Return the fields of every item by its section; a section without items is there, empty."""
    found: dict[str, list[dict[str, str]]] = {}
    section: list[dict[str, str]] = []
    for line in text.splitlines():
        heading, item = _HEADING.match(line), _ITEM.search(line)
        if heading:
            section = found.setdefault(heading[1], [])
        elif item:
            section.append(_fields(item[1]))
    return found


def _fields(inner: str) -> dict[str, str]:
    # Commas within [ ] separate numbers, not fields: the lists are hidden from the search for keys.
    hidden = re.sub(r"\[[^][]*\]", lambda found: "_" * len(found[0]), inner)
    keys = list(_KEY.finditer(hidden))
    found: dict[str, str] = {}
    for match, following in zip(keys, [*keys[1:], None], strict=False):
        name = match[1][0].lower() + match[1][1:]
        found.setdefault(name, inner[match.end() : following.start() if following else len(inner)].strip())
    return found


def _sensor(fields: Mapping[str, str]) -> Sensor:
    kind = _kind(fields.get("type"))
    value = _number(fields.get("value"))
    # 0.0 is how Samsung says that there is no sensor.
    real = kind not in _NO_TEMPERATURES and value not in (None, 0.0)
    celsius = value if real and value is not None and _COLDEST_C < value < _HOTTEST_C else None
    status = _whole(fields.get("status") or fields.get("throttlingStatus"))
    return Sensor(fields.get("name", ""), kind, None if celsius is None else round(celsius, 3), status)


def _kind(word: str | None) -> str:
    number = _whole(word)
    if number is not None:
        return _KINDS.get(number, "unknown")
    name = (word or "").lower()
    return name if name in _KINDS.values() else "unknown"


def _numbers(word: str | None) -> tuple[float | None, ...]:
    return tuple(_number(part) for part in (word or "").strip("[]{} ").split(",") if part.strip())


def _number(word: str | None) -> float | None:
    try:
        value = float((word or "").strip())
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _whole(word: str | None) -> int | None:
    return int(word) if word is not None and re.fullmatch(r"-?[0-9]{1,9}", word.strip()) else None
