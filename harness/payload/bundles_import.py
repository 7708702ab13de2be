"""Takes device binaries over: inspected, copied among the bundles that mnn-farm keeps, each file pinned by its hash."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.core.errors import BundleError, ConfigError, HostError
from harness.core.ids import iso, utc_now
from harness.core.toml import format_toml
from harness.payload.archive_entries import shown
from harness.payload.bundle import MANIFEST, Bundle, read_bundle
from harness.payload.bundle_inspect import BundleVariant
from harness.payload.bundle_source import Inspected, errors_of, inspect_source
from harness.payload.bundle_traits import PROGRAM_FILES, PROGRAMS
from harness.payload.bundles_place import BUNDLES
from harness.payload.folder import copy_file
from harness.payload.hashes import sha256_of

_ENDINGS = (".zip", ".apk", ".aab", ".aar", ".tgz", ".tbz2", ".txz", ".gz", ".bz2", ".xz", ".zst", ".tar")
_NAME = re.compile(r"[A-Za-z0-9._+-]+")
#: What a bundle's manifest can ask MNN for.
_BACKENDS = ("cpu", "opencl", "vulkan")


def default_name(source: Path) -> str:
    """Return the name that a bundle has unless another is given: as the folder or the archive, without its endings."""
    name = source.resolve().name
    while not source.is_dir() and name.lower().endswith(_ENDINGS):
        name = name[: name.rindex(".")]
    return name


def check_free(name: str, *, replace: bool) -> None:
    """Refuse a name that a bundle cannot be given.

    Raises:
        ConfigError: it is none, or it is taken and must not be replaced.
    """
    BUNDLES.check_name(name)
    if name in BUNDLES.kept() and not replace:
        raise ConfigError(f"there is a bundle {name} already", remedy="give another name with --name, or --replace it")


def import_bundle(
    source: Path,
    name: str,
    *,
    replace: bool,
    say: Callable[[str], None],
    page_bytes: int | None = None,
    cpu_features: Sequence[str] = (),
    made_from: Path | None = None,
) -> Bundle:
    """Copy what counts of a build of MNN to the bundles that are known by name, pin it, and return it.

    Args:
        source: a folder, a zip, a tar, or an app that carries programs.
        name: what it will be called.
        replace: whether one of that name that is here already goes.
        say: is told what happens, and each warning.
        page_bytes: memory page of the phones it is wanted for; ``None``: of any.
        cpu_features: what it needs of a phone's CPU, as a kernel spells it; added to what the files say.
        made_from: what ``source`` was built from, to be named and noted in its stead.

    Raises:
        BundleError: it is refused; the message names the first reason and says how many more there are.
        ConfigError: the name is taken or none.
        HostError: it cannot be unpacked or copied.
    """
    place = BUNDLES.place_of(name)
    if place.resolve() == source.resolve() and name in BUNDLES.kept():
        raise ConfigError(f"{source} lies where it would be copied to", remedy="name what it was imported from")
    check_free(name, replace=replace)
    with BUNDLES.scratch_of(name, "importing", say) as scratch:
        check_free(name, replace=replace)  # it may have been taken by the process that was waited for
        unpacked, made = scratch / "unpacked", scratch / "made"
        unpacked.mkdir()
        origin = made_from or source
        say(f"inspecting {'what was built' if made_from else source}")
        inspected = inspect_source(source, unpacked, page_bytes=page_bytes).told_as(origin)
        _refuse(inspected)
        for problem in inspected.problems:
            say(f"warning: {problem.check}: {problem.detail} ({problem.fix})")
        usable = [variant for variant in inspected.variants if variant.programs]
        say(f"copying {sum(variant.size_bytes for variant in usable) / 1e6:.1f} MB")
        folders = _folders(usable)
        pins = {folder: _copy(inspected.folder, variant, made / folder) for folder, variant in folders.items()}
        table = _manifest(inspected, name, folders, pins, cpu_features)
        table |= {"source": _noted(origin), "brought_by": "build" if made_from else "import"}
        head = f"# Written by mnn-farm bins import on {iso(utc_now())}.\n"
        (made / MANIFEST).write_text(head + format_toml(table), encoding="utf-8")
        read_bundle(made)
        BUNDLES.settle(made, name, scratch)
    return read_bundle(place)


def _refuse(inspected: Inspected) -> None:
    errors = errors_of(inspected.problems)
    if errors:
        first = errors[0]
        more = f" ({len(errors) - 1} more: mnn-farm bins inspect {inspected.source})" if len(errors) > 1 else ""
        raise BundleError(first.check, first.detail + more, remedy=first.fix, reason=first.reason)
    named_oddly = [file.name for v in inspected.variants for file in v.files if not _NAME.fullmatch(file.name)]
    if named_oddly:
        raise BundleError(
            "file_name",
            f"{inspected.source} holds {shown(named_oddly[0])}, a name that is not used on phones",
            remedy="rename it: letters, digits, dots, dashes and plus signs",
        )
    if not any(variant.programs for variant in inspected.variants):
        raise BundleError(
            "no_runner",
            f"{inspected.source} is an app: it has libraries, but no program that runs on its own",
            remedy="import the folder in which MNN was built, with its llm_bench and llm_demo, or build a runner "
            "against an MNN SDK: mnn-farm bins build --sdk DIR",
        )
    if not _programs(inspected.variants):
        raise BundleError(
            "no_runner",
            f"no program of {inspected.source} is there for all its ABIs",
            remedy=f"add one of {', '.join(PROGRAM_FILES)} for each, or import them one by one",
        )


def _programs(variants: Sequence[BundleVariant]) -> dict[str, str]:
    """Return the runners that every variant with programs has, and their programs."""
    with_programs = [variant for variant in variants if variant.programs]
    return {name: file for name, file in PROGRAMS.items() if all(name in variant.programs for variant in with_programs)}


def _folders(variants: Sequence[BundleVariant]) -> dict[str, BundleVariant]:
    """Give each variant a folder of its own; the first of an ABI has the ABI's name."""
    folders: dict[str, BundleVariant] = {}
    for variant in variants:
        of_abi = sum(other.abi == variant.abi for other in folders.values())
        folders[f"{variant.abi}-{of_abi + 1}" if of_abi else variant.abi] = variant
    return folders


