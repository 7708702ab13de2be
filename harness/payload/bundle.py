"""Bundles: what runs on the phone. A folder with ``bundle.toml`` that says which runner it is and what it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.core.errors import ConfigError
from harness.core.ids import content_id
from harness.core.reasons import Reason
from harness.core.resources import data_root
from harness.core.toml import read_toml
from harness.payload.folder import PayloadFolder, read_folder
from harness.payload.zig_build import CProgram, build
from harness.plan.load import check_against

MANIFEST = "bundle.toml"

Argument = Annotated[str, Field(max_length=4000, pattern=r"^[^\x00]+$")]


class BundleManifest(BaseModel):
    """The typed form of ``bundle.toml``."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    name: str = Field(pattern=r"^[A-Za-z0-9._-]+$")
    runner: Literal["farm_runner"]
    engine: Literal["MNN", "synthetic"] = "MNN"
    needs_python_mnn: bool = Field(False, description="runs in the phone's own Python over its MNN package")
    build: Literal["zig"] | None = Field(
        None, description="the program is made here, for each ABI, of the C files in the folder"
    )
    shared: list[Literal["core"]] = Field(
        default_factory=list, description="further folders of source beside the bundle's own, or else where ours lie"
    )
    abis: list[str] = Field(default_factory=list, description="empty: any; where several fit, the phone's own order")
    backends: list[Literal["cpu", "opencl", "vulkan"]] = Field(min_length=1, description="what it can ask MNN for")
    program: str = Field(pattern=r"^[A-Za-z0-9._/-]+$")
    files: list[str] = Field(default_factory=list, description="what is pushed; for a program that is built: nothing")
    extra_args: list[Argument] = Field(default_factory=list, description="appended to the runner's command line")


@dataclass(frozen=True)
class Bundle:
    """A bundle that can be pushed. ``folder`` holds the files to push, or the source of the program to build."""

    manifest: BundleManifest
    folder: PayloadFolder

    @property
    def hash(self) -> str:
        """What tells it from every other bundle; 64 hex digits, the same for every ABI.

        Other words in the manifest (arguments, say) are another bundle, though the same files are pushed. A program
        that is built counts with its source, compiler and options.
        """
        made_by = self._program().build_key() if self.manifest.build else ""
        manifest = self.manifest.model_dump(mode="json", by_alias=True)
        return content_id({"manifest": manifest, "folder": self.folder.hash, "build": made_by})

    def payload(self, abis: Sequence[str], say: Callable[[str], None] = lambda _: None) -> PayloadFolder:
        """Return what is pushed to a phone that runs ``abis``, the one it likes best first; built if need be.

        Raises:
            ConfigError: there is no program for any of them (reason ``abi_mismatch``).
            HostError: building failed.
        """
        if not self.manifest.build:
            return self.folder
        abi = next((abi for abi in abis if abi in self.manifest.abis), None)
        if abi is None:
            raise ConfigError(
                f"bundle {self.manifest.name} is for {', '.join(self.manifest.abis)}, "
                f"the phone runs {', '.join(abis) or 'nobody knows what'}",
                remedy="choose another bundle",
                reason=Reason.ABI_MISMATCH,
            )
        program = build(self._program(), abi, progress=say)
        return read_folder(program.parent, only=[program.name], executable=lambda _: True)

    def _program(self) -> CProgram:
        name = self.manifest.program
        shared = tuple(_shared(self.folder.root, folder) for folder in self.manifest.shared)
        return CProgram(name, self.folder.root, f"{name.upper().replace('-', '_')}_SOURCE", shared)


def read_bundle(path: Path) -> Bundle:
    """Check and hash a bundle.

    Raises:
        ConfigError: the folder or its manifest is wrong; one sentence.
    """
    file = path / MANIFEST
    data = read_toml(file)
    check_against(BundleManifest, data, str(file))
    manifest = BundleManifest.model_validate(data)
    if manifest.build:
        return Bundle(manifest, read_folder(path, only=_source(file, manifest)))
    if not manifest.files:
        raise ConfigError(f"{file}: files is missing or empty", remedy="list what is to be pushed")
    if manifest.program not in manifest.files:
        raise ConfigError(f"{file}: program {manifest.program!r} is not among its files", remedy="add it there")
    return Bundle(manifest, read_folder(path, only=manifest.files, executable=lambda name: name == manifest.program))


def _source(file: Path, manifest: BundleManifest) -> list[str]:
    source = sorted(path.name for pattern in ("*.c", "*.h") for path in file.parent.glob(pattern))
    if not any(name.endswith(".c") for name in source):
        raise ConfigError(f"{file}: there is no C file to build beside it", remedy="add the source, or remove build")
    if manifest.files or not manifest.abis or "/" in manifest.program:
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
