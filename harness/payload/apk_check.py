"""Whether phones can load the libraries of an app, by how they are packed and by what its manifest says.

Android maps an uncompressed library straight from the APK, so it has to begin at a multiple of the phone's memory page;
a compressed one is written to a file when the app is installed. An app bundle is no APK yet: its ``BundleConfig.pb``
says how the libraries will lie in the APKs that are made of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.payload.apk import App, AppFile
from harness.payload.archive_entries import shown
from harness.payload.bundle_files import ABIS, found
from harness.payload.bundle_loading import BIG_PAGE_ABIS, BIG_PAGE_BYTES
from harness.payload.model_problem import Problem

PAGE_BYTES = 4096
#: Since this API level an app has to declare which of the phone's own libraries it loads.
DECLARE_SINCE_SDK = 31
OPENCL = "libOpenCL.so"

#: The engine itself: an app that has it for one ABI wants it for all. A backend may be left out of some.
_ENGINE = re.compile(r"lib(?:MNN|MNN_Express|llm)\.so")


def check_app(app: App, *, page_bytes: int | None, opencl: bool) -> Iterator[Problem]:
    """Yield what is wrong with how an app packs its libraries; what is wrong within them is not looked at.

    Args:
        app: the app.
        page_bytes: memory page of the phones it is meant for; ``None``: any, so what 16 KB need is a warning.
        opencl: whether MNN's OpenCL backend is among its libraries.
    """
    if app.problem is not None:
        yield app.problem
    for abi in app.strange:
        detail = f"{app.path} has a folder {shown('lib/' + abi)}, which is no ABI of today's phones: Android ignores it"
        yield found("bundle_wrong_abi", detail, f"use one of {', '.join(ABIS)}", warning=True)
    yield from _missing(app)
    yield from _packing(app, page_bytes)
    target, declared = app.manifest.target_sdk, dict(app.manifest.native_libraries)
    if opencl and OPENCL not in declared and target is not None and target >= DECLARE_SINCE_SDK:
        detail = (
            f"{app.path} brings MNN's OpenCL backend, targets API {target} and does not declare {OPENCL}: "
            "Android does not let it load the phone's, so OpenCL falls back to the CPU"
        )
        fix = f'add <uses-native-library android:name="{OPENCL}" android:required="false"/> to its <application>'
        yield found("opencl_not_declared", detail, fix, warning=True)


def _missing(app: App) -> Iterator[Problem]:
    libraries = app.libraries()
    for name in sorted({name for names in libraries.values() for name in names}):
        lacking = [abi for abi in libraries if name not in libraries[abi]]
        if lacking:
            having = [abi for abi in libraries if abi not in lacking]
            detail = f"{app.path} has {name} for {', '.join(having)}, but not for {', '.join(lacking)}"
            fix = f"build it for {', '.join(lacking)} too, or leave that ABI out of the app (abiFilters)"
            yield found("library_missing", detail, fix, warning=_ENGINE.fullmatch(name) is None)


def _packing(app: App, page_bytes: int | None) -> Iterator[Problem]:
    if app.kind == "aab":
        if app.page_bytes is not None and app.page_bytes < (page_bytes or BIG_PAGE_BYTES):
            detail = f"{app.path} asks for libraries at multiples of {app.page_bytes} bytes in its APKs"
            yield found(
                "page_alignment",
                f"{detail}: phones with pages of {page_bytes or BIG_PAGE_BYTES} bytes cannot load them from there",
                "build it with the Android Gradle plugin 8.5.1 or newer",
                warning=page_bytes is None,
            )
        return
    extracted = app.manifest.extract_native_libs
    for abi in app.libraries():
        files = [file for file in app.files if file.abi == abi and file.entry.startswith("lib/")]
        compressed = [file.name for file in files if file.begins_at is None]
        if compressed and extracted is False:
            yield found(
                "library_compressed",
                f"{app.path} says extractNativeLibs=false, but lib/{abi} has {_listed(compressed)} compressed",
                "pack them uncompressed (jniLibs.useLegacyPackaging = false), or say true",
            )
        if extracted is not True:
            yield from _alignment(app, abi, files, page_bytes)


def _alignment(app: App, abi: str, files: list[AppFile], page_bytes: int | None) -> Iterator[Problem]:
    wanted = page_bytes or BIG_PAGE_BYTES if abi in BIG_PAGE_ABIS else PAGE_BYTES
    off = [file.name for file in files if file.begins_at is not None and file.begins_at % wanted]
    if not off:
        return
    no_phone = any(file.begins_at is not None and file.begins_at % PAGE_BYTES for file in files)
    yield found(
        "page_alignment",
        f"in {app.path} lib/{abi} has {_listed(off)} uncompressed and not at a multiple of {wanted} bytes: "
        f"phones with pages of that size cannot load them from there",
        "build with the Android Gradle plugin 8.5.1 or newer, or run zipalign -P 16 -f 4 on it before it is signed",
        warning=page_bytes is None and not (no_phone and app.manifest.extract_native_libs is False),
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(sorted(names)[:3]) + more
