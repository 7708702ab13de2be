"""One record of facts per phone, put together from captured text. Unknown is ``None`` with its reason in ``nulls``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeVar

_Value = TypeVar("_Value")

# The ABI whose programs a kernel runs, by its machine name. A 64-bit kernel runs the 64-bit ones, whatever the phone's
# own programs are.
MACHINE_ABIS = {"aarch64": "arm64-v8a", "armv8l": "armeabi-v7a", "armv7l": "armeabi-v7a", "x86_64": "x86_64"}
# Where OpenCL drivers lie and by which names MNN looks for them (MNN, OpenCLWrapper.cpp), on Android and on a PC.
OPENCL_LIBRARIES = (
    "/vendor/lib64/libOpenCL.so",
    "/system/vendor/lib64/libOpenCL.so",
    "/system/lib64/libOpenCL.so",
    "/vendor/lib64/libOpenCL-pixel.so",
    "/vendor/lib64/libPVROCL.so",
    "/vendor/lib64/egl/libGLES_mali.so",
    "/system/vendor/lib64/egl/libGLES_mali.so",
    "/usr/lib/x86_64-linux-gnu/libOpenCL.so.1",
    "/usr/lib/aarch64-linux-gnu/libOpenCL.so.1",
)
# A Vulkan loader is on every phone since Android 7; the driver behind it is what decides.
VULKAN_DRIVERS = (
    "/vendor/lib64/hw/vulkan.*.so",
    "/system/lib64/hw/vulkan.*.so",
    "/usr/share/vulkan/icd.d/*.json",
    "/etc/vulkan/icd.d/*.json",
)


@dataclass(frozen=True)
class Zone:
    """A thermal zone at the time the facts were read."""

    zone: int
    type: str
    milli_c: int | None


@dataclass(frozen=True)
class Facts:
    """What is known of a phone.

    Sizes in bytes, clocks in kHz. ``opencl`` and ``vulkan`` are the driver's path, ``""`` when the phone has none, and
    ``None`` when it cannot be told. ``python_mnn`` is the version of the MNN package for the phone's own Python.
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
    nulls: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for the run folder."""
        return asdict(self)


def build_facts(
    properties: Mapping[str, str], probe: Mapping[str, Any], drivers: DriverListing, python_mnn: str | None
) -> Facts:
    """Put facts together.

    Args:
        properties: from :func:`~harness.phone.getprop.parse_getprop`; empty on a PC.
        probe: the object that ``probe facts`` printed.
        drivers: from :func:`parse_drivers`.
        python_mnn: version, or ``None`` when the phone has no Python with MNN.
    """
    nulls: dict[str, str] = {}

    def prop(field_name: str, *keys: str) -> str | None:
        for key in keys:
            if properties.get(key, "").strip():
                return properties[key].strip()
        nulls[field_name] = f"the phone has no property {keys[0]}"
        return None

    def read(field_name: str, key: str, convert: Callable[[object], _Value | None]) -> _Value | None:
        value = convert(probe.get(key))
        if value is None:
            nulls[field_name] = f"not readable ({_denied(probe, key)})"
        return value

    cores = [core for core in _objects(probe, "cores") if whole(core.get("cpu")) is not None]
    core_max_khz = {core["cpu"]: whole(core.get("max_khz")) or None for core in cores}
    clocks = [khz for khz in core_max_khz.values() if khz]
    if not clocks:
        nulls["cpu_max_khz"] = "no core's clock is readable"
    sdk = prop("sdk", "ro.build.version.sdk")
    if sdk is not None and not (sdk.isascii() and sdk.isdigit()):
        nulls["sdk"] = f"ro.build.version.sdk is {sdk[:40]!r}, no number"
        sdk = None
    abis = prop("abis", "ro.product.cpu.abilist", "ro.product.cpu.abi")
    known_abis = tuple(part.strip() for part in abis.split(",") if part.strip()) if abis else _machine_abis(probe)
    if known_abis:
        nulls.pop("abis", None)
    if python_mnn is None:
        nulls["python_mnn"] = "the phone has no Python with the MNN package"
    nulls.update(drivers.nulls)
    return Facts(
        model=prop("model", "ro.product.model"),
        manufacturer=prop("manufacturer", "ro.product.manufacturer"),
        # ro.soc.* exist from Android 12 only
        soc=prop("soc", "ro.soc.model", "ro.hardware.chipname", "ro.board.platform"),
        platform=prop("platform", "ro.board.platform"),
        android_release=prop("android_release", "ro.build.version.release"),
        sdk=None if sdk is None else int(sdk[:9]),
        abis=known_abis,
        fingerprint=prop("fingerprint", "ro.build.fingerprint"),
        serialno=prop("serialno", "ro.serialno"),
        boot_id=read("boot_id", "boot_id", text),
        kernel=read("kernel", "kernel", text),
        page_size=read("page_size", "page_size", _size),
        cores=len(cores),
        clusters=tuple(
            tuple(cpu for cpu in cluster if whole(cpu) is not None)
            for cluster in _list(probe, "clusters")
            if isinstance(cluster, list)
        ),
        core_max_khz=core_max_khz,
        cpu_max_khz=max(clocks) if clocks else None,
        cpu_features=tuple(name for name in map(text, _list(probe, "features")) if name),
        ram_bytes=read("ram_bytes", "mem_total_bytes", _size),
        available_bytes=read("available_bytes", "mem_available_bytes", whole),
        opencl=drivers.opencl,
        vulkan=drivers.vulkan,
        python_mnn=python_mnn,
        zones=read_zones(probe),
        nulls=nulls,
    )


def read_zones(probe: Mapping[str, Any]) -> tuple[Zone, ...]:
    """Return the thermal zones of ``probe facts``; a zone whose name may not be read has the name ``""``."""
    return tuple(
        Zone(zone["zone"], text(zone.get("type")) or "", whole(zone.get("milli_c")))
        for zone in _objects(probe, "zones")
        if whole(zone.get("zone")) is not None
    )


# Which file of the phone a fact of the probe comes from, as far as one file may be denied.
_SOURCES = {"boot_id": "random/boot_id", "mem_total_bytes": "meminfo", "mem_available_bytes": "meminfo"}


def _denied(probe: Mapping[str, Any], key: str) -> str:
    for entry in _objects(probe, "denied"):
        path = text(entry.get("path"))
        if path and key in _SOURCES and path.endswith(_SOURCES[key]):
            return f"{path}: {text(entry.get('errno'))}"
    return "the phone does not tell"


def text(value: object) -> str | None:
    """Return a string of the probe (bytes in disguise, see ``probe_fields``) as text; ``None`` for anything else."""
    if not isinstance(value, str) or not value:
        return None
    try:
        return value.encode("latin-1").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return value.encode("utf-8", "replace").decode("utf-8")


def whole(value: object) -> int | None:
    """Return a whole number; ``None`` for anything else, which true and false are too."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _size(value: object) -> int | None:
    """Return a size in bytes: no phone has none."""
    number = whole(value)
    return number if number is not None and number > 0 else None


