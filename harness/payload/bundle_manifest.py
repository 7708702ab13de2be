"""``bundle.toml``: which runners a bundle carries, for which phones. Typed; nothing here reads a file of the bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harness.core.errors import ConfigError
from harness.core.reasons import Reason

RunnerName = Literal["farm_runner", "llm_bench", "llm_demo", "modulebasic", "mnnv2basic", "benchmark"]
#: Those that run models which are no language models, the most telling one first.
TENSOR_RUNNERS: tuple[RunnerName, ...] = ("farm_runner", "modulebasic", "mnnv2basic", "benchmark")
Argument = Annotated[str, Field(max_length=4000, pattern=r"^[^\x00]+$")]
_Path = Annotated[str, Field(max_length=1000, pattern=r"^[A-Za-z0-9._+/-]+$")]
_Backend = Literal["cpu", "opencl", "vulkan"]


@dataclass(frozen=True)
class Target:
    """What of a phone decides which binaries run on it. What is not known is ``None`` or empty and rules nothing out.

    Attributes:
        abis: that it runs, the one it likes best first.
        cpu_features: as its kernel spells them; empty: not known.
        sdk: API level.
        page_size: of its kernel, bytes.
        python_mnn: version of the MNN package in its own Python; ``None``: it has none.
    """

    abis: tuple[str, ...] = ()
    cpu_features: tuple[str, ...] = ()
    sdk: int | None = None
    page_size: int | None = None
    python_mnn: str | None = None


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


class Variant(_Strict):
    """The files for one kind of phone."""

    abi: str = Field(pattern=r"^[A-Za-z0-9_-]+$", description="as Android calls it, e.g. arm64-v8a")
    folder: _Path = Field(".", description="where its files lie, below bundle.toml")
    files: list[_Path] = Field(min_length=1, description="what is pushed, below folder")
    backends: list[_Backend] = Field(min_length=1, description="what it can ask MNN for")
    cpu_features: list[str] = Field(
        default_factory=list, description="what the phone's CPU must have, as its kernel spells it (asimddp, i8mm)"
    )
    min_sdk: int | None = Field(None, ge=1, description="lowest API level it runs on")
    page_bytes: int | None = Field(None, ge=4096, description="largest page size that its files can be loaded with")
    pins: dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] = Field(
        default_factory=dict, description="SHA-256 of each file; one that differs is refused"
    )


class BundleManifest(_Strict):
    """The typed form of ``bundle.toml``.

    A bundle is either one program (``program`` and its ``files``, or source that is built), or a build of MNN:
    ``programs`` says which runners it carries, ``variants`` for which phones.
    """

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    name: str = Field(pattern=r"^[A-Za-z0-9._-]+$")
    runner: RunnerName = Field(description="the runner that is used unless another is asked for")
    engine: Literal["MNN", "synthetic"] = "MNN"
    engine_version: str | None = Field(None, max_length=100, description="as far as the files tell")
    needs_python_mnn: bool = Field(False, description="runs in the phone's own Python over its MNN package")
    build: Literal["zig"] | None = Field(
        None, description="the program is made here, for each ABI, of the C files in the folder"
    )
    shared: list[Literal["core"]] = Field(
        default_factory=list, description="further folders of source beside the bundle's own, or else where ours lie"
    )
    abis: list[str] = Field(default_factory=list, description="empty: any; where several fit, the phone's own order")
    backends: list[_Backend] = Field(min_length=1, description="what it can ask MNN for")
    program: _Path | None = Field(None, description="of a bundle with one program")
    files: list[str] = Field(default_factory=list, description="what is pushed; for a program that is built: nothing")
    programs: dict[RunnerName, _Path] = Field(default_factory=dict, description="runner → program, below a variant")
    variants: list[Variant] = Field(default_factory=list, description="the files for each kind of phone")
    source: str | None = Field(None, max_length=1000, description="where it was imported from")
    brought_by: Literal["import", "build"] = Field("import", description="the verb of `mnn-farm bins` that wrote this")
    extra_args: list[Argument] = Field(default_factory=list, description="appended to the runner's command line")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> BundleManifest:
        if not self.variants:
            if self.program is None:
                raise ValueError("the key 'program' is missing, and there are no variants")
            if self.programs:
                raise ValueError("programs needs variants")
            if self.shared and not self.build:
                raise ValueError("shared is for a program that is built")
            return self
        if self.program is not None or self.files or self.build or self.shared or self.abis or self.needs_python_mnn:
            raise ValueError("with variants there is no program, files, build, shared, abis or needs_python_mnn")
        if self.runner not in self.programs:
            raise ValueError(f"runner {self.runner} is not among programs")
        for variant in self.variants:
            missing = [program for program in self.programs.values() if program not in variant.files]
            if missing:
                raise ValueError(f"variant {variant.abi}: program {missing[0]!r} is not among its files")
        return self

    @property
    def runners(self) -> list[RunnerName]:
        """The runners that it carries."""
        return list(self.programs) if self.variants else [self.runner]

    def hashed(self) -> dict[str, Any]:
        """Return what of the manifest tells a bundle from others; keys that are not given do not count."""
        return self.model_dump(mode="json", by_alias=True, exclude=_UNHASHED if self.variants else _LATER)


# Bundles of one program keep the hash that they had before there were others: cell ids hold it.
_LATER = {"engine_version", "programs", "variants", "source", "brought_by", "shared"}
_UNHASHED = {"source", "brought_by", "shared"}


def choose_variant(manifest: BundleManifest, target: Target) -> Variant:
    """Return the files that fit a phone best: of its favourite ABI the variant that asks for most.

    Raises:
        ConfigError: none fits (reason ``abi_mismatch``, or ``isa_mismatch`` where only the CPU is in the way).
    """
    of_abi = [variant for abi in target.abis for variant in manifest.variants if variant.abi == abi]
    if not of_abi:
        raise ConfigError(
            f"bundle {manifest.name} is for {_list(variant.abi for variant in manifest.variants)}, "
            f"the phone runs {_list(target.abis) or 'nobody knows what'}",
            remedy="import a build for it: mnn-farm bins import",
            reason=Reason.ABI_MISMATCH,
        )
    refused = [(variant, _refuses(variant, target)) for variant in of_abi]
    fitting = [variant for variant, why in refused if why is None]
    if fitting:
        favourite = [variant for variant in fitting if variant.abi == fitting[0].abi]
        # Of a phone whose features are not known nothing is asked that it may lack.
        most = 1 if target.cpu_features else -1
        return max(favourite, key=lambda variant: most * len(variant.cpu_features))
    first = next((why for _, why in refused if why is not None and why.reason is Reason.ISA_MISMATCH), refused[0][1])
    assert first is not None  # noqa: S101  nothing fits, so each has its reason
    raise ConfigError(f"bundle {manifest.name}: {first.message}", remedy=first.remedy, reason=first.reason)


def _refuses(variant: Variant, target: Target) -> ConfigError | None:
    """Return why the files of a fitting ABI do not run on a phone."""
    missing = sorted(set(variant.cpu_features) - set(target.cpu_features)) if target.cpu_features else []
    if missing:
        return ConfigError(
            f"its {variant.abi} files need the CPU's {', '.join(missing)}, which this phone lacks",
            remedy="build MNN without them for this phone, and import that build too",
            reason=Reason.ISA_MISMATCH,
        )
    if variant.min_sdk is not None and target.sdk is not None and target.sdk < variant.min_sdk:
        return ConfigError(
            f"its {variant.abi} files are for API level {variant.min_sdk} and up, this phone has {target.sdk}",
            remedy=f"build MNN with ANDROID_PLATFORM={target.sdk} or lower",
            reason=Reason.ABI_MISMATCH,
        )
    if variant.page_bytes is not None and target.page_size is not None and target.page_size > variant.page_bytes:
        return ConfigError(
            f"its {variant.abi} files are aligned to pages of {variant.page_bytes} bytes, this phone has "
            f"{target.page_size}",
            remedy="link MNN with -Wl,-z,max-page-size=16384",
            reason=Reason.ABI_MISMATCH,
        )
    return None


def _list(names: Sequence[str] | Any) -> str:
    return ", ".join(dict.fromkeys(names))
