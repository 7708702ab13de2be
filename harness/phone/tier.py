"""Which tier a phone is in and why: from its facts, by rules. An unknown fact meets no condition.

A rule may name a CPU feature as the kernel does (``asimddp``) or by our word for it (``dotprod``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.phone.facts import Facts
from harness.plan.tiers import TierName, TierRules, When

_GIB = 1024**3


@dataclass(frozen=True)
class Placement:
    """The tier of a phone, why, and the number of the rule that decided (from 1), ``None`` if no rule fits."""

    tier: TierName
    because: str
    rule: int | None


def place(facts: Facts, rules: TierRules) -> Placement:
    """Return the tier of the first rule that fits, else the rules' ``unknown_soc``, and why no higher one fits."""
    missed: list[str] = []
    for number, rule in enumerate(rules.rules, start=1):
        unmet = [f"{wanted}: {why}" for wanted, why in _conditions(facts, rule.when) if why]
        if not unmet:
            return Placement(rule.tier, "; ".join([f"rule {number} ({rule.tier}) fits", *missed]), number)
        missed.append(f"not rule {number} ({rule.tier}): {', '.join(unmet)}")
    return Placement(rules.unknown_soc, "; ".join(["no rule fits", *missed]), None)


def tier_of(facts: Facts, rules: TierRules) -> TierName:
    """Return the tier alone."""
    return place(facts, rules).tier


def _conditions(facts: Facts, when: When) -> Iterator[tuple[str, str]]:
    """Yield each condition in words and what speaks against it, ``""`` where it holds."""
    ram_gib = None if facts.ram_bytes is None else facts.ram_bytes / _GIB
    mhz = None if facts.cpu_max_khz is None else facts.cpu_max_khz / 1000
    yield from _least(facts, "RAM of {:g} GiB", "ram_bytes", ram_gib, when.ram_gib_min)
    yield from _least(facts, "a core of {:g} MHz", "cpu_max_khz", mhz, when.cpu_max_mhz_min)
    if when.cores_min is not None and when.core_mhz_min is not None:
        wanted = f"{when.cores_min} cores of {when.core_mhz_min:g} MHz"
        yield wanted, _too_few(facts, when.cores_min, when.core_mhz_min)
    yield from _least(facts, "API level {:g}", "sdk", facts.sdk, when.sdk_min)
    yield from _least(
        facts,
        "media performance class {:g}",
        "media_performance_class",
        facts.media_performance_class,
        when.media_performance_class_min,
    )
    if when.cpu_features:
        lacks = sorted(set(when.cpu_features) - {*facts.cpu_features, *(facts.instructions or ())})
        why = _unknown(facts, "instructions") if facts.instructions is None else f"has no {', '.join(lacks)}"
        yield f"CPU with {', '.join(when.cpu_features)}", why if lacks else ""
    if when.gpu:
        yield f"GPU {' or '.join(when.gpu)}", _other_gpu(facts, when.gpu)


def _least(
    facts: Facts, wanted: str, name: str, value: float | None, minimum: float | None
) -> Iterator[tuple[str, str]]:
    if minimum is None:
        return
    if value is None:
        yield wanted.format(minimum), _unknown(facts, name)
    else:
        # Cut, not rounded: 10.996 GiB must not read as 11 where 11 is asked for.
        yield wanted.format(minimum), "" if value >= minimum else f"has {int(value * 100) / 100:g}"


def _too_few(facts: Facts, count: int, mhz: float) -> str:
    clocks = list(facts.core_max_khz.values())
    fast = sum(clock is not None and clock / 1000 >= mhz for clock in clocks)
    silent = clocks.count(None)
    if fast >= count:
        return ""
    if not clocks or fast + silent >= count:
        return f"unknown, {silent} of {len(clocks)} cores tell no clock"
    return f"has {fast}"


def _other_gpu(facts: Facts, words: list[str]) -> str:
    if facts.gpu is None:
        return _unknown(facts, "gpu")
    return "" if any(word.lower() in facts.gpu.lower() for word in words) else f"has {facts.gpu}"


def _unknown(facts: Facts, name: str) -> str:
    return f"unknown, {facts.nulls.get(name, 'the phone does not tell')}"
