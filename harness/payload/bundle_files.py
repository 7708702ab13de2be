"""Finds the programs and libraries in a folder, whatever its layout, and sorts them by ABI.

Known layouts: all files in one folder; a folder for each ABI at any depth (MNN's release archive has
``mnn_VERSION_…/arm64-v8a/*.so``, an unpacked APK ``lib/arm64-v8a``, ``build_lib.sh`` writes ``arm64-v8a/libs``); a
prefix with ``bin`` and ``lib``; and the folder that MNN was built in, where a few files among thousands count.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from harness.core.errors import BundleError
from harness.core.reasons import Reason
from harness.payload.bundle_traits import OPENED, PROGRAM_FILES, SEPARATE
from harness.payload.elf import ElfFile, read_elf
from harness.payload.elf_image import printable
from harness.payload.hashes import sha256_of
from harness.payload.model_problem import Problem

ABIS = ("arm64-v8a", "armeabi-v7a", "x86_64", "x86", "riscv64")
_LIBRARY = re.compile(r".+\.so(\.\d+)*")
#: What tells the folder of a build from one that somebody put together, and what is only the build system's own.
_BUILD_FILES = frozenset({"CMakeCache.txt", "build.ninja", "CMakeFiles"})
_NOT_ENTERED = frozenset({"CMakeFiles", "CMakeTmp", "__pycache__"})
#: A processor beside the phone's CPU that has libraries of its own (Qualcomm's Hexagon, in pyelftools' words).
_DSP = "QDSP6"
_COPY_IT = "copy the file into the folder"


def found(check: str, detail: str, fix: str, *, warning: bool = False) -> Problem:
    """Return a finding about a bundle; names in it may come from anywhere."""
    return Problem(check, printable(detail), fix, warning, Reason.BUNDLE_MISMATCH)


@dataclass
class Scope:
    """Files that belong together: those of one ABI.

    Attributes:
        abi: what they are for.
        folder: where they lie, relative to what was looked through.
        path: the same, for people.
        files: the files of the phone's CPU, by name.
        others: files for another processor of the phone, by name.
    """

    abi: str
    folder: PurePosixPath
    path: Path
    files: dict[str, ElfFile] = field(default_factory=dict)
    others: dict[str, Path] = field(default_factory=dict)


@dataclass
class Found:
    """What was found in a folder.

    Attributes:
        scopes: the ABIs.
        problems: what cannot be used.
        left_out: libraries in the folder of a build that no program of it needs, relative to it.
        static_libraries: archives to link with, as an SDK has them.
        is_build: MNN was built in this folder.
    """

    scopes: list[Scope] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    static_libraries: bool = False
    is_build: bool = False


def find_files(root: Path) -> Found:
    """Look through a folder that exists; what is wrong is in the answer, never raised."""
    result = Found()
    candidates: dict[PurePosixPath, Path] = {}
    for folder, names in _walk(root, result.problems):
        result.is_build = result.is_build or not _BUILD_FILES.isdisjoint(names)
        for name in names:
            path = folder / name
            result.static_libraries = result.static_libraries or name in ("libMNN.a", "libllm.a")
            if _is_candidate(path):
                candidates[PurePosixPath(path.relative_to(root))] = path
    usable = {place: path for place, path in candidates.items() if _usable(path, root, result.problems)}
    if result.is_build:
        usable = _that_count(usable, result)
    elves = _read(usable, result.problems)
    for folder_of, members in _groups(elves).items():
        _add_scope(result, root, folder_of, members)
    result.scopes.sort(key=lambda scope: (ABIS.index(scope.abi), str(scope.folder)))
    return result


def _walk(root: Path, problems: list[Problem]) -> Iterator[tuple[Path, list[str]]]:
    """Yield each folder with the names in it; links to folders are not followed."""

    def unreadable(error: OSError) -> None:
        problems.append(found("file_unreadable", f"{error.filename} cannot be read ({error.strerror})", "check it"))

    for here, folders, files in os.walk(root, onerror=unreadable):
        yield Path(here), sorted([*files, *(name for name in folders if name in _BUILD_FILES)])
        links = [name for name in folders if (Path(here) / name).is_symlink()]
        for name in links:
            _usable(Path(here) / name, root, problems)
        folders[:] = sorted(n for n in folders if n not in _NOT_ENTERED and not n.startswith(".") and n not in links)


def _is_candidate(path: Path) -> bool:
    return path.name in PROGRAM_FILES or _LIBRARY.fullmatch(path.name) is not None


def _usable(path: Path, root: Path, problems: list[Problem]) -> bool:
    """Whether a file is there and in the folder, links followed."""
    if not path.is_symlink():
        return True
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):
        target = None
    if target is not None and target.is_relative_to(root.resolve()):
        return True
    leads = "leads out of the folder" if target is not None or not _stays(path, root) else "leads nowhere"
    check = "link_leads_out" if leads.endswith("folder") else "file_unreadable"
    problems.append(found(check, f"{path} is a symbolic link that {leads} ({path.readlink()})", _COPY_IT))
    return False


def _stays(path: Path, root: Path) -> bool:
    """Whether the target of a link would lie in the folder if it were there."""
    return Path(os.path.normpath(path.parent.resolve() / path.readlink())).is_relative_to(root.resolve())


def _that_count(candidates: Mapping[PurePosixPath, Path], result: Found) -> dict[PurePosixPath, Path]:
    """Pick the programs in the folder of a build, what they need, and the backends; without any, MNN's libraries."""
    by_name: dict[str, list[PurePosixPath]] = {}
    for place in candidates:
        by_name.setdefault(place.name, []).append(place)
    programs = [name for name in PROGRAM_FILES if name in by_name]
    todo = programs or [name for name in by_name if name.startswith(("libMNN", "libllm"))]
    todo += [name for name in by_name if name in SEPARATE or name.startswith(OPENED)]
    count: set[str] = set()
    while todo:
        name = todo.pop()
        if name in count or name not in by_name:
            continue
        count.add(name)
        for place in by_name[name]:
            try:
                todo += read_elf(candidates[place]).needed
            except BundleError:
                continue  # it is read again, and told, with the others
    result.left_out = sorted(str(place) for place in candidates if place.name not in count)
    return {place: path for place, path in candidates.items() if place.name in count}


