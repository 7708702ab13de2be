"""Which libraries are found where, and how to get those that are not."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.payload.bundle_deps import Missing, min_sdk_of, missing_libraries, platform_of
from harness.payload.elf import ElfFile, read_elf


@pytest.fixture
def read(elf_kit: ModuleType, tmp_path: Path) -> Any:
    def write_and_read(name: str = "libtoy.so", **fields: object) -> ElfFile:
        path = tmp_path / name
        path.write_bytes(elf_kit.Elf(**fields).bytes())
        return read_elf(path)

    return write_and_read


@pytest.mark.parametrize(
    ("fields", "platform"),
    [
        ({}, "android"),
        ({"android_api": None, "needed": ("liblog.so",)}, "android"),
        ({"android_api": None, "needed": ("libMNN.so", "libc.so.6")}, "linux"),
        ({"android_api": None, "needed": ("ld-linux-aarch64.so.1",)}, "linux"),
        ({"android_api": None, "needed": ("libMNN.so",)}, None),
        ({"kind": "program", "interpreter": "/system/bin/linker64"}, "android"),
        ({"kind": "program", "interpreter": "/system/bin/bootstrap/linker64"}, "android"),
        ({"kind": "program", "interpreter": "/apex/com.android.runtime/bin/linker64"}, "android"),
        ({"kind": "program", "interpreter": "/lib64/ld-linux-x86-64.so.2"}, "linux"),
        ({"kind": "program", "interpreter": "/lib/ld-linux-aarch64.so.1", "needed": ("libc.so",)}, "linux"),
        ({"kind": "program", "interpreter": "/lib/ld-musl-aarch64.so.1", "needed": ("libc.so",)}, None),
        ({"kind": "program", "static": True, "android_api": None}, None),
    ],
)
def test_a_file_is_for_the_platform_of_its_linker_note_or_libraries(
    read: Any, fields: dict[str, Any], platform: str | None
) -> None:
    name = "runner" if "kind" in fields else "libtoy.so"
    assert platform_of(read(name, **fields)) == platform


@pytest.mark.parametrize(
    ("fields", "level"),
    [
        ({"android_api": 21}, 21),
        ({"android_api": 21, "needed": ("libc.so", "libneuralnetworks.so", "libvulkan.so")}, 27),
        ({"android_api": None}, None),
        ({"android_api": None, "tags": [(4, 0), (36, 0)]}, 30),
    ],
)
def test_the_least_api_level_is_that_of_file_format_and_libraries(
    read: Any, fields: dict[str, Any], level: int | None
) -> None:
    assert min_sdk_of(read(**fields)) == level


def test_what_is_in_the_bundle_or_on_every_android_is_not_missing(read: Any) -> None:
    files = {"libtoy.so": read(needed=("libMNN.so", "libc.so", "libEGL.so", "libz.so")), "libMNN.so": read("libMNN.so")}
    assert list(missing_libraries(files, "android", "arm64-v8a")) == []


@pytest.mark.parametrize(
    ("name", "abi", "fix"),
    [
        (
            "libc++_shared.so",
            "armeabi-v7a",
            "add libc++_shared.so for armeabi-v7a from the NDK it was built with (toolchains/llvm/prebuilt/*/sysroot/"
            "usr/lib/arm-linux-androideabi/libc++_shared.so), or build with -DANDROID_STL=c++_static",
        ),
        (
            "libomp.so",
            "arm64-v8a",
            "add libomp.so for arm64-v8a from the NDK it was built with (toolchains/llvm/prebuilt/*/lib/clang/*/lib/"
            "linux/aarch64/libomp.so), or build with -DMNN_OPENMP=OFF",
        ),
        (
            "libclang_rt.asan-aarch64-android.so",
            "arm64-v8a",
            "add libclang_rt.asan-aarch64-android.so from the NDK it was built with "
            "(toolchains/llvm/prebuilt/*/lib/clang/*/lib/linux), or build without the sanitizer",
        ),
        ("libMNN_Express.so", "x86_64", "add libMNN_Express.so of the same MNN build for x86_64"),
        ("libQnnHtp.so", "arm64-v8a", "add libQnnHtp.so for arm64-v8a from Qualcomm's QNN SDK"),
        ("libc.so.6", "arm64-v8a", "build it with the NDK: libc.so.6 is a library of Linux"),
        ("libcutils.so", "arm64-v8a", "add libcutils.so for arm64-v8a"),
        (
            "express/libMNN_Express.so",
            "arm64-v8a",
            "link it again by the library's name, without a path: that path does not exist on a phone",
        ),
    ],
)
def test_a_missing_library_is_told_with_its_users_and_how_to_get_it(read: Any, name: str, abi: str, fix: str) -> None:
    files = {"libtoy.so": read(needed=(name,)), "runner": read("runner", kind="program", needed=("libc.so", name))}
    assert list(missing_libraries(files, "android", abi)) == [Missing(name, ("libtoy.so", "runner"), fix)]


def test_a_library_of_the_phones_maker_is_told_apart(read: Any) -> None:
    [missing] = missing_libraries({"libMNN_CL.so": read(needed=("libOpenCL.so",))}, "android", "arm64-v8a")
    assert (missing.of_vendor, missing.fix) == (
        True,
        "build MNN with -DMNN_USE_SYSTEM_LIB=OFF: it then looks for the phone's OpenCL when it runs",
    )


def test_on_linux_glibcs_libraries_are_there_and_others_on_some_computers(read: Any) -> None:
    glibc = ("libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2")
    files = {"libtoy.so": read(needed=(*glibc, "libcurl.so.4", "libMNN_Express.so"))}
    engine, curl = missing_libraries(files, "linux", "x86_64")
    assert (engine.name, engine.of_vendor, engine.fix) == (
        "libMNN_Express.so",
        False,
        "add libMNN_Express.so of the same MNN build for x86_64",
    )
    assert (curl.name, curl.of_vendor, curl.fix) == (
        "libcurl.so.4",
        True,
        "add libcurl.so.4 for x86_64, or build without it",
    )
