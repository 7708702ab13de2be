from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import ConfigError
from harness.plan.tiers import TIERS, load_tier_rules


def test_the_rules_that_come_with_the_product_are_good() -> None:
    rules = load_tier_rules()
    assert [rule.tier for rule in rules.rules] == ["high", "high", "mid", "mid", "low"]
    assert set(rules.slo) == set(TIERS)
    assert rules.unknown_soc == "low"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rules = []\n", "rules needs at least one value"),
        ('[[rules]]\ntier = "top"\n[rules.when]\n', "rules.0.tier: input should be 'high', 'mid' or 'low', not 'top'"),
        (
            '[[rules]]\ntier = "mid"\n[rules.when]\nram_gb_min = 4\n',
            "unknown key 'rules.0.when.ram_gb_min'; did you mean 'ram_gib_min'? keys here are ram_gib_min,",
        ),
        ('[[rules]]\ntier = "mid"\n[rules.when]\nsdk_min = 0\n', "rules.0.when.sdk_min: input should be greater"),
        ('unknown_soc = "none"\n[[rules]]\ntier = "mid"\n[rules.when]\n', "unknown_soc: input should be 'high', 'mid'"),
    ],
)
def test_what_is_wrong_with_the_rules_is_said_in_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "tiers.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_tier_rules(file)
    assert str(caught.value).startswith(f"{file}: {says}")