def _copy(root: Path, variant: BundleVariant, target: Path) -> dict[str, str]:
    """Copy a variant's files and return their hashes; each copy is compared with what was copied."""
    pins = {}
    for file in variant.files:
        source, copy = root / file.path, target / file.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy_file(source, copy)
        copy.chmod(0o755 if file.name in variant.programs.values() else 0o644)
        pins[file.name] = sha256_of(copy)
        if pins[file.name] != sha256_of(source):
            raise HostError(f"the copy of {source} differs from it", remedy="try again; if it stays, check the disk")
    return pins


def _manifest(
    inspected: Inspected,
    name: str,
    folders: dict[str, BundleVariant],
    pins: dict[str, dict[str, str]],
    cpu_features: Sequence[str],
) -> dict[str, Any]:
    programs = _programs(list(folders.values()))
    stated = inspected.stated
    runner = stated.runner if stated is not None and stated.runner in programs else next(iter(programs))
    backends = {name for variant in folders.values() for name in _backends(variant)}
    return {
        "schema": 1,
        "name": name,
        "engine": stated.engine if stated is not None else "MNN",
        "engine_version": inspected.facts["engine_version"],
        "backends": [name for name in _BACKENDS if name in backends],
        "runner": runner,
        "extra_args": (stated.extra_args if stated is not None else None) or None,
        "programs": programs,
        "variants": [
            {
                "abi": variant.abi,
                "folder": folder,
                "files": list(pins[folder]),
                "backends": _backends(variant),
                "cpu_features": sorted({*variant.cpu_features, *cpu_features}),
                "min_sdk": variant.min_sdk,
                "page_bytes": variant.page_bytes,
                "pins": pins[folder],
            }
            for folder, variant in folders.items()
        ],
    }


def _backends(variant: BundleVariant) -> list[str]:
    """Return what a run can ask for: the CPU always, other backends as far as plans know them."""
    return [name for name in _BACKENDS if name == "cpu" or name in variant.backends]


def _noted(source: Path) -> str:
    return os.fsencode(source.resolve()).decode("utf-8", "replace")[:1000]
