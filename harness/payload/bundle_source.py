"""Looks at device binaries wherever they come from: a folder, a zip or a tar, an APK or an AAB."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.core.errors import BundleError, ConfigError
from harness.core.reasons import Reason
from harness.payload.apk import App, read_app, unpack_app
from harness.payload.apk_check import check_app
from harness.payload.archives import archive_kind, unpack
from harness.payload.bundle import MANIFEST, read_manifest
from harness.payload.bundle_files import found
from harness.payload.bundle_inspect import BundleReport, BundleVariant, inspect_folder
from harness.payload.bundle_manifest import BundleManifest, Variant
from harness.payload.bundle_traits import PROGRAMS
from harness.payload.elf import read_elf
from harness.payload.hashes import sha256_of
from harness.payload.model_problem import Problem

#: Findings about programs, which an app need not have.
_OF_PROGRAMS = frozenset({"no_runner", "no_llm_bench", "no_llm_demo"})


@dataclass(frozen=True)
class Inspected:
    """What was found, and where its files lie.

    Attributes:
        source: what was named.
        folder: below which the files of the variants lie.
        problems: all that is wrong or suspicious, with paths that mean something to whoever named the source.
        variants: what it holds.
        facts: what is known, as ``mnn-farm bins inspect --json`` prints it.
        stated: the manifest that came with the files, ``None`` without one.
    """

    source: Path
    folder: Path
    problems: tuple[Problem, ...]
    variants: tuple[BundleVariant, ...]
    facts: dict[str, Any]
    stated: BundleManifest | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing stands against using it."""
        return all(problem.warning for problem in self.problems)

    def told_as(self, source: Path) -> Inspected:
        """Return the same, told as found in ``source``: from which the files were made."""
        return replace(self, source=source, problems=tuple(_renamed(self.problems, self.source, source)))


def inspect_source(source: Path, scratch: Path, *, page_bytes: int | None = None) -> Inspected:
    """Inspect a folder or a file; what is wrong with it is in the answer.

    Args:
        source: a folder, a zip, a tar, an APK or an AAB.
        scratch: an empty folder, for what is unpacked.
        page_bytes: memory page of the phones it is wanted for; ``None``: of any.

    Raises:
        HostError: it cannot be unpacked on this computer.
    """
    try:
        if source.is_dir():
            return _of_folder(source, source, page_bytes)
        app = read_app(source) if archive_kind(source) == "zip" else None
        if app is not None:
            unpack_app(app, scratch)
            return _of_app(app, scratch, page_bytes)
        unpack(source, scratch)
        return _of_folder(source, scratch, page_bytes)
    except BundleError as error:
        return _refused(source, found(error.check, error.message, error.remedy))
    except ConfigError as error:
        return _refused(source, found("file_unreadable", error.message, error.remedy))


def _refused(source: Path, problem: Problem) -> Inspected:
    return Inspected(source, source, (problem,), (), BundleReport(source).facts)


def _of_folder(source: Path, folder: Path, page_bytes: int | None) -> Inspected:
    folder = _manifest_folder(folder)
    stated = _stated(folder)
    report = inspect_folder(folder, page_bytes=page_bytes) if stated is None else _as_stated(folder, stated, page_bytes)
    return Inspected(
        source=source,
        folder=folder,
        problems=tuple(_renamed(report.problems, folder, source)),
        variants=report.variants,
        facts=report.facts,
        stated=stated,
    )


def _manifest_folder(folder: Path) -> Path:
    """Return the folder with the manifest: this one, or the only one in it, as archives often have it."""
    try:
        inside = [path for path in folder.iterdir() if path.name != "__MACOSX"]
    except OSError:  # the inspection tells
        return folder
    below = inside[0] if len(inside) == 1 else folder
    return below if (below / MANIFEST).is_file() and not below.is_symlink() else folder


