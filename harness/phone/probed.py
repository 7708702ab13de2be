"""What ``probe facts`` tells of a phone, as values: the one reading of it.

The probe is ours, but what it read is the phone's: a field of a wrong kind is ``None``, an entry of a wrong kind is
left out, and ``odd`` names both, so that one nonsense costs that one fact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Core:
    """A core. ``implementer`` and ``part`` as /proc/cpuinfo spells them (``0x41``, ``0xd05``); clocks in kHz."""

    cpu: int
    implementer: str | None
    part: str | None
    max_khz: int | None
    min_khz: int | None
    scaling_max_khz: int | None
    online: bool | None


@dataclass(frozen=True)
class ZoneReading:
    """A thermal zone with its raw number, whatever its unit."""

    zone: int
    type: str | None
    milli_c: int | None


@dataclass(frozen=True)
class Denied:
    """A file that is there and could not be read, and why (``EACCES``, …)."""

    path: str
    errno: str


@dataclass(frozen=True)
class ProbeFacts:
    """What the probe knows of a phone.

    Attributes:
        machine: the kernel's name of its instruction set.
        clusters: cores that belong together: same top clock, same part.
        features: as the kernel names them, of the core that answered.
        clocks_readable: at least one core's current clock can be read.
        llc_bytes: caches from level 2 on that one core reaches, of the core that reaches most, see
            ``device_bins/probe/caches.h``; older probes do not tell it.
        denied: files that the phone refused.
        exists: the paths asked about; ``None`` when a folder on the way may not be searched.
        odd: what was of a wrong kind, by field.
    """

    kernel: str | None = None
    machine: str | None = None
    page_size: int | None = None
    boot_id: str | None = None
    uptime_ms: int | None = None
    cores: tuple[Core, ...] = ()
    clusters: tuple[tuple[int, ...], ...] = ()
    features: tuple[str, ...] = ()
    clocks_readable: bool = False
    mem_total_bytes: int | None = None
    mem_available_bytes: int | None = None
    swap_total_bytes: int | None = None
    llc_bytes: int | None = None
    zones: tuple[ZoneReading, ...] = ()
    denied: tuple[Denied, ...] = ()
    exists: Mapping[str, bool | None] = field(default_factory=dict)
    odd: Mapping[str, str] = field(default_factory=dict)


# Every answer of the probe has these, null if need be; what came later is not asked for.
PROBE_FIELDS = (
    "kernel", "machine", "page_size", "boot_id", "uptime_ms", "cores", "clusters", "features", "clocks_readable",
    "mem_total_bytes", "mem_available_bytes", "swap_total_bytes", "zones", "denied", "exists",
)  # fmt: skip


def read_probe_facts(answer: Mapping[str, Any]) -> ProbeFacts:
    """Read the object that ``probe facts`` printed; never raises, whatever is in it."""
    odd: dict[str, str] = {}
    told = _Object(answer, "", odd)
    return ProbeFacts(
        kernel=told.text("kernel"),
        machine=told.text("machine"),
        page_size=told.size("page_size"),
        boot_id=told.text("boot_id"),
        uptime_ms=told.number("uptime_ms"),
        cores=tuple(_core(entry, number) for entry, number in told.numbered("cores", "cpu")),
        clusters=tuple(told.lists_of_numbers("clusters")),
        features=tuple(told.texts("features")),
        clocks_readable=told.boolean("clocks_readable") is True,
        mem_total_bytes=told.size("mem_total_bytes"),
        mem_available_bytes=told.number("mem_available_bytes"),
        swap_total_bytes=told.number("swap_total_bytes"),
        llc_bytes=told.size("llc_bytes"),
        zones=tuple(
            ZoneReading(number, entry.text("type"), entry.number("milli_c"))
            for entry, number in told.numbered("zones", "zone")
        ),
        denied=tuple(
            Denied(path, entry.text("errno") or "") for entry in told.objects("denied") if (path := entry.text("path"))
        ),
        exists=_exists(told.inner("exists")),
        odd=odd,
    )


def _core(entry: _Object, cpu: int) -> Core:
    return Core(
        cpu=cpu,
        implementer=entry.text("implementer"),
        part=entry.text("part"),
        max_khz=entry.size("max_khz"),
        min_khz=entry.size("min_khz"),
        scaling_max_khz=entry.size("scaling_max_khz"),
        online=entry.boolean("online"),
    )


def _exists(asked: _Object) -> dict[str, bool | None]:
    found: dict[str, bool | None] = {}
    for key in asked:
        try:
            path = key.encode("latin-1").decode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            continue  # no path of ours: the probe writes bytes
        found[path] = asked.boolean(key)
    return found


def text(value: object) -> str | None:
    """Return a string of the probe as text; ``None`` for anything else and for an empty one.

    Strings of the probe are bytes in disguise: every control byte and every byte above 0x7e is written as ``\\u00XX``,
    so that nothing is lost.
    """
    if not isinstance(value, str) or not value:
        return None
    try:
        return value.encode("latin-1").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return value.encode("utf-8", "replace").decode("utf-8")


def whole(value: object) -> int | None:
    """Return a whole number; ``None`` for anything else, which true and false are too."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


