"""Descriptions of phones: ``profiles/phones/NAME.toml``, loaded into frozen, checked values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints, ValidationError, model_validator

from harness.core.errors import ConfigError
from harness.core.resources import data_root
from harness.core.toml import read_toml
from harness.virtual.parts import Part, PhonePath, Text, Token, VendorPath
from harness.virtual.traits import Battery, Gpu, Heat, Sensor, Thermal

NAME_PATTERN = re.compile(r"[a-z][a-z0-9-]{0,31}")


class Build(Part):
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


class Soc(Part):
    """The chip as the phone's properties name it."""

    manufacturer: Text
    model: Text
    platform: Token
    hardware: Token


class Cluster(Part):
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
    clocks: Annotated[int, Field(ge=2, le=64)] = 14
    """How many clocks it can run at."""
    l2_kb: Annotated[int, Field(ge=1, le=65536)] | None = None
    """Each core's cache of level 2; ``None``: the kernel tells no caches of these cores."""
    clocks_descend: bool = False
    """MediaTek and older Samsung kernels list the highest clock first."""

    @property
    def table_khz(self) -> tuple[int, ...]:
        """All clocks, ascending."""
        span, steps = self.max_khz - self.min_khz, self.clocks - 1
        between = [self.min_khz + span * step // steps // 100 * 100 for step in range(1, steps)]
        return tuple(sorted({self.min_khz, *between, self.max_khz}))

    def allowed_khz(self, cap: float) -> int:
        """Return the highest clock that does not exceed ``cap`` times the highest of all."""
        return max((khz for khz in self.table_khz if khz <= cap * self.max_khz), default=self.min_khz)

    @model_validator(mode="after")
    def _clocks_ascend(self) -> Cluster:
        if not self.min_khz <= self.idle_khz <= self.max_khz:
            raise ValueError("min_khz, idle_khz and max_khz must ascend")
        return self


class Cpu(Part):
    """All cores, the slowest cluster first."""

    features: tuple[Token, ...] = Field(min_length=1, strict=False)
    bogomips: Annotated[float, Field(gt=0)]
    governor: Token
    processor_line: bool = False
    """Whether ``/proc/cpuinfo`` begins with a ``Processor`` line, as older kernels do."""
    hardware_line: Text | None = None
    """The ``Hardware`` line at its end; many phones have none."""
    l3_kb: Annotated[int, Field(ge=1, le=262144)] | None = None
    """The cache of level 3 that all cores share."""
    speed: Annotated[float, Field(gt=0.05, le=1)] = 1.0
    """How fast its cores are at their highest clock, beside this PC's. Only descriptions of test benches say it."""
    clusters: tuple[Cluster, ...] = Field(min_length=1, max_length=4, strict=False)

    @property
    def cores(self) -> int:
        """How many cores there are."""
        return sum(cluster.cores for cluster in self.clusters)


class Memory(Part):
    """What ``/proc/meminfo`` says of a phone that runs nothing of ours, and when lmkd kills."""

    total_kb: Annotated[int, Field(ge=256 * 1024, le=64 * 1024 * 1024)]
    free_kb: Annotated[int, Field(ge=0)]
    available_kb: Annotated[int, Field(ge=0)]
    cached_kb: Annotated[int, Field(ge=0)]
    swap_total_kb: Annotated[int, Field(ge=0)]
    swap_free_kb: Annotated[int, Field(ge=0)]
    kill_below_kb: Annotated[int, Field(ge=0)] | None = None
    """lmkd kills when less than this is available; by default a twentieth of all memory."""

    @property
    def limit_kb(self) -> int:
        """How much the phone's processes may hold together before lmkd kills."""
        spared = self.total_kb // 20 if self.kill_below_kb is None else self.kill_below_kb
        return self.available_kb - spared

    @model_validator(mode="after")
    def _parts_fit(self) -> Memory:
        if self.free_kb > self.available_kb or self.available_kb > self.total_kb:
            raise ValueError("free_kb must not exceed available_kb, nor that total_kb")
        if self.swap_free_kb > self.swap_total_kb:
            raise ValueError("swap_free_kb must not exceed swap_total_kb")
        if self.limit_kb <= 0:
            raise ValueError("available_kb must exceed kill_below_kb, or lmkd kills everything")
        return self


class Zone(Part):
    """One thermal zone. ``raw`` is the number in its ``temp`` file when nothing runs.

    ``node`` says what warms it: the chip, the phone's skin or nothing. ``gain`` is its share of that node's rise,
    ``per_degree`` how many units a degree has: the kernel says 1000, some makers something else.
    """

    type: Token
    raw: Annotated[int, Field(ge=-300_000, le=300_000)]
    node: Literal["chip", "skin", "fixed"] = "fixed"
    gain: Annotated[float, Field(gt=0, le=2)] = 1.0
    per_degree: Annotated[int, Field(ge=1, le=1000)] = 1000


class File(Part):
    """A further read-only file under ``/vendor`` or ``/system``.

    It holds ``text``, else an ELF header and zeros, enough for a library to be there.
    """

    path: VendorPath
    size_bytes: Annotated[int, Field(ge=64, le=64 * 1024 * 1024)] = 4096
    text: Annotated[str, Field(max_length=65536)] | None = None


class Profile(Part):
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
    auth: bool = False
    """Whether adbd asks for a key. Off by default: the private server's key is accepted, so it only costs time."""
    heat: Heat = Heat()
    thermal: Thermal = Thermal()
    battery: Battery = Battery()
    gpu: Gpu
    data_kb: Annotated[int, Field(ge=1_000_000)] = 113_246_208
    """Size of ``/data`` as ``df`` tells it. What a program asks the kernel is the PC's own disk."""


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


_TABLES: Mapping[str, type[Part]] = {
    "build": Build, "soc": Soc, "cpu": Cpu, "memory": Memory, "clusters": Cluster, "zones": Zone, "files": File,
    "heat": Heat, "thermal": Thermal, "sensors": Sensor, "battery": Battery, "gpu": Gpu,
}  # fmt: skip


def _model_at(where: tuple[int | str, ...]) -> type[BaseModel] | None:
    names = [part for part in where if isinstance(part, str)]
    return _TABLES.get(names[-1]) if names else Profile
