"""Which libraries a program finds on a phone or on a PC, and where those come from that have to be in the bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from harness.payload.elf import ElfFile

Platform = Literal["android", "linux"]

#: The libraries that every Android has from an API level on, by the NDK's own ``meta/system_libs.json`` (r24; what it
#: gives as its oldest level is 1 here). ``libc++_shared.so`` is not among them, nor is the GPU vendor's libOpenCL.so.
ANDROID_LIBRARIES = {
    "libEGL.so": 1,
    "libGLESv1_CM.so": 1,
    "libGLESv2.so": 1,
    "libGLESv3.so": 18,
    "libOpenMAXAL.so": 1,
    "libOpenSLES.so": 1,
    "libaaudio.so": 26,
    "libamidi.so": 29,
    "libandroid.so": 1,
    "libbinder_ndk.so": 29,
    "libc.so": 1,
    "libcamera2ndk.so": 24,
    "libdl.so": 1,
    "libicu.so": 31,
    "libjnigraphics.so": 1,
    "liblog.so": 1,
    "libm.so": 1,
    "libmediandk.so": 21,
    "libnativehelper.so": 31,
    "libnativewindow.so": 26,
    "libneuralnetworks.so": 27,
    "libstdc++.so": 1,
    "libsync.so": 26,
    "libvulkan.so": 24,
    "libz.so": 1,
}
#: Libraries of a phone's maker: what the shell may load differs from phone to phone.
VENDOR_LIBRARIES = frozenset({
    "libOpenCL.so",
    "libGLES_mali.so",
    "libPVROCL.so",
    "libcdsprpc.so",
    "libadsprpc.so",
    "libneuron_adapter.so",
    "libneuronusdk_adapter.mtk.so",
})  # fmt: skip
#: Libraries of a Linux with glibc and GCC's C++.
_GLIBC = frozenset({
    "libanl.so.1",
    "libatomic.so.1",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libgomp.so.1",
    "libm.so.6",
    "libmvec.so.1",
    "libpthread.so.0",
    "libresolv.so.2",
    "librt.so.1",
    "libstdc++.so.6",
    "libutil.so.1",
})  # fmt: skip
_ANDROID_LINKERS = frozenset(
    f"{folder}/{linker}"
    for folder in ("/system/bin", "/system/bin/bootstrap", "/apex/com.android.runtime/bin")
    for linker in ("linker", "linker64", "linker_asan", "linker_asan64")
)
#: The NDK's name of a target, and its compiler's name of the architecture.
_TRIPLES = {
    "arm64-v8a": ("aarch64-linux-android", "aarch64"),
    "armeabi-v7a": ("arm-linux-androideabi", "arm"),
    "x86_64": ("x86_64-linux-android", "x86_64"),
    "x86": ("i686-linux-android", "i386"),
    "riscv64": ("riscv64-linux-android", "riscv64"),
}
#: How to get a library, by how its name begins; the first that fits counts.
_OF_MNN = ("libMNN", "libllm")
_ANYWHERE = (
    *((start, "add {name} of the same MNN build for {abi}") for start in _OF_MNN),
    ("libQnn", "add {name} for {abi} from Qualcomm's QNN SDK"),
    ("libhiai", "add {name} for {abi} from Huawei's HiAI DDK"),
)
_NDK = "toolchains/llvm/prebuilt/*"
_ON_ANDROID = (
    (
        "libc++_shared.so",
        "add {name} for {abi} from the NDK it was built with "
        f"({_NDK}/sysroot/usr/lib/{{triple}}/libc++_shared.so), or build with -DANDROID_STL=c++_static",
    ),
    (
        "libomp.so",
        "add {name} for {abi} from the NDK it was built with "
        f"({_NDK}/lib/clang/*/lib/linux/{{arch}}/libomp.so), or build with -DMNN_OPENMP=OFF",
    ),
    (
        "libclang_rt.",
        f"add {{name}} from the NDK it was built with ({_NDK}/lib/clang/*/lib/linux), or build without the sanitizer",
    ),
    ("libOpenCL.so", "build MNN with -DMNN_USE_SYSTEM_LIB=OFF: it then looks for the phone's OpenCL when it runs"),
    *((name, "build it so that it opens {name} when it runs, if there is one") for name in sorted(VENDOR_LIBRARIES)),
    *((name, "build it with the NDK: {name} is a library of Linux") for name in sorted(_GLIBC)),
    ("ld-linux", "build it with the NDK: {name} is a library of Linux"),
    ("", "add {name} for {abi}"),
)
_ON_LINUX = (("", "add {name} for {abi}, or build without it"),)


@dataclass(frozen=True)
class Missing:
    """A library that is needed and nowhere.

    Attributes:
        name: as the files ask for it.
        needed_by: those files.
        fix: how to get it.
        of_vendor: who made the phone, or set up the PC, may have put it there.
    """

    name: str
    needed_by: tuple[str, ...]
    fix: str
    of_vendor: bool = False


def is_glibc_linker(path: str) -> bool:
    """Whether a path is that of glibc's dynamic linker, on any CPU."""
    name = path.rpartition("/")[2]
    return name.startswith(("ld-linux", "ld64.so", "ld.so"))


