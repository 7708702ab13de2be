"""What ``probe facts`` prints, as values. Pure. Unknown is ``None``; ``denied`` says why where the phone refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.payload.probe_events import Denied, read_denied
from harness.payload.probe_fields import Fields, load_line


@dataclass(frozen=True)
class Core:
    """A core. ``implementer`` and ``part`` as /proc/cpuinfo spells them (``0x41``, ``0xd05``)."""

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
class ProbeFacts:
    """What the probe knows of a phone.

    Attributes:
        clusters: cores that belong together: same top clock, same part.
        clocks_readable: at least one core's current clock can be read.
        exists: the paths asked about; ``None`` when a folder on the way may not be searched.
    """

    kernel: str | None
    machine: str | None
    page_size: int
    boot_id: str | None
    uptime_ms: int
    cores: tuple[Core, ...]
    clusters: tuple[tuple[int, ...], ...]
    features: tuple[str, ...]
    clocks_readable: bool
    mem_total_bytes: int | None
    mem_available_bytes: int | None
    swap_total_bytes: int | None
    zones: tuple[ZoneReading, ...]
    denied: tuple[Denied, ...]
    exists: Mapping[str, bool | None]


def _core(fields: Fields) -> Core:
    return Core(
        cpu=fields.integer("cpu"),
        implementer=fields.maybe_text("implementer"),
        part=fields.maybe_text("part"),
        max_khz=fields.maybe_integer("max_khz"),
        min_khz=fields.maybe_integer("min_khz"),
        scaling_max_khz=fields.maybe_integer("scaling_max_khz"),
        online=fields.maybe_bool("online"),
    )


def _zone(fields: Fields) -> ZoneReading:
    return ZoneReading(fields.integer("zone"), fields.maybe_text("type"), fields.maybe_integer("milli_c"))


def parse_facts(text: bytes) -> ProbeFacts:
    """Read the one line of ``probe facts``.

    Raises:
        ValueError: it is none; the sentence says why.
    """
    fields = load_line(text, "the answer of probe facts")
    clusters = Fields({str(i): cluster for i, cluster in enumerate(fields.array("clusters"))}, "'clusters'")
    return ProbeFacts(
        kernel=fields.maybe_text("kernel"),
        machine=fields.maybe_text("machine"),
        page_size=fields.integer("page_size"),
        boot_id=fields.maybe_text("boot_id"),
        uptime_ms=fields.integer("uptime_ms"),
        cores=tuple(_core(core) for core in fields.objects("cores")),
        clusters=tuple(clusters.whole(key) for key in clusters),
        features=fields.texts("features"),
        clocks_readable=fields.maybe_bool("clocks_readable") is True,
        mem_total_bytes=fields.maybe_integer("mem_total_bytes"),
        mem_available_bytes=fields.maybe_integer("mem_available_bytes"),
        swap_total_bytes=fields.maybe_integer("swap_total_bytes"),
        zones=tuple(_zone(zone) for zone in fields.objects("zones")),
        denied=read_denied(fields),
        exists=_exists(fields.inner("exists")),
    )


def _exists(fields: Fields) -> dict[str, bool | None]:
    return {key.encode("latin-1").decode("utf-8", "surrogateescape"): fields.maybe_bool(key) for key in fields}
