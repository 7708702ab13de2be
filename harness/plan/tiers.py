"""Tier rules as a typed model over ``profiles/tiers.toml``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.core.resources import data_root
from harness.core.toml import read_toml
from harness.plan.load import check_against

TierName = Literal["high", "mid", "low"]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


class When(_Strict):
    """Conditions on a phone's facts; all that are given must hold."""

    ram_gib_min: float | None = Field(None, ge=0, description="MemTotal in GiB")
    cpu_max_mhz_min: float | None = Field(None, ge=0, description="top clock of the fastest core")
    sdk_min: int | None = Field(None, ge=1, description="Android API level")
    cpu_features: list[str] = Field(
        default_factory=list, description="names as /proc/cpuinfo prints them, or ours (dotprod, fp16)"
    )


class TierRule(_Strict):
    """One rule: which tier, when."""

    tier: TierName
    when: When


class TierRules(_Strict):
    """All rules, in order."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    unknown_soc: TierName = "low"
    rules: list[TierRule] = Field(min_length=1)


def load_tier_rules(path: Path | None = None) -> TierRules:
    """Read and check the tier rules (default: those that come with the product).

    Raises:
        ConfigError: one sentence with file, key and allowed values.
    """
    file = path or data_root() / "profiles" / "tiers.toml"
    data = read_toml(file)
    check_against(TierRules, data, str(file))
    return TierRules.model_validate(data)
