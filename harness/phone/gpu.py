"""A phone's GPU: its name and its driver, from what an ordinary user may ask. Pure.

Sources, best first: the line ``GLES:`` of ``dumpsys SurfaceFlinger`` (name and driver version), Qualcomm's
``gpu_model`` and Arm's ``gpuinfo`` in sysfs (name), properties (the family only).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

KGSL_MODEL = "/sys/class/kgsl/kgsl-3d0/gpu_model"
MALI_INFO = "/sys/class/misc/mali0/device/gpuinfo"

# Vendor and renderer may hold commas themselves ("Co., Ltd."); the version begins with the API's name.
_GLES = re.compile(r"^[ \t]*GLES: (?P<names>.+?)(?:, OpenGL ES(?P<version>(?:(?!, OpenGL ES).)*))?$", re.MULTILINE)
_COMPANY = re.compile(r"(?P<vendor>.+?(?:, (?:Ltd|Inc|LLC|Corp)\b\.?)*), (?P<renderer>.+)")
_API = re.compile(r"^(?:-C[LM])?\s*(?P<api>\d+\.\d+)\s*(?P<driver>.*)$")
_KGSL = re.compile(r"^Adreno\s*(?P<number>\d{3,4}[A-Z]?)(?P<revision>v\d+)?$", re.IGNORECASE)
_MALI = re.compile(r"^(?P<name>\S+)\s+\d+ cores? ")
# OpenGL on top of Vulkan: the GPU stands in brackets, alone, as "vendor, renderer, driver", or with its number.
_ANGLE = re.compile(r"^ANGLE \((?P<inner>.+)\)(?: on .+)?$")
_ANGLE_ON_VULKAN = re.compile(r"Vulkan [\d.]+ \((?P<name>.+?) \(0x[0-9A-Fa-f]+\)\)")
# Renderers that compute on the CPU.
_SOFTWARE = re.compile(r"swiftshader|llvmpipe|softpipe|android emulator", re.IGNORECASE)
_FAMILIES = {"adreno": "Adreno", "mali": "Mali", "powervr": "PowerVR", "angle": "ANGLE", "swiftshader": "SwiftShader"}
_MAKERS = {"adreno": "Qualcomm", "xclipse": "Samsung", "maleoon": "HiSilicon"}
_WITHOUT = {"Qualcomm": "mali|immortalis|xclipse|powervr|maleoon"}
_MAX_LENGTH = 160


@dataclass(frozen=True)
class Gles:
    """The line ``GLES:`` taken apart; ``driver`` is ``None`` when the version names none."""

    vendor: str
    renderer: str
    version: str | None
    driver: str | None


@dataclass(frozen=True)
class Gpu:
    """Name and driver version; ``gles`` is the whole version that SurfaceFlinger prints. ``None``: see ``nulls``."""

    name: str | None
    driver: str | None
    gles: str | None
    software: bool = False
    nulls: Mapping[str, str] = field(default_factory=dict)


def parse_gles(dump: bytes) -> Gles | None:
    """Return what ``dumpsys SurfaceFlinger`` says of the GPU; ``None`` when it has no such line.

    A heading before it holds the word GLES as well; with Vulkan as its renderer there is no line.
    """
    match = _GLES.search(dump.decode("utf-8", "replace").replace("\r", ""))
    if match is None:
        return None
    names = _COMPANY.fullmatch(match["names"].strip())
    if names is None:
        return None
    version = match["version"]
    if version is None:
        return Gles(names["vendor"], _short(names["renderer"]), None, None)
    told = _API.match(version.strip())
    driver = told["driver"].strip() if told else version.strip()
    # Build ids and dates follow in brackets; where nothing else is told they are the version.
    short = driver.split(" (")[0].strip()
    return Gles(names["vendor"], _short(names["renderer"]), f"OpenGL ES{_short(version)}", _short(short) or None)


def parse_kgsl_model(content: bytes) -> str | None:
    """Return the name in Qualcomm's ``gpu_model`` as SurfaceFlinger spells it (``Adreno (TM) 630``)."""
    word = _line(content)
    match = _KGSL.match(word)
    return f"Adreno (TM) {match['number']}" if match else word or None


def parse_mali_info(content: bytes) -> str | None:
    """Return the name in Arm's ``gpuinfo`` (``Mali-G78 14 cores r0p1 0x…``)."""
    word = _line(content)
    match = _MALI.match(word)
    return match["name"] if match else word or None


def gpu_of(
    surface_flinger: bytes, kgsl_model: bytes | None, mali_info: bytes | None, properties: Mapping[str, str], why: str
) -> Gpu:
    """Put together what is known of the GPU.

    Args:
        surface_flinger: the dump, or the lines of it that hold ``GLES`` or ``RE Vulkan``; empty when there is none.
        kgsl_model: content of :data:`KGSL_MODEL`, ``None`` if it cannot be read.
        mali_info: content of :data:`MALI_INFO`, likewise.
        properties: of the phone.
        why: why there is no dump, if there is none.
    """
    nulls: dict[str, str] = {}
    gles = parse_gles(surface_flinger)
    if gles is None:
        reason = why or _silence(surface_flinger)
        nulls["gles"] = nulls["driver"] = reason
    elif gles.driver is None:
        nulls["driver"] = f"the GPU's version names no driver: {gles.version or 'there is none'}"
        if gles.version is None:
            nulls["gles"] = "SurfaceFlinger tells no version"
    name = (
        (_real_name(gles.renderer) if gles else None)
        or (parse_kgsl_model(kgsl_model) if kgsl_model else None)
        or (parse_mali_info(mali_info) if mali_info else None)
        or _family(properties)
    )
    if name is None:
        nulls["gpu"] = f"{nulls['gles']}; neither {KGSL_MODEL} nor {MALI_INFO} can be read"
    return Gpu(
        name,
        gles.driver if gles else None,
        gles.version if gles else None,
        software=bool(name and _SOFTWARE.search(name)),
        nulls=nulls,
    )


def gpu_contradicts(name: str, vendor: str) -> bool:
    """Return whether a GPU of this name cannot be in a chip of ``vendor``: Adreno is in Qualcomm's only, and so on."""
    lower = name.lower()
    maker = next((maker for family, maker in _MAKERS.items() if family in lower), None)
    if maker is not None:
        return maker != vendor
    return vendor in _WITHOUT and re.search(_WITHOUT[vendor], lower) is not None


def _real_name(renderer: str) -> str:
    """Return the GPU's own name, not that of what runs on it."""
    angle = _ANGLE.match(renderer)
    if angle is None:
        return renderer
    vulkan = _ANGLE_ON_VULKAN.search(angle["inner"])
    parts = angle["inner"].split(", ")
    return vulkan["name"] if vulkan else parts[1] if len(parts) > 2 else angle["inner"]


def _silence(dump: bytes) -> str:
    if b"RE Vulkan" in dump:
        return "SurfaceFlinger draws with Vulkan and names no OpenGL driver"
    said = _line(dump)
    return f"dumpsys SurfaceFlinger has no GLES line{f': {said}' if said else ''}"


def _family(properties: Mapping[str, str]) -> str | None:
    for key in ("ro.hardware.egl", "ro.hardware.vulkan"):
        family = properties.get(key, "").strip()
        if family:
            return f"{_FAMILIES.get(family.lower(), family)} (model unknown)"
    return None


def _line(content: bytes) -> str:
    text = content.decode("utf-8", "replace").strip()
    return _short(text.splitlines()[0].strip()) if text else ""


def _short(text: str) -> str:
    return text.rstrip()[:_MAX_LENGTH]