def _list(probe: Mapping[str, Any], key: str) -> list[Any]:
    value = probe.get(key)
    return value if isinstance(value, list) else []


def _objects(probe: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    return [entry for entry in _list(probe, key) if isinstance(entry, dict)]


def _machine_abis(probe: Mapping[str, Any]) -> tuple[str, ...]:
    machine = text(probe.get("machine"))
    return (MACHINE_ABIS[machine],) if machine in MACHINE_ABIS else ()


@dataclass(frozen=True)
class DriverListing:
    """Which GPU drivers lie on the phone; see :class:`Facts` for the meaning of ``""`` and ``None``."""

    opencl: str | None
    vulkan: str | None
    nulls: Mapping[str, str] = field(default_factory=dict)


def parse_drivers(stdout: bytes, stderr: bytes) -> DriverListing:
    """Read what ``ls -d`` said of :data:`OPENCL_LIBRARIES` and :data:`VULKAN_DRIVERS`.

    A folder that may not be searched makes the answer unknown, not "no"; so does a listing that says nothing of one.
    """
    there = stdout.decode("utf-8", "replace").splitlines()
    said = stderr.decode("utf-8", "replace").splitlines()
    nulls: dict[str, str] = {}
    found: dict[str, str | None] = {}
    for name, wanted in (("opencl", OPENCL_LIBRARIES), ("vulkan", VULKAN_DRIVERS)):
        found[name] = next((path for pattern in wanted for path in there if fnmatchcase(path, pattern)), "")
        denied = [line.strip() for line in said if "ermission denied" in line and _about(line, wanted)]
        silent = [pattern for pattern in wanted if not any(_about(line, (pattern,)) for line in said)]
        if not found[name] and (denied or silent):
            nulls[name] = denied[0] if denied else f"the phone's ls said nothing of {silent[0]}"
            found[name] = None
    return DriverListing(found["opencl"], found["vulkan"], nulls)


def _about(line: str, patterns: Iterable[str]) -> bool:
    return any(pattern.split("*")[0] in line for pattern in patterns)
