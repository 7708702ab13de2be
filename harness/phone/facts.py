"""One record of facts per phone, put together from captured text. Unknown is ``None`` with its reason in ``nulls``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from harness.phone.battery import Battery
from harness.phone.cpu import Cluster, clusters_of, implementers_of, instructions_of
from harness.phone.drivers import DriverListing, PublicLibraries
from harness.phone.gpu import Gpu, gpu_contradicts
from harness.phone.probed import ProbeFacts
from harness.phone.soc import find_soc
from harness.phone.storage import Storage
from harness.phone.thermal import Meaning, celsius, meaning_of
from harness.phone.thermalservice import ThermalService

_Value = TypeVar("_Value")

# The ABI whose programs a kernel runs, by its machine name. A 64-bit kernel runs the 64-bit ones, whatever the phone's
# own programs are.
MACHINE_ABIS = {"aarch64": "arm64-v8a", "armv8l": "armeabi-v7a", "armv7l": "armeabi-v7a", "x86_64": "x86_64"}
NOT_ASKED = "not asked"


@dataclass(frozen=True)
class Zone:
    """A thermal zone at the time the facts were read.

    ``milli_c`` is the kernel's number as it is, whatever its unit; ``celsius`` is the temperature, ``None`` when the
    zone has none.
    """

    zone: int
    type: str
    milli_c: int | None
    meaning: Meaning = "other"
    celsius: float | None = None


@dataclass(frozen=True)
class Facts:
    """What is known of a phone.

    Sizes in bytes, clocks in kHz.

    Attributes:
        soc: the chip's model as the phone spells it.
        soc_vendor: who makes it.
        soc_name: the name it is sold by (``profiles/soc.csv``).
        cpu_clusters: :attr:`clusters` with the cores' names and top clocks.
        cpu_features: as the kernel spells them.
        instructions: those of :data:`~harness.phone.cpu.VOCABULARY` that the kernel offers.
        gpu: name as its driver spells it.
        driver: version of the GPU's driver.
        llc_bytes: caches from level 2 on that one core reaches, of the core that reaches most. The chip's system cache,
            which the kernel does not tell, is not in it.
        gles: version of OpenGL ES, with the driver's build.
        updatable_driver: package of a GPU driver that apps may use instead of the vendor's.
        opencl: the driver's path, ``""`` when the phone has none, and ``None`` when it cannot be told.
        vulkan: likewise.
        opencl_public: names of the OpenCL libraries that apps may load.
        media_performance_class: Android's, an API level (``Build.VERSION.MEDIA_PERFORMANCE_CLASS`` for apps); phones
            declare one from Android 12 on, and many none.
        python_mnn: version of the MNN package for the phone's own Python.
        storage_total_bytes: of the file system that holds our folder (``/data``).
        thermal: what the thermal service says.
        notes: contradictions between what the phone says here and there.
    """

    model: str | None
    manufacturer: str | None
    soc: str | None
    platform: str | None
    android_release: str | None
    sdk: int | None
    abis: tuple[str, ...]
    fingerprint: str | None
    serialno: str | None
    boot_id: str | None
    kernel: str | None
    page_size: int | None
    cores: int
    clusters: tuple[tuple[int, ...], ...]
    core_max_khz: Mapping[int, int | None]
    cpu_max_khz: int | None
    cpu_features: tuple[str, ...]
    ram_bytes: int | None
    available_bytes: int | None
    opencl: str | None
    vulkan: str | None
    python_mnn: str | None
    zones: tuple[Zone, ...]
    soc_vendor: str | None = None
    soc_name: str | None = None
    security_patch: str | None = None
    build_type: str | None = None
    cpu_clusters: tuple[Cluster, ...] = ()
    instructions: tuple[str, ...] | None = None
    gpu: str | None = None
    driver: str | None = None
    gles: str | None = None
    llc_bytes: int | None = None
    updatable_driver: str | None = None
    opencl_public: tuple[str, ...] | None = None
    media_performance_class: int | None = None
    storage_total_bytes: int | None = None
    storage_free_bytes: int | None = None
    battery: Battery | None = None
    thermal: ThermalService | None = None
    notes: tuple[str, ...] = ()
    nulls: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for the run folder."""
        return asdict(self)


