"""Bundles: what runs on the phone. A folder with ``bundle.toml`` that says which runner it is and what it needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.core.errors import ConfigError
from harness.core.resources import data_root
from harness.core.toml import read_toml
from harness.payload.folder import PayloadFolder, read_folder
from harness.plan.load import check_against

MANIFEST = "bundle.toml"


class BundleManifest(BaseModel):
    """The typed form of ``bundle.toml``."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    name: str = Field(pattern=r"^[A-Za-z0-9._-]+$")
    runner: Literal["farm_runner"]
    engine: Literal["MNN"] = "MNN"
    needs_python_mnn: bool = Field(False, description="runs in the phone's own Python over its MNN package")
    abis: list[str] = Field(default_factory=list, description="empty: any")
    backends: list[Literal["cpu", "opencl", "vulkan"]] = Field(min_length=1, description="what it can ask MNN for")
    program: str
    files: list[str] = Field(min_length=1)


@dataclass(frozen=True)
class Bundle:
    """A bundle that can be pushed."""

    manifest: BundleManifest
    folder: PayloadFolder


def read_bundle(path: Path) -> Bundle:
    """Check and hash a bundle.

    Raises:
        ConfigError: the folder or its manifest is wrong; one sentence.
    """
    file = path / MANIFEST
    data = read_toml(file)
    check_against(BundleManifest, data, str(file))
    manifest = BundleManifest.model_validate(data)
    if manifest.program not in manifest.files:
        raise ConfigError(f"{file}: program {manifest.program!r} is not among its files", remedy="add it there")
    return Bundle(manifest, read_folder(path, only=manifest.files, executable=lambda name: name == manifest.program))


def default_bundle() -> Bundle:
    """Return the bundle that comes with the product: the runner over ``MNN.llm``."""
    return read_bundle(data_root() / "device_bins" / "runner")
