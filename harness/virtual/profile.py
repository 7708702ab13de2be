"""Descriptions of phones: ``profiles/phones/NAME.toml``, loaded into frozen, checked values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from harness.core.errors import ConfigError
from harness.core.resources import data_root
from harness.core.toml import read_toml

NAME_PATTERN = re.compile(r"[a-z][a-z0-9-]{0,31}")

# getprop's script and the banner both carry these, so no separators, quotes or control characters.
Text = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9 ._:/,+()-]+$", max_length=91)]
Token = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+$", max_length=64)]
PhonePath = Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9_*-][A-Za-z0-9_.*-]*)+$")]
VendorPath = Annotated[str, StringConstraints(pattern=r"^/(vendor|system)(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+$")]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Build(_Part):
    """Who made the phone and which Android it runs."""

    brand: Text
    manufacturer: Text
    model: Text
    product: Token
    device: Token
    release: Token
    sdk: Annotated[int, Field(ge=23, le=99)]
    build_id: Token
    incremental: Token
    security_patch: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\d$")]

    @property
    def fingerprint(self) -> str:
        """Android's own name of the build."""
        return (
            f"{self.brand}/{self.product}/{self.device}:{self.release}/{self.build_id}/{self.incremental}"
            ":user/release-keys"
        )


class Soc(_Part):
    """The chip as the phone's properties name it."""

    manufacturer: Text
    model: Text
    platform: Token
    hardware: Token


class Cluster(_Part):
    """Cores of one kind. ``part`` and ``implementer`` are those of ``/proc/cpuinfo``; clocks are in kHz."""

    cores: Annotated[int, Field(ge=1, le=16)]
    implementer: Annotated[int, Field(ge=0, le=0xFF)] = 0x41
    part: Annotated[int, Field(ge=0, le=0xFFF)]
    variant: Annotated[int, Field(ge=0, le=0xF)] = 0
    revision: Annotated[int, Field(ge=0, le=0xF)] = 0
    min_khz: Annotated[int, Field(ge=100_000, le=10_000_000)]
    idle_khz: Annotated[int, Field(ge=100_000, le=10_000_000)]
    max_khz: Annotated[int, Field(ge=100_000, le=10_000_000)]
    capacity: Annotated[int, Field(ge=1, le=1024)]

    @model_validator(mode="after")
    def _clocks_ascend(self) -> Cluster:
        if not self.min_khz <= self.idle_khz <= self.max_khz:
            raise ValueError("min_khz, idle_khz and max_khz must ascend")
        return self


class Cpu(_Part):
    """All cores, the slowest cluster first."""

    features: tuple[Token, ...] = Field(min_length=1, strict=False)
    bogomips: Annotated[float, Field(gt=0)]
    governor: Token
    clusters: tuple[Cluster, ...] = Field(min_length=1, max_length=4, strict=False)

    @property
    def cores(self) -> int:
        """How many cores there are."""
        return sum(cluster.cores for cluster in self.clusters)


class Memory(_Part):
    """What ``/proc/meminfo`` says. Fixed for now: nothing here follows what runs."""

    total_kb: Annotated[int, Field(ge=256 * 1024, le=64 * 1024 * 1024)]
    free_kb: Annotated[int, Field(ge=0)]
    available_kb: Annotated[int, Field(ge=0)]
    cached_kb: Annotated[int, Field(ge=0)]
    swap_total_kb: Annotated[int, Field(ge=0)]
    swap_free_kb: Annotated[int, Field(ge=0)]

    @model_validator(mode="after")
    def _parts_fit(self) -> Memory:
        if self.free_kb > self.available_kb or self.available_kb > self.total_kb:
            raise ValueError("free_kb must not exceed available_kb, nor that total_kb")
        if self.swap_free_kb > self.swap_total_kb:
            raise ValueError("swap_free_kb must not exceed swap_total_kb")
        return self


class Zone(_Part):
    """One thermal zone. ``raw`` is the number in its ``temp`` file; its unit is up to the phone's maker."""

    type: Token
    raw: Annotated[int, Field(ge=-300_000, le=300_000)]


class File(_Part):
    """A further read-only file under ``/vendor`` or ``/system``: an ELF header and zeros, enough to be there."""

    path: VendorPath
    size_bytes: Annotated[int, Field(ge=64, le=64 * 1024 * 1024)] = 4096


class Profile(_Part):
    """One phone's description. ``denied`` lists paths (with ``*``) under ``/sys`` that a shell may not read."""

    name: str
    build: Build
    soc: Soc
    cpu: Cpu
    memory: Memory
    zones: tuple[Zone, ...] = Field(default=(), strict=False)
    denied: tuple[PhonePath, ...] = Field(default=(), strict=False)
    files: tuple[File, ...] = Field(default=(), strict=False)
    properties: Mapping[Token, Text] = {}


def phones_dir() -> Path:
    """Return the folder of the phone descriptions."""
    return data_root() / "profiles" / "phones"


def profile_names(folder: Path | None = None) -> list[str]:
    """Return the names of all phone descriptions, sorted."""
    return sorted(path.stem for path in (folder or phones_dir()).glob("*.toml"))


def load_profile(name: str, folder: Path | None = None) -> Profile:
    """Load the description called ``name``; one that ``extends`` another changes or adds to it, table by table.

    Raises:
        ConfigError: there is none, or it is wrong; the message names file, key and what is allowed.
    """
    folder = folder or phones_dir()
    if name not in profile_names(folder):
        raise ConfigError(
            f"no virtual phone is described as {name!r}", remedy=f"choose one of {', '.join(profile_names(folder))}"
        )
    path = folder / f"{name}.toml"
    table = _read_extended(path, folder, ())
    try:
        return Profile.model_validate({**table, "name": name})
    except ValidationError as error:
        raise ConfigError(f"{path}: {_first_problem(error)}", remedy="correct that key") from error


def _read_extended(path: Path, folder: Path, seen: tuple[str, ...]) -> dict[str, Any]:
    table = read_toml(path)
    base = table.pop("extends", None)
    if base is None:
        return table
    known = profile_names(folder)
    if not isinstance(base, str) or base not in known:
        raise ConfigError(f"{path}: extends is {base!r}", remedy=f"choose one of {', '.join(known)}")
    if base in seen or base == path.stem:
        raise ConfigError(f"{path}: extends {base!r}, which extends it in turn", remedy="break the circle")
    return _merged(_read_extended(folder / f"{base}.toml", folder, (*seen, path.stem)), table)


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Lay ``changes`` over ``base``: tables key by key, everything else (lists too) as a whole."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        result[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"]) or "the file"
    if problem["type"] == "extra_forbidden":
        parent = _model_at(problem["loc"][:-1])
        allowed = f"; allowed are {', '.join(parent.model_fields)}" if parent else ""
        return f"{where} is not a known key{allowed}"
    if problem["type"] == "missing":
        return f"{where} is missing"
    return f"{where} is {problem['input']!r}: {problem['msg'][0].lower()}{problem['msg'][1:]}"


_TABLES: Mapping[str, type[_Part]] = {
    "build": Build, "soc": Soc, "cpu": Cpu, "memory": Memory, "clusters": Cluster, "zones": Zone, "files": File,
}  # fmt: skip


def _model_at(where: tuple[int | str, ...]) -> type[BaseModel] | None:
    names = [part for part in where if isinstance(part, str)]
    return _TABLES.get(names[-1]) if names else Profile