def is_android_linker(path: str) -> bool:
    """Whether a path is that of Android's dynamic linker."""
    return path in _ANDROID_LINKERS


def platform_of(elf: ElfFile) -> Platform | None:
    """Return what a file was built for, ``None`` where it does not tell (a static program runs on both)."""
    if elf.interpreter is not None and elf.kind == "program":
        if is_android_linker(elf.interpreter):
            return "android"
        return "linux" if is_glibc_linker(elf.interpreter) else None
    if elf.android_api is not None:
        return "android"
    if any(name in _GLIBC or is_glibc_linker(name) for name in elf.needed):
        return "linux"
    return "android" if any(name in ANDROID_LIBRARIES for name in elf.needed) else None


def min_sdk_of(elf: ElfFile) -> int | None:
    """Return the API level that a file needs at least: its own, that of its format and of its libraries, if known."""
    levels = [elf.android_api or 1, elf.api_needed, *(ANDROID_LIBRARIES.get(name, 1) for name in elf.needed)]
    return max(levels) if max(levels) > 1 else None


def missing_libraries(files: Mapping[str, ElfFile], platform: Platform, abi: str) -> Iterator[Missing]:
    """Yield each library that one of ``files`` (by name) needs and that neither they nor the platform have."""
    needed_by: dict[str, list[str]] = {}
    for name, elf in files.items():
        for needed in elf.needed:
            if needed not in files and not _on_platform(needed, platform):
                needed_by.setdefault(needed, []).append(name)
    for name in sorted(needed_by):
        yield Missing(name, tuple(needed_by[name]), _fix(name, platform, abi), _of_vendor(name, platform))


def _on_platform(name: str, platform: Platform) -> bool:
    if platform == "android":
        return name in ANDROID_LIBRARIES
    return name in _GLIBC or is_glibc_linker(name)


def _of_vendor(name: str, platform: Platform) -> bool:
    """Whether the makers of some phones, or the owners of some PCs, install a library."""
    return name in VENDOR_LIBRARIES if platform == "android" else "/" not in name and not name.startswith(_OF_MNN)


def _fix(name: str, platform: Platform, abi: str) -> str:
    if "/" in name:
        return "link it again by the library's name, without a path: that path does not exist on a phone"
    fixes = _ANYWHERE + (_ON_ANDROID if platform == "android" else _ON_LINUX)
    triple, arch = _TRIPLES.get(abi, ("*", "*"))
    fix = next(fix for start, fix in fixes if name.startswith(start))
    return fix.format(name=name, abi=abi, triple=triple, arch=arch)