def _stated(folder: Path) -> BundleManifest | None:
    """Read a manifest that came with the files; one without variants says nothing about a build of MNN."""
    file = folder / MANIFEST
    if not file.is_file():
        return None
    try:
        manifest = read_manifest(folder)
    except ConfigError as error:
        raise BundleError("manifest_unreadable", error.message, remedy=error.remedy) from error
    return manifest if manifest.variants else None


def _as_stated(folder: Path, stated: BundleManifest, page_bytes: int | None) -> BundleReport:
    """Inspect each variant of a manifest by itself: there may be several of one ABI, for different phones."""
    problems: list[Problem] = []
    variants: list[BundleVariant] = []
    for variant in stated.variants:
        place = folder / variant.folder
        if not place.resolve().is_relative_to(folder.resolve()):
            problems.append(found("link_leads_out", f"{place} leads out of {folder}", "copy it into the folder"))
            continue
        report = inspect_folder(place, page_bytes=page_bytes)
        problems += report.problems
        problems += _differing(place, variant)
        of_abi = [one for one in report.variants if one.abi == variant.abi]
        if not of_abi and report.ok:
            said = f"{folder / MANIFEST} says that {variant.folder} is for {variant.abi}, and nothing in it is"
            problems.append(found("bundle_wrong_abi", said, "correct the manifest, or put the right files there"))
        features = {*variant.cpu_features, *(name for one in of_abi for name in one.cpu_features)}
        variants += [replace(_below(one, variant.folder), cpu_features=tuple(sorted(features))) for one in of_abi]
    return BundleReport(folder, tuple(problems), tuple(variants))


def _differing(place: Path, variant: Variant) -> Iterator[Problem]:
    """Yield each pinned file that is not as it was when its bundle was imported."""
    for name, pin in variant.pins.items():
        file = place / name
        try:
            if file.is_file() and sha256_of(file) == pin:
                continue
            says = "is not as it was when the bundle was imported" if file.is_file() else "was imported, and is missing"
        except OSError as error:
            says = f"was imported, and cannot be read ({error.strerror})"
        yield Problem("pin_differs", f"{file} {says}", "import the bundle again", reason=Reason.PAYLOAD_CORRUPT)


def _below(variant: BundleVariant, folder: str) -> BundleVariant:
    files = tuple(replace(file, path=f"{folder}/{file.path}") for file in variant.files)
    return replace(variant, folder=folder, files=files)


def _of_app(app: App, folder: Path, page_bytes: int | None) -> Inspected:
    for file in app.files:
        _name_program(folder / file.abi / file.name)
    report = inspect_folder(folder, page_bytes=page_bytes)
    opencl = any("opencl" in variant.backends for variant in report.variants)
    of_files = [problem for problem in report.problems if problem.check not in _OF_PROGRAMS]
    if not app.files:
        of_files = [found("bundle_empty", f"{app.path} brings no native library", "name the APK that has them")]
    problems = [*check_app(app, page_bytes=page_bytes, opencl=opencl), *_renamed(of_files, folder, app.path)]
    return Inspected(app.path, folder, tuple(problems), report.variants, {**report.facts, **app.facts()})


def _name_program(file: Path) -> None:
    """Give a runner its own name: in an app it has to be called like a library to be installed as a file."""
    runner = file.name.removeprefix("lib").removesuffix(".so")
    program = next((own for name, own in PROGRAMS.items() if runner in (name, own)), None)
    if program is not None and program != file.name:
        with contextlib.suppress(BundleError):  # the inspection tells what is wrong with it
            if read_elf(file).kind == "program":
                file.rename(file.with_name(program))


def _renamed(problems: Iterable[Problem], folder: Path, source: Path) -> Iterator[Problem]:
    """Tell of an archive's files as what lies in the archive, not where they were unpacked for a moment."""
    for problem in problems:
        detail, fix = (text.replace(str(folder), str(source)) for text in (problem.detail, problem.fix))
        yield replace(problem, detail=detail, fix=fix)


def errors_of(problems: Sequence[Problem]) -> list[Problem]:
    """Return the problems for which binaries are refused."""
    return [problem for problem in problems if not problem.warning]
