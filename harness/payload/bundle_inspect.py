"""Inspects device binaries before a phone sees them: what they are, and everything that is wrong with them at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import BundleError
from harness.payload.bundle_deps import (
    ANDROID_LIBRARIES,
    VENDOR_LIBRARIES,
    Platform,
    min_sdk_of,
    missing_libraries,
    platform_of,
)
from harness.payload.bundle_files import Found, Scope, find_files, found
from harness.payload.bundle_loading import BIG_PAGE_ABIS, check_loading
from harness.payload.bundle_symbols import unresolved
from harness.payload.bundle_traits import PROGRAM_FILES, PROGRAMS, Traits, read_traits
from harness.payload.model_problem import Problem

_SYSTEM = {"android": "Android", "linux": "Linux", None: "Android"}


@dataclass(frozen=True)
class BundleFile:
    """A file of a variant: the name under which it is pushed, and where it lies below the folder."""

    name: str
    path: str


@dataclass(frozen=True)
class BundleVariant:
    """The files for one ABI.

    Attributes:
        abi: Android's name of it.
        platform: what they were built for: ``android``, ``linux`` (a PC with glibc), ``None`` where they run on both.
        folder: where they lie below the inspected folder.
        files: all that is pushed; programs and libraries go into one folder there.
        programs: the programs by their runner.
        backends: what the engine can be asked for.
        cpu_features: what the CPU must have, where a file says so, in the words of the kernel.
        min_sdk: Android's API level that they need at least, where they tell.
        page_bytes: the largest memory page with which all of them can be loaded.
        size_bytes: of all files.
        stripped: without symbol tables.
        debug_info: with debugging information.
        traits: what the engine was built with.
    """

    abi: str
    platform: Platform | None
    folder: str
    files: tuple[BundleFile, ...]
    programs: dict[str, str]
    backends: tuple[str, ...]
    cpu_features: tuple[str, ...]
    min_sdk: int | None
    page_bytes: int | None
    size_bytes: int
    stripped: bool
    debug_info: bool
    traits: Traits

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        traits = asdict(self.traits)
        del traits["backends"]
        return {**asdict(self), "files": [file.name for file in self.files], "traits": traits}


@dataclass(frozen=True)
class BundleReport:
    """What was found in a folder.

    Attributes:
        path: the folder.
        problems: all that is wrong or suspicious.
        variants: what it holds, one for each ABI.
        left_out: libraries in the folder of a build that its programs do not need.
    """

    path: Path
    problems: tuple[Problem, ...] = ()
    variants: tuple[BundleVariant, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it may be used."""
        return all(problem.warning for problem in self.problems)

    @property
    def facts(self) -> dict[str, Any]:
        """What the files tell, as plain values; ``None`` where they do not, or not the same for all ABIs."""
        backends = {name: None for variant in self.variants for name in variant.backends}
        return {
            "engine": _same(variant.traits.engine for variant in self.variants),
            "engine_version": _same(variant.traits.engine_version for variant in self.variants),
            "backends": list(backends),
            "runners": [name for name in PROGRAMS if any(name in variant.programs for variant in self.variants)],
            "variants": [variant.to_json() for variant in self.variants],
            "left_out": list(self.left_out),
        }


def inspect_folder(path: Path, *, page_bytes: int | None = None) -> BundleReport:
    """Inspect a folder of device binaries; what is wrong is in the answer, never raised.

    Args:
        path: the folder.
        page_bytes: size of the memory pages of the phones it is wanted for, ``None`` for any phone.
    """
    if not path.is_dir():
        said = f"{path} is not a folder" if path.exists() else f"there is no folder {path}"
        return BundleReport(path, (found("bundle_empty", said, "check the path"),))
    files = find_files(path)
    problems = [*files.problems, *_check_runners(path, files)]
    variants = []
    for scope in files.scopes:
        platform, of_other_platform = _platform(scope)
        problems += of_other_platform
        problems += check_loading(scope, platform, page_bytes)
        problems += _check_libraries(scope, platform)
        problems += _check_hidden(scope) if platform != "linux" else ()
        try:
            traits = read_traits(scope.files, platform, scope.abi)
        except BundleError as error:
            problems.append(found(error.check, error.message, error.remedy))
            continue
        problems += _check_traits(scope, traits)
        variants.append(_variant(path, scope, platform, traits))
    return BundleReport(path, tuple(problems), tuple(variants), tuple(files.left_out))


