"""Which GPU libraries lie on a phone, and which of them its apps may load. Pure.

A program of the shell's may load any library of the vendor's (since Android 10 by the linker's namespace for
``/data/local/tmp``); an app only those that are listed as public. So one proves nothing of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from posixpath import basename

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
# Lists of libraries that apps may load besides Android's own (AOSP, libnativeloader/public_libraries.cpp).
PUBLIC_LISTS = (
    "/vendor/etc/public.libraries.txt",
    "/system/etc/public.libraries-*.txt",
    "/product/etc/public.libraries-*.txt",
)
# Apps may load any library up to this API level (Android 6).
_LAST_SDK_WITHOUT_LISTS = 23


@dataclass(frozen=True)
class DriverListing:
    """Which GPU drivers lie on the phone: a path, ``""`` for none, ``None`` when it cannot be told."""

    opencl: str | None
    vulkan: str | None
    nulls: Mapping[str, str] = field(default_factory=dict)


def for_bits(pattern: str, bits: int) -> str:
    """Return the place of a library for programs of 64 or 32 bits."""
    return pattern if bits == 64 else pattern.replace("/lib64/", "/lib/")


def parse_drivers(listing: bytes, bits: int = 64) -> DriverListing:
    """Read what ``ls -d`` said of :data:`OPENCL_LIBRARIES` and :data:`VULKAN_DRIVERS`, complaints included.

    A folder that may not be searched makes the answer unknown, not "no"; so does a listing that says nothing of one.
    """
    said = [line.strip() for line in listing.decode("utf-8", "replace").splitlines()]
    nulls: dict[str, str] = {}
    found: dict[str, str | None] = {}
    for name, places in (("opencl", OPENCL_LIBRARIES), ("vulkan", VULKAN_DRIVERS)):
        wanted = [for_bits(place, bits) for place in places]
        found[name] = next((path for pattern in wanted for path in said if fnmatchcase(path, pattern)), "")
        denied = [line for line in said if "ermission denied" in line and _about(line, wanted)]
        silent = [pattern for pattern in wanted if not any(_about(line, (pattern,)) for line in said)]
        if not found[name] and (denied or silent):
            nulls[name] = denied[0] if denied else f"the phone's ls said nothing of {silent[0]}"
            found[name] = None
    return DriverListing(found["opencl"], found["vulkan"], nulls)


def _about(line: str, patterns: Iterable[str]) -> bool:
    return any(pattern.split("*")[0] in line for pattern in patterns)


@dataclass(frozen=True)
class PublicLibraries:
    """Names of the OpenCL libraries that apps may load; ``None`` is unknown, for the reason ``why``."""

    opencl: tuple[str, ...] | None
    why: str = ""


def parse_public_libraries(lists: Mapping[str, bytes | None], sdk: int | None, bits: int = 64) -> PublicLibraries:
    """Read the lists of public libraries.

    Args:
        lists: contents by path; ``None`` for a list that is there and may not be read.
        sdk: the phone's API level.
        bits: of the programs asked about; a line may hold for 32 or 64 only.

    A line is a library's name, perhaps followed by ``32``, ``64`` or ``nopreload``; ``#`` begins a comment.
    """
    names: list[str] = []
    for content in lists.values():
        for line in (content or b"").decode("utf-8", "replace").splitlines():
            words = line.split("#")[0].split()
            if words and {"32", "64"} & set(words[1:]) <= {str(bits)} and _is_opencl(words[0]):
                names.append(words[0])
    if names:
        return PublicLibraries(tuple(dict.fromkeys(names)))
    refused = [path for path, content in lists.items() if content is None]
    if refused:
        return PublicLibraries(None, f"{refused[0]} may not be read")
    if sdk is not None and sdk <= _LAST_SDK_WITHOUT_LISTS:
        return PublicLibraries(None, "before Android 7 no list says what apps may load")
    if PUBLIC_LISTS[0] not in lists:
        return PublicLibraries(None, f"the phone has no {PUBLIC_LISTS[0]}")
    return PublicLibraries(())


def _is_opencl(name: str) -> bool:
    known = {basename(path) for path in OPENCL_LIBRARIES}
    return name in known or name.startswith("libOpenCL")