@dataclass(frozen=True)
class Told:
    """What was read from a phone, each source by its own parser; ``whys`` has the reason of each that is ``None``.

    Attributes:
        properties: from :func:`~harness.phone.getprop.parse_getprop`; empty on a PC.
        probe: what ``probe facts`` printed.
        drivers: from :func:`~harness.phone.drivers.parse_drivers`.
        python_mnn: version, or ``None`` when the phone has no Python with MNN.
        kernel_soc: what the kernel says of the chip, by :data:`~harness.phone.soc.SOC_ID` and
            :data:`~harness.phone.soc.CPU_HARDWARE`.
    """

    properties: Mapping[str, str]
    probe: ProbeFacts
    drivers: DriverListing
    python_mnn: str | None = None
    kernel_soc: Mapping[str, str] = field(default_factory=dict)
    gpu: Gpu = field(
        default_factory=lambda: Gpu(None, None, None, nulls=dict.fromkeys(("gpu", "driver", "gles"), NOT_ASKED))
    )
    public_libraries: PublicLibraries = field(default_factory=lambda: PublicLibraries(None, NOT_ASKED))
    storage: Storage = field(default_factory=lambda: Storage(None, None, NOT_ASKED))
    battery: Battery | None = None
    thermal: ThermalService | None = None
    whys: Mapping[str, str] = field(default_factory=dict)


def build_facts(told: Told) -> Facts:
    """Put facts together; never raises, whatever the phone told."""
    probe, nulls = told.probe, dict[str, str]()
    properties = _Properties(told.properties, nulls)
    instructions = instructions_of(probe.features) if probe.features else None
    if instructions is None:
        nulls["instructions"] = probe.odd.get("features", "the kernel tells no features")
    clusters, nameless = clusters_of(probe)
    if nameless:
        nulls["cpu_clusters"] = nameless
    clocks = [core.max_khz for core in probe.cores if core.max_khz]
    if not clocks:
        nulls["cpu_max_khz"] = "no core's clock is readable"
    core_names = {cluster.core for cluster in clusters if cluster.core}
    soc = find_soc(told.properties, told.kernel_soc, core_names, implementers_of(probe))
    if soc.vendor is None:
        nulls["soc_vendor"] = soc.why or "the phone tells no chip that profiles/soc.csv knows"
    if soc.name is None:
        nulls["soc_name"] = soc.why
    zones = read_zones(probe)
    nulls.update(_missing_sources(told))
    nulls.update(_missing_sensors(probe, zones))
    return Facts(
        # the plain names are put together from these, on every phone but one that is half built
        model=properties.text("model", "ro.product.model", "ro.product.vendor.model", "ro.product.system.model"),
        manufacturer=properties.text(
            "manufacturer",
            "ro.product.manufacturer",
            "ro.product.vendor.manufacturer",
            "ro.product.system.manufacturer",
        ),
        # ro.soc.* exist from Android 12 only
        soc=properties.text("soc", "ro.soc.model", "ro.hardware.chipname", "ro.board.platform"),
        platform=properties.text("platform", "ro.board.platform"),
        android_release=properties.text("android_release", "ro.build.version.release"),
        sdk=sdk_of(told.properties, nulls),
        abis=abis_of(told.properties, probe, nulls),
        fingerprint=properties.text("fingerprint", "ro.build.fingerprint"),
        serialno=properties.text("serialno", "ro.serialno"),
        boot_id=_read(probe, nulls, "boot_id", "boot_id", probe.boot_id),
        kernel=_read(probe, nulls, "kernel", "kernel", probe.kernel),
        page_size=_read(probe, nulls, "page_size", "page_size", probe.page_size),
        cores=len(probe.cores),
        clusters=probe.clusters,
        core_max_khz={core.cpu: core.max_khz for core in probe.cores},
        cpu_max_khz=max(clocks) if clocks else None,
        cpu_features=probe.features,
        ram_bytes=_read(probe, nulls, "ram_bytes", "mem_total_bytes", probe.mem_total_bytes),
        available_bytes=_read(probe, nulls, "available_bytes", "mem_available_bytes", probe.mem_available_bytes),
        opencl=told.drivers.opencl,
        vulkan=told.drivers.vulkan,
        python_mnn=told.python_mnn,
        zones=zones,
        soc_vendor=soc.vendor,
        soc_name=soc.name,
        security_patch=properties.text("security_patch", "ro.build.version.security_patch"),
        build_type=properties.text("build_type", "ro.build.type"),
        cpu_clusters=clusters,
        instructions=instructions,
        gpu=told.gpu.name,
        driver=told.gpu.driver,
        llc_bytes=probe.llc_bytes,
        gles=told.gpu.gles,
        updatable_driver=properties.text("updatable_driver", "ro.gfx.driver.0", "ro.gfx.driver.1"),
        opencl_public=told.public_libraries.opencl,
        media_performance_class=_performance_class(told.properties, nulls),
        storage_total_bytes=told.storage.total_bytes,
        storage_free_bytes=told.storage.free_bytes,
        battery=told.battery,
        thermal=told.thermal,
        notes=(*soc.notes, *_gpu_notes(told.gpu, soc.vendor)),
        nulls=nulls,
    )


