"""Which tier a phone is in: from its facts, by rules. An unknown fact meets no condition.

A rule may name a CPU feature as the kernel does (``asimddp``) or by our word for it (``dotprod``).
"""

from __future__ import annotations

from harness.phone.facts import Facts
from harness.plan.tiers import TierName, TierRules, When

_GIB = 1024**3


def tier_of(facts: Facts, rules: TierRules) -> TierName:
    """Return the tier of the first rule that fits, else the rules' ``unknown_soc``."""
    for rule in rules.rules:
        if _holds(facts, rule.when):
            return rule.tier
    return rules.unknown_soc


def _holds(facts: Facts, when: When) -> bool:
    ram_gib = None if facts.ram_bytes is None else facts.ram_bytes / _GIB
    mhz = None if facts.cpu_max_khz is None else facts.cpu_max_khz / 1000
    return (
        _at_least(ram_gib, when.ram_gib_min)
        and _at_least(mhz, when.cpu_max_mhz_min)
        and _at_least(facts.sdk, when.sdk_min)
        and set(when.cpu_features) <= {*facts.cpu_features, *(facts.instructions or ())}
    )


def _at_least(value: float | None, minimum: float | None) -> bool:
    return minimum is None or (value is not None and value >= minimum)
