"""Builds our runner against an SDK of MNN: our own files with the NDK or this computer's compiler, never MNN itself.

What comes out is a folder to import as a bundle: the program with all libraries beside it, for each ABI of the SDK.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from harness.core.errors import ConfigError, HostError
from harness.core.resources import data_root
from harness.payload.bundle_deps import min_sdk_of
from harness.payload.elf import read_elf
from harness.payload.sdk import CXX_RUNTIME, Headers, SdkVariant, find_headers, find_variants

PROGRAM = "farm_runner"
_TOOLCHAIN = "build/cmake/android.toolchain.cmake"
_NDK_VARIABLES = ("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT", "ANDROID_NDK")
#: Folders of the NDK's C++ library by ABI.
_TRIPLES = {
    "arm64-v8a": "aarch64-linux-android",
    "armeabi-v7a": "arm-linux-androideabi",
    "x86_64": "x86_64-linux-android",
    "x86": "i686-linux-android",
    "riscv64": "riscv64-linux-android",
}
#: What this computer's compiler builds for.
_HOST_ABIS = {"x86_64": "x86_64", "aarch64": "arm64-v8a"}
#: The lowest API level that today's NDKs build for.
_LOWEST_API = 21
_STEP_TIMEOUT_S = 600.0
_COMPILER_ERROR = re.compile(r"\berror:|undefined (reference|symbol)|cannot find -l|not found\b|ld(\.lld)?: ")
_CMAKE_ERROR = re.compile(r"CMake Error")


def build_runner(
    sdk: Path, ndk: Path | None, out: Path, say: Callable[[str], None], *, headers: Path | None = None
) -> list[Path]:
    """Build the runner for each ABI of an SDK.

    Args:
        sdk: folder with MNN's libraries; see :mod:`harness.payload.sdk` for how they may lie in it.
        ndk: the Android NDK; ``None``: the one that the environment names. Not needed for libraries of Linux.
        out: gets a folder for each ABI.
        say: gets a line before each step that takes time.
        headers: where MNN's headers lie, when not in the SDK.

    Returns:
        The folders that were made, ready to be imported.

    Raises:
        ConfigError: something about the SDK or the NDK is not as it must be.
        HostError: cmake or the compiler is missing or failed.
    """
    found = find_headers(sdk, headers)
    variants = find_variants(sdk, found)
    toolchains = {variant.abi: _toolchain(variant, ndk) for variant in variants}
    if shutil.which("cmake") is None:
        raise HostError("cmake is missing", remedy="install it: apt install cmake, or pip install cmake")
    folders = []
    for variant in variants:
        say(f"building {PROGRAM} for {variant.abi} …")
        folders.append(_build(variant, found, toolchains[variant.abi], out / variant.abi))
    return folders


def _toolchain(variant: SdkVariant, given: Path | None) -> Path | None:
    """Return the NDK that builds for a variant, ``None`` for this computer's compiler."""
    if variant.platform == "linux":
        if _HOST_ABIS.get(platform.machine()) != variant.abi:
            raise ConfigError(
                f"the libraries for {variant.abi} are of Linux and this computer is {platform.machine()}",
                remedy="name libraries that were built with the NDK",
            )
        return None
    named = next((Path(value) for name in _NDK_VARIABLES if (value := os.environ.get(name))), None)
    ndk = given or named
    if ndk is None:
        raise ConfigError(
            f"the libraries for {variant.abi} need the Android NDK to build for",
            remedy=f"name it by --ndk DIR, or set {_NDK_VARIABLES[0]}",
        )
    if not (ndk / _TOOLCHAIN).is_file():
        raise ConfigError(
            f"{ndk} is no Android NDK ({_TOOLCHAIN} is missing)",
            remedy="name the folder that its archive unpacks to, e.g. android-ndk-r27c",
        )
    return ndk