def _missing_sources(told: Told) -> dict[str, str]:
    """Return why facts are missing whose source as a whole gave nothing."""
    nulls: dict[str, str] = {}
    if told.python_mnn is None:
        said = told.whys.get("python_mnn")
        nulls["python_mnn"] = f"the phone has no Python with the MNN package{f' ({said})' if said else ''}"
    if told.public_libraries.opencl is None:
        nulls["opencl_public"] = told.public_libraries.why
    if told.storage.why:
        nulls["storage_total_bytes"] = nulls["storage_free_bytes"] = told.storage.why
    for name, record in (("battery", told.battery), ("thermal", told.thermal)):
        if record is None:
            nulls[name] = told.whys.get(name, NOT_ASKED)
    return {**nulls, **told.gpu.nulls, **told.drivers.nulls}


def _missing_sensors(probe: ProbeFacts, zones: Sequence[Zone]) -> dict[str, str]:
    """Return why zones, cores and caches tell nothing, single ones by ``zones[NUMBER]``, ``core_max_khz[NUMBER]``."""
    nulls: dict[str, str] = {}
    for zone in zones:
        if zone.celsius is not None:
            continue
        if zone.milli_c is None:
            nulls[f"zones[{zone.zone}]"] = (
                _denied(probe, f"thermal_zone{zone.zone}/temp") or "its sensor does not answer"
            )
        else:
            name = zone.type or "a zone without a readable name"
            nulls[f"zones[{zone.zone}]"] = f"{name} says {zone.milli_c}, which is no temperature"
    for core in probe.cores:
        if core.max_khz is None:
            why = _denied(probe, f"cpu{core.cpu}/cpufreq/cpuinfo_max_freq")
            off = "the core is off" if core.online is False else "the kernel does not tell it"
            nulls[f"core_max_khz[{core.cpu}]"] = why or off
    if probe.llc_bytes is None:
        nulls["llc_bytes"] = (
            next((f"{file.path}: {file.errno}" for file in probe.denied if "/cache" in file.path), "")
            or probe.odd.get("llc_bytes")
            or "the kernel does not tell all sizes of its caches"
        )
    if not zones:
        nulls["zones"] = _denied(probe, "class/thermal") or "the kernel shows no thermal zones"
    if not probe.cores:
        nulls["cores"] = _denied(probe, "system/cpu/present") or "the kernel shows no cores"
    return nulls


