from __future__ import annotations

from typing import Any

import pytest

from harness.phone.drivers import DriverListing
from harness.phone.facts import Facts, Told, build_facts
from harness.phone.gpu import Gpu
from harness.phone.probed import read_probe_facts
from harness.phone.tier import Placement, place, tier_of
from harness.plan.tiers import TierRules, load_tier_rules

GIB = 1 << 30
RAM = {"tier": "high", "when": {"ram_gib_min": 8}}


def phone(
    ram_gib: float | None = 8,
    mhz: int | None = 2400,
    sdk: int | None = 35,
    *features: str,
    cores: int = 1,
    performance_class: int | None = None,
    gpu: str | None = None,
) -> Facts:
    probe: dict[str, Any] = {
        "mem_total_bytes": None if ram_gib is None else int(ram_gib * GIB),
        "cores": [{"cpu": cpu, "max_khz": None if mhz is None else mhz * 1000} for cpu in range(cores)],
        "features": list(features),
    }
    properties = {} if sdk is None else {"ro.build.version.sdk": str(sdk)}
    if performance_class is not None:
        properties["ro.odm.build.media_performance_class"] = str(performance_class)
    told = Told(properties, read_probe_facts(probe), DriverListing("", ""), gpu=Gpu(gpu, None, None))
    return build_facts(told)


def sold(ram_gib: float | None, mhz: int | None, *features: str, **more: Any) -> Facts:
    """A phone of eight cores of one clock."""
    return phone(ram_gib, mhz, 35, *(features or ("asimddp", "asimdhp")), cores=8, **more)


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
        ({"cores_min": 4, "core_mhz_min": 2400}, phone(cores=4), phone(cores=3)),
        ({"cores_min": 4, "core_mhz_min": 2401}, phone(mhz=2401, cores=4), phone(cores=4)),
        ({"media_performance_class_min": 33}, phone(performance_class=34), phone(performance_class=31)),
        ({"gpu": ["adreno", "immortalis"]}, phone(gpu="Adreno (TM) 740"), phone(gpu="Mali-G57 MC2")),
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
        ({"cores_min": 1, "core_mhz_min": 0.0}, phone(mhz=None)),
        ({"media_performance_class_min": 30}, phone(performance_class=0)),
        ({"gpu": [""]}, phone()),
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
        (sold(11.2, 3200), "high"),
        (sold(11.2, 2700), "mid"),
        (sold(11.2, 3200, "asimddp"), "mid"),
        (sold(7.4, 3200), "mid"),
        (sold(7.4, 2400, "asimd"), "low"),
        (phone(7.4, 2400, 35, "asimddp", "asimdhp", cores=1), "low"),
        (sold(5.4, 1900), "low"),
        (sold(3.7, 3200), "low"),
        (sold(None, 3200), "low"),
        (sold(11.2, None), "low"),
        (sold(11.2, None, "asimddp", "asimdhp", "i8mm", performance_class=33), "high"),
        (sold(11.2, None, "asimddp", "asimdhp", performance_class=31), "mid"),
        (sold(5.4, None, performance_class=31), "mid"),
        (sold(3.7, 3200, performance_class=34), "low"),
    ],
)
def test_the_products_own_rules_place_phones_as_they_are_sold(facts: Facts, tier: str) -> None:
    assert tier_of(facts, load_tier_rules()) == tier


def test_the_reason_tells_what_fits_and_which_fact_was_missing_for_more() -> None:
    two = {
        "rules": [
            {"tier": "high", "when": {"ram_gib_min": 11, "cpu_max_mhz_min": 2800, "gpu": ["adreno"]}},
            {"tier": "mid", "when": {"ram_gib_min": 5.2}},
        ]
    }
    found = place(phone(10.996, None, gpu="Mali-G57"), TierRules.model_validate(two))
    assert found == Placement(
        "mid",
        "rule 2 (mid) fits; not rule 1 (high): RAM of 11 GiB: has 10.99, "
        "a core of 2800 MHz: unknown, no core's clock is readable, GPU adreno: has Mali-G57",
        2,
    )


def test_a_phone_that_no_rule_fits_is_placed_all_the_same_and_says_so() -> None:
    found = place(phone(None), TierRules.model_validate({"unknown_soc": "mid", "rules": [RAM]}))
    assert (found.tier, found.rule) == ("mid", None)
    assert (
        found.because
        == "no rule fits; not rule 1 (high): RAM of 8 GiB: unknown, not readable (the phone does not tell)"
    )


def test_cores_that_tell_no_clock_are_no_slow_cores() -> None:
    facts = phone(8, None, cores=6)
    when = {"cores_min": 4, "core_mhz_min": 2000}
    assert "unknown, 6 of 6 cores tell no clock" in place(facts, rules(when)).because