def _build(variant: SdkVariant, headers: Headers, ndk: Path | None, target: Path) -> Path:
    target.mkdir(parents=True, exist_ok=True)
    for name, path in variant.files.items():
        shutil.copyfile(path, target / name)
        (target / name).chmod(0o755)
    if variant.needs_cxx_runtime and ndk is not None:
        shutil.copyfile(_cxx_runtime(ndk, variant.abi), target / CXX_RUNTIME)
    with tempfile.TemporaryDirectory(prefix="farm_runner-") as scratch:
        _run(_configure_command(variant, headers, ndk, target, Path(scratch)), variant.abi)
        _run(["cmake", "--build", scratch], variant.abi)
        shutil.copyfile(Path(scratch) / PROGRAM, target / PROGRAM)
    (target / PROGRAM).chmod(0o755)
    if ndk is None:
        _check_that_it_starts(target / PROGRAM)
    return target


def _configure_command(
    variant: SdkVariant, headers: Headers, ndk: Path | None, libraries: Path, scratch: Path
) -> list[str]:
    """Return cmake's command line. The libraries are linked from one folder, as they will lie on a phone."""
    source = data_root() / "device_bins" / "runner"
    settings = {
        "CMAKE_BUILD_TYPE": "Release",
        "MNN_SDK": str(headers.engine),
        "MNN_INCLUDE": str(headers.engine),
        "LLM_INCLUDE": str(headers.llm),
        "MNN_BUILD_DIR": str(libraries),
    }
    if ndk is not None:
        needed = [min_sdk_of(read_elf(path)) or 1 for path in variant.files.values()]
        shared = (libraries / CXX_RUNTIME).exists()
        settings |= {
            "CMAKE_TOOLCHAIN_FILE": str(ndk.resolve() / _TOOLCHAIN),
            "ANDROID_ABI": variant.abi,
            "ANDROID_PLATFORM": f"android-{max(_LOWEST_API, *needed)}",
            "ANDROID_STL": "c++_shared" if shared else "c++_static",
        }
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    defines = [f"-D{key}={value}" for key, value in settings.items()]
    return ["cmake", "-S", str(source), "-B", str(scratch), *generator, *defines]


def _cxx_runtime(ndk: Path, abi: str) -> Path:
    """Return the NDK's C++ library for an ABI; older NDKs have it elsewhere."""
    places: Iterable[Path] = (
        *sorted(ndk.glob(f"toolchains/llvm/prebuilt/*/sysroot/usr/lib/{_TRIPLES[abi]}/{CXX_RUNTIME}")),
        ndk / "sources" / "cxx-stl" / "llvm-libc++" / "libs" / abi / CXX_RUNTIME,
    )
    found = next((path for path in places if path.is_file()), None)
    if found is None:
        raise ConfigError(
            f"{ndk} has no {CXX_RUNTIME} for {abi}", remedy="name an NDK from r21 on, unpacked completely"
        )
    return found


def _run(command: list[str], abi: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, timeout=_STEP_TIMEOUT_S, check=False)
    except OSError as error:
        raise HostError(f"{command[0]} does not start ({error.strerror})", remedy="install cmake again") from error
    except subprocess.TimeoutExpired as error:
        raise HostError(f"building {PROGRAM} for {abi} was not done after {_STEP_TIMEOUT_S:g} s") from error
    if done.returncode != 0:
        said = first_error(done.stdout + b"\n" + done.stderr)
        raise HostError(f"building {PROGRAM} for {abi} failed ({said})")


def first_error(output: bytes) -> str:
    """Return the one line that says why cmake or a compiler failed."""
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if _CMAKE_ERROR.match(line):  # what is wrong stands below, and may be wrapped
            said = line.partition(": ")[2] or " ".join(lines[number + 1 : number + 3])
            return said[:300]
        if _COMPILER_ERROR.search(line):
            return line[:300]
    return lines[-1][:300] if lines else "it said nothing"


def _check_that_it_starts(program: Path) -> None:
    try:
        done = subprocess.run([str(program), "--help"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(f"{program} was built and does not start ({error})") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise HostError(f"{program} was built and does not start ({said[0] if said else done.returncode})")