def _denied(probe: ProbeFacts, path: str) -> str:
    """Return the refusal of a file whose path ends so, empty if it was not refused."""
    return next((f"{file.path}: {file.errno}" for file in probe.denied if file.path.endswith(path)), "")


def read_zones(probe: ProbeFacts) -> tuple[Zone, ...]:
    """Return the thermal zones of ``probe facts``; a zone whose name may not be read has the name ``""``."""
    return tuple(
        Zone(
            zone.zone,
            zone.type or "",
            zone.milli_c,
            meaning_of(zone.type or ""),
            celsius(zone.type or "", zone.milli_c),
        )
        for zone in probe.zones
    )


def sdk_of(properties: Mapping[str, str], nulls: dict[str, str] | None = None) -> int | None:
    """Return the API level; the reason of ``None`` goes into ``nulls``."""
    known = _Properties(properties, {} if nulls is None else nulls)
    return known.whole_number("sdk", "ro.build.version.sdk")


def _performance_class(properties: Mapping[str, str], nulls: dict[str, str]) -> int | None:
    """Return the media performance class; 0 is Android's word for "none declared" (AOSP, android/os/Build.java)."""
    key = "ro.odm.build.media_performance_class"
    declared = _Properties(properties, nulls).whole_number("media_performance_class", key)
    if declared == 0:
        nulls["media_performance_class"] = "the phone declares none"
        return None
    return declared


def abis_of(properties: Mapping[str, str], probe: ProbeFacts, nulls: dict[str, str] | None = None) -> tuple[str, ...]:
    """Return the instruction sets the phone runs, best first; the reason of none goes into ``nulls``."""
    known = _Properties(properties, {} if nulls is None else nulls)
    word = known.text("abis", "ro.product.cpu.abilist", "ro.vendor.product.cpu.abilist")
    if word is None:  # before Android 5: two properties for two ABIs
        word = ",".join(properties.get(key, "") for key in ("ro.product.cpu.abi", "ro.product.cpu.abi2"))
    abis = tuple(part.strip() for part in word.split(",") if part.strip())
    if not abis and probe.machine in MACHINE_ABIS:
        abis = (MACHINE_ABIS[probe.machine],)
    if abis:
        known.nulls.pop("abis", None)
    return abis


class _Properties:
    """Properties with the reasons of those that are missing."""

    def __init__(self, values: Mapping[str, str], nulls: dict[str, str]) -> None:
        self._values = values
        self.nulls = nulls

    def text(self, name: str, *keys: str) -> str | None:
        for key in keys:
            value = self._values.get(key, "").strip()
            if value:
                return value
        self.nulls[name] = f"the phone has no property {keys[0]}"
        return None

    def whole_number(self, name: str, key: str) -> int | None:
        word = self.text(name, key)
        if word is not None and not re.fullmatch(r"[0-9]{1,9}", word):
            self.nulls[name] = f"{key} is {word[:40]!r}, no number"
            return None
        return None if word is None else int(word)


# Which file of the phone a fact of the probe comes from, as far as one file may be denied.
_SOURCES = {"boot_id": "random/boot_id", "mem_total_bytes": "meminfo", "mem_available_bytes": "meminfo"}


def _read(probe: ProbeFacts, nulls: dict[str, str], name: str, key: str, value: _Value | None) -> _Value | None:
    """Return ``value``; if it is ``None``, say why."""
    if value is None:
        denied = _denied(probe, _SOURCES[key]) if key in _SOURCES else ""
        why = denied or probe.odd.get(key, "the phone does not tell")
        nulls[name] = f"not readable ({why})"
    return value


def _gpu_notes(gpu: Gpu, vendor: str | None) -> tuple[str, ...]:
    notes = []
    if gpu.software:
        notes.append(f"{gpu.name} computes on the CPU: the phone uses no GPU")
    if gpu.name is not None and vendor is not None and gpu_contradicts(gpu.name, vendor):
        notes.append(f"the GPU is {gpu.name}, which no {vendor} chip has")
    return tuple(notes)
