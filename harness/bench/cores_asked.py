"""What a plan's word for cores means on a phone. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.core.cores import cpu_list, fast_cpus, groups_of, parse_cpu_list

ANY, BIG = "any", "big"


def resolve(word: str, clusters: Iterable[Any]) -> str | None:
    """Return the list of cores that a plan's ``affinity`` means on a phone with these ``cpu_clusters``.

    ``None`` is any core. ``big`` stays a word where nothing tells which cores are fast.
    """
    if word == ANY:
        return None
    if word == BIG:
        return cpu_list(fast_cpus(groups_of(clusters))) or BIG
    return word


def cannot_be_had(word: str, clusters: Iterable[Any], present: Iterable[int]) -> str:
    """Return why a phone with these cores cannot do what a plan's ``affinity`` asks, ``""`` if it can."""
    resolved, here = resolve(word, clusters), set(present)
    if resolved is None:
        return ""
    if resolved == BIG:
        return "affinity big: the phone tells neither clocks nor names of all its cores; name the cores in the plan"
    asked = parse_cpu_list(resolved)
    if asked is None:
        return f"affinity {word} is no list of cores; write e.g. 4-7"
    missing = sorted(asked - here) if here else []
    if missing:
        return f"affinity {word} asks for core {cpu_list(missing)}; the phone has cores {cpu_list(here)}"
    return ""
