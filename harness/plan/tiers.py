"""Tier rules and what tiers promise (SLOs), as a typed model over ``profiles/tiers.toml``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harness.core.resources import data_root
from harness.core.toml import read_toml
from harness.plan.load import check_against

TierName = Literal["high", "mid", "low"]
TIERS: tuple[TierName, ...] = get_args(TierName)


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


class When(_Strict):
    """Conditions on a phone's facts; all that are given must hold. A fact that is unknown meets none."""

    ram_gib_min: float | None = Field(None, ge=0, description="MemTotal in GiB")
    cpu_max_mhz_min: float | None = Field(None, ge=0, description="top clock of the fastest core")
    cores_min: int | None = Field(None, ge=1, description="so many cores have at least the top clock core_mhz_min")
    core_mhz_min: float | None = Field(None, ge=0, description="top clock of those cores")
    sdk_min: int | None = Field(None, ge=1, description="Android API level")
    media_performance_class_min: int | None = Field(
        None, ge=30, description="Build.VERSION.MEDIA_PERFORMANCE_CLASS, an API level; Android 12 and later"
    )
    cpu_features: list[str] = Field(
        default_factory=list, description="names as /proc/cpuinfo prints them, or ours (dotprod, fp16)"
    )
    gpu: list[str] = Field(
        default_factory=list, description="words of which the GPU's name contains one; capitals do not matter"
    )

    @model_validator(mode="after")
    def _cores_with_their_clock(self) -> When:
        if (self.cores_min is None) is not (self.core_mhz_min is None):
            raise ValueError("cores_min and core_mhz_min belong together")
        return self

    def given(self) -> dict[str, Any]:
        """Return the conditions that are given, by name."""
        return self.model_dump(exclude_defaults=True)


class TierRule(_Strict):
    """One rule: which tier, when."""

    tier: TierName
    when: When


class Slo(_Strict):
    """What a tier promises. A promise that is ``None`` is not made."""

    prompt_tokens: int = Field(ge=1, description="the prompt length at which latency and speed are promised")
    ttft_ms: float | None = Field(None, gt=0, description="time to first token, 90th percentile, at most")
    decode_tps: float | None = Field(None, gt=0, description="decode speed, median, at least")
    sustained_ratio: float | None = Field(None, gt=0, le=1, description="sustained over burst speed, at least")
    ram_share_max: float | None = Field(None, gt=0, le=1, description="peak RSS over MemTotal, at most")
    min_available_bytes: int | None = Field(None, ge=0, description="free memory of the phone meanwhile, at least")
    golden: float | None = Field(None, ge=0, le=1, description="share of right answers, at least")


class TensorSlo(_Strict):
    """What a tier promises of models that are no language models. A promise that is ``None`` is not made."""

    latency_ms: float | None = Field(None, gt=0, description="one inference, 90th percentile, at most")
    cosine: float | None = Field(None, ge=0, le=1, description="cosine similarity of the worst output, mean, at least")
    same_positions: float | None = Field(
        None, ge=0, le=1, description="share of decisions that stay the same, at least"
    )
    same_top1: float | None = Field(None, ge=0, le=1, description="share of samples that decide the same, at least")
    ram_share_max: float | None = Field(None, gt=0, le=1, description="peak RSS over MemTotal, at most")
    min_available_bytes: int | None = Field(None, ge=0, description="free memory of the phone meanwhile, at least")


class TierRules(_Strict):
    """All rules, in order, and what each tier promises: ``slo`` of language models, ``tensor_slo`` of others."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    unknown_soc: TierName = "low"
    rules: list[TierRule] = Field(min_length=1)
    slo: dict[TierName, Slo] = Field(default_factory=dict)
    tensor_slo: dict[TierName, TensorSlo] = Field(default_factory=dict)


def load_tier_rules(path: Path | None = None) -> TierRules:
    """Read and check the tier rules (default: those that come with the product).

    Raises:
        ConfigError: one sentence with file, key and allowed values.
    """
    file = path or data_root() / "profiles" / "tiers.toml"
    data = read_toml(file)
    check_against(TierRules, data, str(file))
    return TierRules.model_validate(data)
