"""One record of facts per phone, put together from captured text. Unknown is ``None`` with its reason in ``nulls``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

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

    def read(field_name: str, key: str) -> Any:
        value = probe.get(key)
        if value is None:
            nulls[field_name] = f"not readable ({_denied(probe, key)})"
        return value

    cores = probe.get("cores") or []
    clocks = [core["max_khz"] for core in cores if core.get("max_khz")]
    if not clocks:
        nulls["cpu_max_khz"] = "no core's clock is readable"
    sdk = prop("sdk", "ro.build.version.sdk")
    abis = prop("abis", "ro.product.cpu.abilist", "ro.product.cpu.abi")
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
        sdk=int(sdk) if sdk is not None and sdk.isdigit() else None,
        abis=tuple(abis.split(",")) if abis else _machine_abis(probe.get("machine")),
        fingerprint=prop("fingerprint", "ro.build.fingerprint"),
        serialno=prop("serialno", "ro.serialno"),
        boot_id=read("boot_id", "boot_id"),
        kernel=read("kernel", "kernel"),
        page_size=read("page_size", "page_size"),
        cores=len(cores),
        clusters=tuple(tuple(cluster) for cluster in probe.get("clusters") or ()),
        core_max_khz={core["cpu"]: core.get("max_khz") for core in cores},
        cpu_max_khz=max(clocks) if clocks else None,
        cpu_features=tuple(probe.get("features") or ()),
        ram_bytes=read("ram_bytes", "mem_total_bytes"),
        available_bytes=read("available_bytes", "mem_available_bytes"),
        opencl=drivers.opencl,
        vulkan=drivers.vulkan,
        python_mnn=python_mnn,
        zones=tuple(Zone(z["zone"], z["type"], z.get("milli_c")) for z in probe.get("zones") or ()),
        nulls=nulls,
    )


def _denied(probe: Mapping[str, Any], key: str) -> str:
    for entry in probe.get("denied") or ():
        if key.split("_")[0] in entry.get("path", ""):
            return f"{entry['path']}: {entry.get('errno')}"
    return "the phone does not tell"


def _machine_abis(machine: str | None) -> tuple[str, ...]:
    known = {"aarch64": "arm64-v8a", "armv8l": "armeabi-v7a", "armv7l": "armeabi-v7a", "x86_64": "x86_64"}
    return (known[machine],) if machine in known else ()


@dataclass(frozen=True)
class DriverListing:
    """Which GPU drivers lie on the phone; see :class:`Facts` for the meaning of ``""`` and ``None``."""

    opencl: str | None
    vulkan: str | None
    nulls: Mapping[str, str] = field(default_factory=dict)


def parse_drivers(stdout: bytes, stderr: bytes) -> DriverListing:
    """Read what ``ls -d`` said of :data:`OPENCL_LIBRARIES` and :data:`VULKAN_DRIVERS`.

    A folder that may not be searched makes the answer unknown, not "no".
    """
    there = stdout.decode("utf-8", "replace").split("\n")
    denied = [line.strip() for line in stderr.decode("utf-8", "replace").split("\n") if "ermission denied" in line]
    opencl = _first(there, OPENCL_LIBRARIES)
    vulkan = next((path for path in there if "vulkan" in path), "")
    nulls: dict[str, str] = {}
    for name, found, folders in (("opencl", opencl, OPENCL_LIBRARIES), ("vulkan", vulkan, VULKAN_DRIVERS)):
        hidden = [line for line in denied if any(folder.split("*")[0] in line for folder in folders)]
        if not found and hidden:
            nulls[name] = hidden[0]
    return DriverListing(None if "opencl" in nulls else opencl, None if "vulkan" in nulls else vulkan, nulls)


def _first(there: Iterable[str], wanted: Sequence[str]) -> str:
    present = set(there)
    return next((path for path in wanted if path in present), "")
