from __future__ import annotations

from typing import Any

import pytest

from harness.phone.drivers import DriverListing
from harness.phone.facts import Facts, Told, build_facts
from harness.phone.probed import read_probe_facts
from harness.phone.tier import tier_of
from harness.plan.tiers import TierRules, load_tier_rules

GIB = 1 << 30


def phone(ram_gib: float | None = 8, mhz: int | None = 2400, sdk: int | None = 35, *features: str) -> Facts:
    probe: dict[str, Any] = {
        "mem_total_bytes": None if ram_gib is None else int(ram_gib * GIB),
        "cores": [{"cpu": 0, "max_khz": None if mhz is None else mhz * 1000}],
        "features": list(features),
    }
    properties = {} if sdk is None else {"ro.build.version.sdk": str(sdk)}
    return build_facts(Told(properties, read_probe_facts(probe), DriverListing("", "")))


def rules(when: dict[str, Any]) -> TierRules:
    return TierRules.model_validate({"unknown_soc": "low", "rules": [{"tier": "high", "when": when}]})


@pytest.mark.parametrize(
    ("when", "good", "bad"),
    [
        ({"ram_gib_min": 8.0}, phone(8), phone(7.99)),
        ({"cpu_max_mhz_min": 2400}, phone(mhz=2400), phone(mhz=2399)),
        ({"sdk_min": 35}, phone(sdk=35), phone(sdk=34)),
        ({"cpu_features": ["i8mm"]}, phone(8, 2400, 35, "i8mm", "sve"), phone(8, 2400, 35, "sve")),
        ({"cpu_features": ["dotprod"]}, phone(8, 2400, 35, "asimddp"), phone(8, 2400, 35, "asimdhp")),
        ({"ram_gib_min": 4.0, "sdk_min": 35}, phone(8, sdk=35), phone(8, sdk=34)),
    ],
)
def test_every_condition_of_a_rule_must_hold(when: dict[str, Any], good: Facts, bad: Facts) -> None:
    assert (tier_of(good, rules(when)), tier_of(bad, rules(when))) == ("high", "low")


@pytest.mark.parametrize(
    ("when", "facts"),
    [
        ({"ram_gib_min": 0.0}, phone(None)),
        ({"cpu_max_mhz_min": 0.0}, phone(mhz=None)),
        ({"sdk_min": 1}, phone(sdk=None)),
        ({"cpu_features": ["i8mm"]}, phone()),
    ],
)
def test_an_unknown_fact_meets_no_condition_not_even_the_least(when: dict[str, Any], facts: Facts) -> None:
    assert tier_of(facts, rules(when)) == "low"


def test_the_first_rule_that_fits_decides() -> None:
    both = TierRules.model_validate(
        {"rules": [{"tier": "mid", "when": {"ram_gib_min": 4}}, {"tier": "high", "when": {"ram_gib_min": 8}}]}
    )
    assert tier_of(phone(12), both) == "mid"


@pytest.mark.parametrize(
    ("facts", "tier"),
    [
        (phone(11.2, 3200), "high"),
        (phone(11.2, 2700), "mid"),
        (phone(7.4, 3200), "mid"),
        (phone(5.4, 1900), "low"),
        (phone(3.7, 3200), "low"),
        (phone(None, 3200), "low"),
        (phone(11.2, None), "low"),
    ],
)
def test_the_products_own_rules_place_phones_as_they_are_sold(facts: Facts, tier: str) -> None:
    assert tier_of(facts, load_tier_rules()) == tier
