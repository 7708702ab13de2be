"""A phone's cores by name and its instructions by a fixed vocabulary.

What a core can do is what its kernel says, never what its chip is known for: the same chip differs by firmware, and
kernels hide instructions (Snapdragon 8 Gen 2 and 3 have SVE2 and offer none).
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.core.resources import data_root
from harness.phone.probed import Core, ProbeFacts

# Our word -> names by which 64-bit and 32-bit kernels tell it (Linux, arch/arm64/kernel/cpuinfo.c and arm's).
VOCABULARY: Mapping[str, frozenset[str]] = {
    "dotprod": frozenset({"asimddp"}),
    "i8mm": frozenset({"i8mm"}),
    "fp16": frozenset({"asimdhp"}),
    "bf16": frozenset({"bf16", "asimdbf16"}),
    "sve": frozenset({"sve"}),
    "sve2": frozenset({"sve2"}),
    "sme": frozenset({"sme"}),
    "sme2": frozenset({"sme2"}),
}

CoreNames = Mapping[tuple[int, int], str]


@dataclass(frozen=True)
class Cluster:
    """Cores of one kind: their numbers, the kind's name (``Cortex-A55``) and top clock."""

    cpus: tuple[int, ...]
    core: str | None
    implementer: str | None
    part: str | None
    max_khz: int | None


def instructions_of(features: Iterable[str]) -> tuple[str, ...]:
    """Return the words of :data:`VOCABULARY` that hold, in its order."""
    known = set(features)
    return tuple(word for word, names in VOCABULARY.items() if names & known)


def load_core_names(path: Path) -> dict[tuple[int, int], str]:
    """Read the table from implementer and part to the core's name."""
    with path.open(encoding="utf-8", newline="") as file:
        return {(int(row["implementer"], 16), int(row["part"], 16)): row["core"] for row in csv.DictReader(file)}


@cache
def own_core_names() -> Mapping[tuple[int, int], str]:
    """Return the product's own table."""
    return load_core_names(data_root() / "profiles" / "cpu_parts.csv")


def clusters_of(probe: ProbeFacts, names: CoreNames | None = None) -> tuple[tuple[Cluster, ...], str]:
    """Return the clusters, and why not every one of them has a name (empty if all have).

    A cluster takes part and clock of any of its cores that tells them: cores that are off do not.
    """
    known = own_core_names() if names is None else names
    cores = {core.cpu: core for core in probe.cores}
    found, why = [], ""
    for cpus in probe.clusters:
        members = [cores[cpu] for cpu in cpus if cpu in cores]
        told = next((core for core in members if core.part), None)
        name = None if told is None else known.get(_ident(told))
        if name is None:
            why = why or _unnamed(cpus, told)
        clock = max((core.max_khz for core in members if core.max_khz), default=None)
        found.append(Cluster(cpus, name, told.implementer if told else None, told.part if told else None, clock))
    if not found:
        why = "the phone tells no cores"
    return tuple(found), why


def implementers_of(probe: ProbeFacts) -> frozenset[int]:
    """Return the numbers of the makers of the phone's cores."""
    return frozenset(number for core in probe.cores if (number := _hex(core.implementer)) >= 0)


def _ident(core: Core) -> tuple[int, int]:
    return _hex(core.implementer), _hex(core.part)


def _hex(word: str | None) -> int:
    try:
        return int(word or "", 16)
    except ValueError:
        return -1


def _unnamed(cpus: tuple[int, ...], told: Core | None) -> str:
    if told is None:
        return f"the kernel tells no part of core {cpus[0]}"
    return f"profiles/cpu_parts.csv does not know part {told.implementer}:{told.part} of core {cpus[0]}"
