"""An SDK of MNN as it comes: headers here, libraries there, for one ABI or several.

Known layouts: what an archive of a release unpacks to (a folder for each ABI; those for Android bring no headers), what
``cmake --install`` made, and the folder of a build, which names the source that it was made of. Headers may lie
elsewhere: the source of the same version has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import ConfigError
from harness.payload.bundle_deps import Platform, missing_libraries, platform_of
from harness.payload.bundle_files import Scope, find_files
from harness.payload.bundle_traits import PROGRAM_FILES, SEPARATE, read_traits
from harness.payload.elf import ElfFile

ENGINE = "libMNN.so"
CXX_RUNTIME = "libc++_shared.so"
_ENGINE_HEADER = "MNN/Interpreter.hpp"
_LLM_HEADER = "llm/llm.hpp"
_INCLUDES = (".", "include", "transformers/llm/engine/include")
#: Where a build says which source it is of.
_BUILD_CACHE = "CMakeCache.txt"
_SOURCE = re.compile(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.+)$", re.MULTILINE)
_VERSION = re.compile(r"#define\s+MNN_VERSION_(MAJOR|MINOR|PATCH)\s+(\d+)")


@dataclass(frozen=True)
class Headers:
    """Where the headers lie, and of which version of MNN they are (``None`` where they do not tell)."""

    engine: Path
    llm: Path
    version: str | None


@dataclass(frozen=True)
class SdkVariant:
    """The libraries for one ABI.

    Attributes:
        abi: Android's name of it.
        platform: what they were built for.
        files: all that belongs to a bundle, by name: the engine, what it needs, its backends, MNN's own runners.
        needs_cxx_runtime: they share the NDK's C++ library, which is not among them.
    """

    abi: str
    platform: Platform
    files: dict[str, Path]
    needs_cxx_runtime: bool


def find_headers(sdk: Path, headers: Path | None = None) -> Headers:
    """Return where the headers lie: in ``headers`` when given, else in the SDK or the source around it.

    Raises:
        ConfigError: there are none, or those of the language model are missing.
    """
    places = list(_places(headers or sdk))
    engine = next((place for place in places if (place / _ENGINE_HEADER).is_file()), None)
    llm = next((place for place in places if (place / _LLM_HEADER).is_file()), None)
    where = headers or sdk
    if engine is None:
        raise ConfigError(
            f"{where} holds no headers of MNN ({_ENGINE_HEADER})",
            remedy="name MNN's source of the same version by --headers DIR: Android releases bring libraries only",
        )
    if llm is None:
        raise ConfigError(
            f"{where} holds MNN's headers without those of its language models ({_LLM_HEADER})",
            remedy="name MNN's source of the same version by --headers DIR, or install a build with -DMNN_BUILD_LLM=ON",
        )
    return Headers(engine, llm, _version(engine / "MNN" / "MNNDefine.h"))


def _places(folder: Path) -> Iterator[Path]:
    roots = [folder, *sorted(path for path in folder.glob("*") if path.is_dir())]
    source = _SOURCE.search(_text(folder / _BUILD_CACHE))
    for root in [*roots, Path(source[1])] if source else roots:
        yield from (root / include for include in _INCLUDES)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _version(header: Path) -> str | None:
    numbers = dict(_VERSION.findall(_text(header)))
    parts = [numbers.get(name) for name in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(part for part in parts if part) if all(parts) else None


def find_variants(sdk: Path, headers: Headers) -> list[SdkVariant]:
    """Return the libraries of an SDK, for each ABI that there is.

    Raises:
        ConfigError: there are none, they cannot be used, hold no language model, lack a library that they need, or are
            of another version than the headers.
    """
    if not sdk.is_dir():
        raise ConfigError(f"{sdk} is not a folder", remedy="unpack the archive and name the folder")
    found = find_files(sdk)
    for problem in found.problems:
        if not problem.warning:
            raise ConfigError(problem.detail, remedy=problem.fix)
    scopes = [scope for scope in found.scopes if ENGINE in scope.files]
    if not scopes:
        raise ConfigError(
            f"{sdk} holds no {ENGINE}{', only static libraries' if found.static_libraries else ''}",
            remedy="name the folder that holds it, or build MNN with -DMNN_BUILD_SHARED_LIBS=ON",
        )
    return [_variant(scope, headers) for scope in scopes]


def _variant(scope: Scope, headers: Headers) -> SdkVariant:
    platform = platform_of(scope.files[ENGINE])
    if platform is None:
        raise ConfigError(
            f"{scope.files[ENGINE].path} was built neither with the NDK nor for Linux with glibc",
            remedy="build MNN with the NDK",
        )
    traits = read_traits(scope.files, platform, scope.abi)
    if not traits.llm and (traits.llm is False or "libllm.so" not in scope.files):
        raise ConfigError(
            f"{scope.path} ({scope.abi}) holds MNN without language models: libllm.so is missing",
            remedy="build MNN with -DMNN_BUILD_LLM=ON",
        )
    if headers.version and traits.engine_version and headers.version != traits.engine_version:
        raise ConfigError(
            f"the headers in {headers.engine} are of MNN {headers.version}, {scope.path} of {traits.engine_version}",
            remedy=f"name the headers of {traits.engine_version} by --headers DIR",
        )
    files = _wanted(scope.files)
    lacking = list(missing_libraries(files, platform, scope.abi))
    for missing in lacking:
        if missing.name != CXX_RUNTIME and not missing.of_vendor:
            raise ConfigError(
                f"{missing.name} is missing in {scope.path} ({scope.abi}), which {', '.join(missing.needed_by)} needs",
                remedy=missing.fix,
            )
    return SdkVariant(
        scope.abi,
        platform,
        {name: elf.path for name, elf in files.items()},
        needs_cxx_runtime=any(missing.name == CXX_RUNTIME for missing in lacking),
    )


def _wanted(files: dict[str, ElfFile]) -> dict[str, ElfFile]:
    """Return MNN's engine, its runners and its backends, and what these need; not its bindings to Java, say."""
    todo = [ENGINE, "libllm.so", *PROGRAM_FILES[1:], *SEPARATE]
    wanted: dict[str, ElfFile] = {}
    while todo:
        name = todo.pop()
        if name in files and name not in wanted:
            wanted[name] = files[name]
            todo += files[name].needed
    return {name: wanted[name] for name in sorted(wanted)}
