"""Bundles: what runs on the phone. A folder with ``bundle.toml`` that says which runners it has and what they need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from harness.core.errors import ConfigError
from harness.core.ids import content_id
from harness.core.reasons import Reason
from harness.core.resources import data_root
from harness.core.toml import read_toml
from harness.payload.bundle_manifest import BundleManifest, RunnerName, Target, Variant, choose_variant
from harness.payload.folder import PayloadFolder, read_folder
from harness.payload.zig_build import CProgram, build
from harness.plan.load import check_against

MANIFEST = "bundle.toml"


@dataclass(frozen=True)
class Bundle:
    """A bundle that can be pushed. ``folder`` holds the files to push, or the source of the program to build.

    ``chosen`` is the runner that was asked for; ``None``: the manifest's own.
    """

    manifest: BundleManifest
    folder: PayloadFolder
    chosen: RunnerName | None = None

    @property
    def runner(self) -> RunnerName:
        """The runner that is used."""
        return self.chosen or self.manifest.runner

    @property
    def program(self) -> str:
        """The path of the runner's program, below the folder that is pushed."""
        return self.manifest.program or self.manifest.programs[self.runner]

    @cached_property
    def hash(self) -> str:
        """What tells it from every other bundle; 64 hex digits, the same for every ABI and runner.

        Other words in the manifest (arguments, say) are another bundle, though the same files are pushed. A program
        that is built counts with its source, compiler and options, as they are when this is first asked for.
        """
        made_by = self._program().build_key() if self.manifest.build else ""
        return content_id({"manifest": self.manifest.hashed(), "folder": self.folder.hash, "build": made_by})

    def with_runner(self, name: RunnerName) -> Bundle:
        """Return the same bundle, used by another of its runners.

        Raises:
            ConfigError: it has no such runner.
        """
        if name not in self.manifest.runners:
            raise ConfigError(
                f"bundle {self.manifest.name} has no {name}, only {', '.join(self.manifest.runners)}",
                remedy=f"choose another --runner, or import a build with {name}",
                reason=Reason.BUNDLE_MISMATCH,
            )
        return replace(self, chosen=name)

    def check(self, target: Target) -> None:
        """Look at a phone's facts before anything is pushed.

        Raises:
            ConfigError: it cannot run there (reason ``abi_mismatch`` or ``isa_mismatch``).
        """
        manifest = self.manifest
        if manifest.variants and target.abis:
            choose_variant(manifest, target)
        elif manifest.abis and target.abis and not set(manifest.abis) & set(target.abis):
            raise self._other_abi(target.abis)
        elif manifest.needs_python_mnn and target.python_mnn is None:
            raise ConfigError(
                f"bundle {manifest.name} needs a Python with MNN on the phone; no device binaries for "
                f"{', '.join(target.abis) or 'none'}",
                remedy="import a build of MNN: mnn-farm bins import",
                reason=Reason.ABI_MISMATCH,
            )

    def variant(self, target: Target) -> Variant | None:
        """Return the files that this phone gets; ``None`` for a bundle of one program.

        Raises:
            ConfigError: none fit; see :func:`choose_variant`.
        """
        return choose_variant(self.manifest, target) if self.manifest.variants else None

    def abi(self, target: Target) -> str | None:
        """Return the ABI of the program that this phone gets; ``None`` where nobody knows."""
        variant = self.variant(target) if target.abis else None
        if variant is not None:
            return variant.abi
        return next((abi for abi in target.abis if abi in self.manifest.abis or not self.manifest.abis), None)

    def backends(self, target: Target) -> Sequence[str]:
        """Return what it can ask MNN for on this phone."""
        variant = self.variant(target) if target.abis else None
        return self.manifest.backends if variant is None else variant.backends

    def payload(self, target: Target, say: Callable[[str], None] = lambda _: None) -> PayloadFolder:
        """Return what is pushed to a phone; built if need be.

        Raises:
            ConfigError: there is no program for it (reason ``abi_mismatch`` or ``isa_mismatch``).
            HostError: building failed.
        """
        variant = self.variant(target)
        if variant is not None:
            return _files_of(self.folder, variant)
        if not self.manifest.build:
            return self.folder
        abi = next((abi for abi in target.abis if abi in self.manifest.abis), None)
        if abi is None:
            raise self._other_abi(target.abis)
        program = build(self._program(), abi, progress=say)
        return read_folder(program.parent, only=[program.name], executable=lambda _: True)

    def _other_abi(self, abis: Sequence[str]) -> ConfigError:
        return ConfigError(
            f"bundle {self.manifest.name} is for {', '.join(self.manifest.abis)}, "
            f"the phone runs {', '.join(abis) or 'nobody knows what'}",
            remedy="choose another bundle",
            reason=Reason.ABI_MISMATCH,
        )

    def _program(self) -> CProgram:
        name = self.manifest.program or ""
        shared = tuple(_shared(self.folder.root, folder) for folder in self.manifest.shared)
        return CProgram(name, self.folder.root, f"{name.upper().replace('-', '_')}_SOURCE", shared)