def _read(candidates: Mapping[PurePosixPath, Path], problems: list[Problem]) -> dict[PurePosixPath, ElfFile]:
    elves = {}
    for place, path in candidates.items():
        try:
            elves[place] = read_elf(path)
        except BundleError as error:
            problems.append(found(error.check, error.message, error.remedy))
    return elves


def _groups(elves: Mapping[PurePosixPath, ElfFile]) -> dict[PurePosixPath, dict[PurePosixPath, ElfFile]]:
    """Put together what lies below the same folder of an ABI, and all the rest."""
    groups: dict[PurePosixPath, dict[PurePosixPath, ElfFile]] = {}
    for place, elf in elves.items():
        groups.setdefault(_abi_folder(place) or PurePosixPath("."), {})[place] = elf
    rest = groups.pop(PurePosixPath("."), {})
    for folder, members in _split(rest).items():
        groups[folder] = members
    return groups


def _abi_folder(place: PurePosixPath) -> PurePosixPath | None:
    return next((folder for folder in place.parents if folder.name in ABIS), None)


def _split(members: Mapping[PurePosixPath, ElfFile]) -> dict[PurePosixPath, dict[PurePosixPath, ElfFile]]:
    """Split files of several ABIs by the folders they lie in, where each of these has one ABI; else keep them."""
    together = {PurePosixPath(_common(members)): dict(members)} if members else {}
    if len({elf.abi for elf in members.values()}) < 2:
        return together
    (common,) = together
    parts: dict[PurePosixPath, dict[PurePosixPath, ElfFile]] = {}
    for place, elf in members.items():
        below = place.relative_to(common).parts
        if len(below) < 2:
            return together
        parts.setdefault(common / below[0], {})[place] = elf
    whole = all(len({elf.abi for elf in part.values()}) == 1 for part in parts.values())
    return parts if whole else together


def _common(places: Mapping[PurePosixPath, ElfFile]) -> str:
    return os.path.commonpath([str(place.parent) for place in places]) or "."


def _add_scope(result: Found, root: Path, folder: PurePosixPath, members: Mapping[PurePosixPath, ElfFile]) -> None:
    """Make the scope of one folder, and tell what in it is for something else."""
    own = {place: elf for place, elf in members.items() if elf.machine != _DSP}
    abi = folder.name if folder.name in ABIS else _main_abi(own)
    scope = Scope(abi or ABIS[0], folder, root / folder)
    for place, elf in sorted(own.items(), key=lambda item: (len(item[0].parts), str(item[0]))):
        if elf.abi != scope.abi:
            result.problems.append(_wrong_abi(elf, scope, named=folder.name in ABIS))
        elif place.name not in scope.files:
            scope.files[place.name] = elf
        elif _same(scope.files[place.name], elf):
            continue
        elif result.is_build:
            result.left_out.append(str(place))  # an installed copy, say, without the paths of the build
        else:
            said = f"{scope.files[place.name].path} and {elf.path} have the same name and differ"
            result.problems.append(found("file_twice", said, "remove the one that does not belong to this build"))
    scope.others = {place.name: elf.path for place, elf in members.items() if elf.machine == _DSP}
    twin = next((other for other in result.scopes if other.abi == scope.abi), None)
    if twin is None:
        result.scopes += [scope] if scope.files or scope.others else []
    elif any(not _same(twin.files[name], elf) for name, elf in scope.files.items() if name in twin.files):
        said = f"{twin.path} and {scope.path} hold different builds for {scope.abi}"
        result.problems.append(found("variant_twice", said, "name one of the two folders"))
    else:  # programs here and libraries there, as a build for an app leaves them
        twin.files |= scope.files
        twin.others |= scope.others
        twin.folder = PurePosixPath(os.path.commonpath([twin.folder, scope.folder]) or ".")
        twin.path = root / twin.folder


def _main_abi(elves: Mapping[PurePosixPath, ElfFile]) -> str | None:
    """Return the ABI of most files, the programs counting first."""
    programs = [elf.abi for place, elf in elves.items() if place.name in PROGRAM_FILES and elf.abi]
    known = programs or [elf.abi for elf in elves.values() if elf.abi]
    order: Callable[[str], tuple[int, int]] = lambda abi: (-known.count(abi), ABIS.index(abi))  # noqa: E731
    return min(set(known), key=order, default=None)


def _wrong_abi(elf: ElfFile, scope: Scope, *, named: bool) -> Problem:
    if elf.abi is None:
        said = f"{elf.path} is for {elf.machine}, which is the CPU of no phone"
        return found("bundle_wrong_abi", said, f"build it for {scope.abi}")
    if named:
        said = f"{elf.path} is for {elf.abi} and lies in the folder of {scope.abi}"
        return found("bundle_wrong_abi", said, f"build it for {scope.abi}, or move it to a folder named {elf.abi}")
    said = f"{elf.path} is for {elf.abi}, the files beside it are for {scope.abi}"
    return found("bundle_wrong_abi", said, "put the files of each ABI into a folder of its name, e.g. arm64-v8a")


def _same(one: ElfFile, other: ElfFile) -> bool:
    try:
        return one.size == other.size and sha256_of(one.path) == sha256_of(other.path)
    except OSError:
        return False