def _variant(root: Path, scope: Scope, platform: Platform | None, traits: Traits) -> BundleVariant:
    elves = scope.files.values()
    places = {**{name: elf.path for name, elf in scope.files.items()}, **scope.others}
    levels = [level for elf in elves if (level := min_sdk_of(elf)) is not None]
    return BundleVariant(
        abi=scope.abi,
        platform=platform,
        folder=str(scope.folder),
        files=tuple(BundleFile(name, place.relative_to(root).as_posix()) for name, place in sorted(places.items())),
        programs={name: file for name, file in PROGRAMS.items() if file in scope.files},
        backends=traits.backends,
        cpu_features=tuple(sorted({feature for elf in elves for feature in elf.features_needed})),
        min_sdk=max(levels, default=None) if platform != "linux" else None,
        page_bytes=min((elf.page_bytes for elf in elves), default=None) if scope.abi in BIG_PAGE_ABIS else None,
        size_bytes=sum(place.stat().st_size for place in places.values()),
        stripped=all(elf.stripped for elf in elves),
        debug_info=any(elf.debug for elf in elves),
        traits=traits,
    )


def _same(values: Iterator[str | None]) -> str | None:
    different = set(values)
    return different.pop() if len(different) == 1 else None


def _check_runners(root: Path, files: Found) -> Iterator[Problem]:
    """Tell which programs are not there; where one ABI has some, another without is left out."""
    if not files.scopes:
        if not files.problems and not files.static_libraries:
            said = f"{root} holds no program and no library"
            yield found("bundle_empty", said, "name the folder that MNN was built in, or an unpacked release of it")
        elif files.static_libraries:
            yield _no_runner(f"{root} holds MNN's static libraries, but none of {', '.join(PROGRAM_FILES)}", sdk=root)
        return
    without = [scope for scope in files.scopes if not any(name in scope.files for name in PROGRAM_FILES)]
    if len(without) == len(files.scopes):
        sdk = any(name.startswith("libMNN") for scope in without for name in scope.files)
        yield _no_runner(f"{root} holds libraries, but none of {', '.join(PROGRAM_FILES)}", sdk=root if sdk else None)
        return
    for scope in without:
        said = f"{scope.path} ({scope.abi}) holds none of {', '.join(PROGRAM_FILES)}: phones of this ABI cannot use it"
        yield found("no_runner", said, f"add a program for {scope.abi}, or remove the folder", warning=True)
    for scope in files.scopes:
        yield from _check_programs(scope)


def _no_runner(said: str, sdk: Path | None) -> Problem:
    if sdk is None:
        return found("no_runner", said, "build MNN with -DMNN_BUILD_LLM=ON and add its llm_bench and llm_demo")
    return found("no_runner", said, f"build our runner against it: mnn-farm bins build --sdk {sdk}")


def _check_programs(scope: Scope) -> Iterator[Problem]:
    if "farm_runner" in scope.files:
        return
    if "llm_bench" in scope.files and "llm_demo" not in scope.files:
        said = f"{scope.path} ({scope.abi}) has no llm_demo: only speeds can be measured, no answer is ever checked"
        yield found("no_llm_demo", said, "add llm_demo of the same build", warning=True)
    if "llm_demo" in scope.files and "llm_bench" not in scope.files:
        said = f"{scope.path} ({scope.abi}) has no llm_bench: speeds come from llm_demo's rounded times"
        yield found("no_llm_bench", said, "add llm_bench of the same build", warning=True)