def best_bundle(bundles: Sequence[Bundle], target: Target) -> Bundle:
    """Return the first bundle that runs on a phone; the first of all where none does, whose refusal is then shown."""
    for bundle in bundles:
        try:
            bundle.check(target)
        except ConfigError:
            continue
        return bundle
    return bundles[0]


def read_manifest(path: Path) -> BundleManifest:
    """Read a bundle's manifest; its files are not looked at.

    Raises:
        ConfigError: it cannot be read, or is none; one sentence.
    """
    file = path / MANIFEST
    data = read_toml(file)
    check_against(BundleManifest, data, str(file))
    return BundleManifest.model_validate(data)


def read_bundle(path: Path) -> Bundle:
    """Check and hash a bundle.

    Raises:
        ConfigError: the folder or its manifest is wrong, or a file is not as it was pinned; one sentence.
    """
    file = path / MANIFEST
    manifest = read_manifest(path)
    if manifest.build:
        return Bundle(manifest, read_folder(path, only=_source(file, manifest)))
    if manifest.variants:
        pins = {_in_folder(v, name): pin for v in manifest.variants for name, pin in v.pins.items()}
        _refuse_changed(
            path, manifest, [name for name in pins if not (path / name).is_file()], "was imported, and is missing"
        )
        folder = read_folder(path, only=_all_files(manifest), executable=_programs_of(manifest).__contains__)
        differing = [file.path for file in folder.files if pins.get(file.path, file.sha256) != file.sha256]
        _refuse_changed(path, manifest, differing, "is not as it was when the bundle was imported")
        return Bundle(manifest, folder)
    if not manifest.files:
        raise ConfigError(f"{file}: files is missing or empty", remedy="list what is to be pushed")
    if manifest.program not in manifest.files:
        raise ConfigError(f"{file}: program {manifest.program!r} is not among its files", remedy="add it there")
    return Bundle(manifest, read_folder(path, only=manifest.files, executable=lambda name: name == manifest.program))


def _in_folder(variant: Variant, name: str) -> str:
    return name if variant.folder == "." else f"{variant.folder}/{name}"


def _all_files(manifest: BundleManifest) -> list[str]:
    return sorted({_in_folder(variant, name) for variant in manifest.variants for name in variant.files})


def _programs_of(manifest: BundleManifest) -> set[str]:
    return {_in_folder(variant, name) for variant in manifest.variants for name in manifest.programs.values()}


def _files_of(folder: PayloadFolder, variant: Variant) -> PayloadFolder:
    """Return the part of a bundle that one kind of phone gets, with paths below that part."""
    known = {file.path: file for file in folder.files}
    files = [replace(known[_in_folder(variant, name)], path=name) for name in sorted(variant.files)]
    return PayloadFolder(folder.root if variant.folder == "." else folder.root / variant.folder, tuple(files))


def _refuse_changed(path: Path, manifest: BundleManifest, names: Sequence[str], says: str) -> None:
    """Refuse a bundle if any of its files is not what was imported; the first of them is named."""
    if names:
        more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        verb = {"import": "import", "build": "build --sdk"}[manifest.brought_by]
        raise ConfigError(
            f"{path / names[0]} {says}{more}",
            remedy=f"run: mnn-farm bins {verb} {manifest.source or 'PATH'} --name {manifest.name} --replace",
            reason=Reason.PAYLOAD_CORRUPT,
        )


def _source(file: Path, manifest: BundleManifest) -> list[str]:
    source = sorted(path.name for pattern in ("*.c", "*.h") for path in file.parent.glob(pattern))
    if not any(name.endswith(".c") for name in source):
        raise ConfigError(f"{file}: there is no C file to build beside it", remedy="add the source, or remove build")
    if manifest.files or not manifest.abis or "/" in (manifest.program or "/"):
        raise ConfigError(
            f"{file}: a program that is built needs abis, a plain name and no files",
            remedy="remove files and list the ABIs",
        )
    return source


def _shared(root: Path, name: str) -> Path:
    """Return where shared source lies: beside the bundle; for a copy of a bundle, where ours does."""
    beside = root.resolve().parent / name
    return beside if (beside / "engine.h").is_file() else data_root() / "device_bins" / "runner" / name


def default_bundle() -> Bundle:
    """Return the bundle that comes with the product: the runner over ``MNN.llm``."""
    return read_bundle(data_root() / "device_bins" / "runner")