class _Object:
    """An object of the probe's answer, read with tolerance; what is of a wrong kind is noted in ``odd``."""

    def __init__(self, data: Mapping[str, Any], path: str, odd: dict[str, str]) -> None:
        self._data = data
        self._path = path
        self._odd = odd

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def _complain(self, key: str, value: object, wanted: str) -> None:
        self._odd[f"{self._path}{key}"] = f"the probe tells {repr(value)[:60]}, which is not {wanted}"

    def number(self, key: str) -> int | None:
        value = self._data.get(key)
        if value is not None and whole(value) is None:
            self._complain(key, value, "a whole number")
        return whole(value)

    def size(self, key: str) -> int | None:
        """Return a size or clock: none is 0."""
        number = self.number(key)
        if number is not None and number <= 0:
            self._complain(key, number, "above 0")
            return None
        return number

    def boolean(self, key: str) -> bool | None:
        value = self._data.get(key)
        if value is not None and not isinstance(value, bool):
            self._complain(key, value, "true or false")
            return None
        return value

    def text(self, key: str) -> str | None:
        value = self._data.get(key)
        if value is not None and not isinstance(value, str):
            self._complain(key, value, "a string")
        return text(value)

    def _list(self, key: str) -> Iterator[tuple[str, Any]]:
        value = self._data.get(key)
        if value is not None and not isinstance(value, list):
            self._complain(key, value, "a list")
            return
        for index, entry in enumerate(value or ()):
            yield f"{key}[{index}]", entry

    def texts(self, key: str) -> Iterator[str]:
        for place, entry in self._list(key):
            if known := text(entry):
                yield known
            else:
                self._complain(place, entry, "a string")

    def lists_of_numbers(self, key: str) -> Iterator[tuple[int, ...]]:
        for place, entry in self._list(key):
            if not isinstance(entry, list):
                self._complain(place, entry, "a list of whole numbers")
                continue
            numbers = tuple(number for number in entry if whole(number) is not None)
            if len(numbers) != len(entry):
                self._complain(place, entry, "a list of whole numbers")
            if numbers:
                yield numbers

    def objects(self, key: str) -> Iterator[_Object]:
        for place, entry in self._list(key):
            if isinstance(entry, dict):
                yield _Object(entry, f"{self._path}{place}.", self._odd)
            else:
                self._complain(place, entry, "an object")

    def numbered(self, key: str, name: str) -> Iterator[tuple[_Object, int]]:
        """Yield the objects of a list that have a number of their own."""
        for entry in self.objects(key):
            number = entry.number(name)
            if number is not None:
                yield entry, number

    def inner(self, key: str) -> _Object:
        value = self._data.get(key)
        if value is not None and not isinstance(value, dict):
            self._complain(key, value, "an object")
        return _Object(value if isinstance(value, dict) else {}, f"{self._path}{key}.", self._odd)