def _platform(scope: Scope) -> tuple[Platform | None, list[Problem]]:
    """Return what the files of a scope were built for, and those that were built for something else."""
    platforms = {name: platform_of(elf) for name, elf in scope.files.items()}
    told = [platforms[name] for name in PROGRAM_FILES if platforms.get(name)] or [p for p in platforms.values() if p]
    main = max(sorted({p for p in told if p}), key=told.count, default=None)
    return main, [
        found(
            "bundle_wrong_abi",
            f"{scope.files[name].path} is built for {_SYSTEM[platform]}, the files beside it for {_SYSTEM[main]}",
            "take all files from one build",
        )
        for name, platform in platforms.items()
        if platform and main and platform != main
    ]


def _check_libraries(scope: Scope, platform: Platform | None) -> Iterator[Problem]:
    missing = list(missing_libraries(scope.files, platform or "android", scope.abi))
    for library in missing:
        users = ", ".join(str(scope.files[name].path) for name in library.needed_by)
        verb = "needs" if len(library.needed_by) == 1 else "need"
        if library.of_vendor:
            said = f"{users} {verb} {library.name}, which only some {'PCs' if platform == 'linux' else 'phones'} have"
            yield found("vendor_library", said, library.fix, warning=True)
        else:
            said = f"{users} {verb} {library.name}, which is not in the folder"
            yield found("library_missing", f"{said} and not on every {_SYSTEM[platform]}", library.fix)
    if any(not library.of_vendor for library in missing):
        return  # which may have the functions that nothing else has
    for one in unresolved(scope.files):
        more = f" and {len(one.functions) - 1} more" if len(one.functions) > 1 else ""
        said = f"{scope.files[one.file].path} calls {one.functions[0]}{more}, which no file beside it has"
        yield found("symbol_missing", said, "take all files from one build of MNN")


def _check_hidden(scope: Scope) -> Iterator[Problem]:
    hidden = [name for name in scope.files if name in ANDROID_LIBRARIES or name in VENDOR_LIBRARIES]
    for name in hidden:
        said = f"{scope.files[name].path} would be loaded instead of the phone's own {name}, which fits its drivers"
        yield found("system_library_hidden", said, "leave it out: it is on the phone", warning=True)


def _check_traits(scope: Scope, traits: Traits) -> Iterator[Problem]:
    where = f"{scope.path} ({scope.abi})"
    if traits.llm is False:
        said = f"{where}: this MNN was built without language models"
        yield found("no_llm", said, "build MNN with -DMNN_BUILD_LLM=ON", warning=True)
    if traits.transformer_fuse is False:
        said = f"{where}: this MNN was built without the fused operators that exported language models use"
        yield found("no_transformer_fuse", said, "build MNN with -DMNN_SUPPORT_TRANSFORMER_FUSE=ON", warning=True)
    if traits.logcat:
        said = f"{where}: this MNN writes its messages to logcat: its programs show neither errors nor backend"
        yield found("logcat_output", said, "build MNN with -DMNN_USE_LOGCAT=OFF", warning=True)
    for library, programs in traits.unloaded.items():
        said = f"{where}: {', '.join(programs)} neither need nor name {library}: its backend would never be there"
        fix = f"build MNN with -DMNN_SEP_BUILD=OFF, or link the program with it, or start it with LD_PRELOAD={library}"
        yield found("separate_backend_unloaded", said, fix, warning=True)
    if traits.debug_build:
        said = f"{where}: this MNN was built for debugging: its speeds mean nothing"
        yield found("debug_build", said, "build MNN with -DCMAKE_BUILD_TYPE=Release", warning=True)
    debug = sorted(name for name, elf in scope.files.items() if elf.debug)
    if debug:
        size = sum(scope.files[name].size - scope.files[name].loaded_bytes for name in debug)
        said = f"{where}: {', '.join(debug)} hold debugging information, {size / 1e6:.1f} MB that no phone reads"
        yield found("not_stripped", said, "strip them: llvm-strip --strip-unneeded FILE", warning=True)
