"""``tiers.json``, schema 1, as a typed model: what apps read. ``profiles/tiers.schema.json`` is made from it.

``python -m harness.report.tiers_json`` prints that file; a test holds the two together. Names are fixed by the
interfaces page; readers ignore what they do not know.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from harness.plan.tiers import TIERS, Slo, TensorSlo, TierName
from harness.report.choosing import RuledOut
from harness.report.configuration_json import (
    ConfigurationJson,
    RecommendedJson,
    RuledOutJson,
    Written,
    for_apps_json,
    plain,
)
from harness.report.tiers import PhoneException, PhoneReport, TierReport, TiersReport
from harness.report.tiers_decide import Choice, Decision
from harness.report.variants_json import VariantsJson, variants_json

_ID = "https://json-schema.org/draft/2020-12/schema"


class ExpectedJson(Written):
    """The worst figure among the phones that keep the SLO with a configuration; null is unknown."""

    ttft_ms_worst_phone: float | None
    decode_tps_worst_phone: float | None
    sustained_ratio: float | None
    peak_rss_bytes: int | None
    min_available_bytes: int | None
    max_c: float | None = Field(description="highest temperature, °C")
    golden: float | None = Field(description="share of right answers")
    proven_on: int = Field(ge=0, description="phones that keep the SLO with it")
    tried_on: int = Field(ge=0, description="phones on which it was tried")


class ChosenJson(Written):
    """A configuration and its figures."""

    configuration: RecommendedJson
    expected: ExpectedJson


class ProvisionalJson(ChosenJson):
    """What keeps all of the SLO that is known."""

    not_known: list[str]


class ExceptionJson(Written):
    """A phone on which the configuration of its tier does not do."""

    id: str
    configuration: ConfigurationJson = Field(description="the tier's")
    because: str
    instead: RecommendedJson | None = Field(description="what to use there; null: nothing met the SLO")


def _optional(*names: str) -> Any:
    """Return what takes keys that not every writer knows out of those that a schema requires."""

    def edit(schema: dict[str, Any]) -> None:
        schema["required"] = [name for name in schema["required"] if name not in names]

    return edit


class _DecisionJson(Written):
    recommended: RecommendedJson | None
    because: str = Field("", description="why nothing is recommended, and what to do instead")
    expected: ExpectedJson | None = None


class TierJson(_DecisionJson):
    """One tier."""

    tier: TierName
    phones: int = Field(ge=0, description="phones of this tier in the run")
    provisional: ProvisionalJson | None = None
    runners_up: list[ChosenJson] = Field(default_factory=list)
    others: int = Field(0, ge=0, description="how many more configurations would do")
    ruled_out: list[RuledOutJson] = Field(default_factory=list)
    exceptions: list[ExceptionJson] = Field(default_factory=list)
    what_if: list[str] = Field(default_factory=list, description="what more memory or another backend would change")
    variants: list[VariantsJson] = Field(
        default_factory=list, description="of each model that is no language model, what to ship"
    )

    model_config = ConfigDict(json_schema_extra=_optional("variants"))


class PhoneJson(_DecisionJson):
    """One phone that was measured; what was ruled out on it stands in the report."""

    id: str
    model: str | None = Field(description="Build.MODEL")
    soc: str | None = Field(description="Build.SOC_MODEL, on phones before Android 12 the platform's name")
    tier: TierName
    tier_because: str
    exceptions: list[ExceptionJson] = Field(default_factory=list)


class RuleJson(Written):
    """A rule: the tier of a phone of which every condition holds."""

    tier: TierName
    when: dict[str, float | int | str | list[str]]


class TiersJson(Written):
    """Which model in which configuration for each tier and each measured phone; rules place the phones nobody measured.

    The first rule whose every condition holds decides; a fact that is unknown meets no condition.
    """

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    run_ids: list[str]
    context: Literal["shell", "app"] = Field(
        description="where the figures hold; where the shell measured, what apps may not load is ruled out"
    )
    rules: list[RuleJson]
    unknown_soc: TierName = Field(description="the tier of a phone that no rule fits")
    slo: dict[TierName, Slo]
    tensor_slo: dict[TierName, TensorSlo] = Field(
        default_factory=dict, description="what tiers promise of models that are no language models"
    )
    left_out: list[str] = Field(default_factory=list, description="which cells do not count")
    tiers: list[TierJson]
    phones: list[PhoneJson]

    model_config = ConfigDict(json_schema_extra=_optional("tensor_slo"))


def document(report: TiersReport) -> TiersJson:
    """Return what is written."""
    rules = report.rules
    return TiersJson(
        run_ids=list(report.run_ids),
        # Where both were measured, the weaker claim holds.
        context="app" if report.contexts == ("app",) else "shell",
        rules=[RuleJson(tier=rule.tier, when=rule.when.given()) for rule in rules.rules],
        unknown_soc=rules.unknown_soc,
        slo={tier: rules.slo[tier] for tier in TIERS if tier in rules.slo},
        tensor_slo={tier: rules.tensor_slo[tier] for tier in TIERS if tier in rules.tensor_slo},
        left_out=list(report.left_out),
        tiers=[_tier(each) for each in report.tiers],
        phones=[_phone(each) for each in report.phones],
    )


def _tier(report: TierReport) -> TierJson:
    return TierJson(
        tier=report.tier,
        phones=len(report.phones),
        provisional=_provisional(report.decision.provisional),
        runners_up=[
            ChosenJson(configuration=_recommended(each), expected=_expected(each))
            for each in report.decision.runners_up
        ],
        others=report.decision.others,
        ruled_out=[_ruled_out(each) for each in report.decision.ruled_out],
        exceptions=[_exception(each) for each in report.exceptions],
        what_if=list(report.what_if),
        variants=[variants_json(each) for each in report.variants],
        **_decision(report.decision),
    )


def _phone(report: PhoneReport) -> PhoneJson:
    phone = report.phone
    return PhoneJson(
        id=phone.id,
        model=phone.model,
        soc=phone.soc,
        tier=phone.tier,
        tier_because=report.tier_because,
        exceptions=[_exception(each) for each in report.exceptions],
        **_decision(report.decision),
    )


def _decision(decision: Decision) -> dict[str, Any]:
    best = decision.recommended
    return {
        "recommended": None if best is None else _recommended(best),
        "because": decision.because,
        "expected": None if best is None else _expected(best),
    }


def _provisional(likely: Choice | None) -> ProvisionalJson | None:
    if likely is None:
        return None
    words = [line.words for line in likely.not_known]
    return ProvisionalJson(configuration=_recommended(likely), expected=_expected(likely), not_known=words)


def _recommended(choice: Choice) -> RecommendedJson:
    return RecommendedJson(**plain(choice.configuration), **for_apps_json(choice.apps), warnings=list(choice.warnings))


def _expected(choice: Choice) -> ExpectedJson:
    return ExpectedJson(**vars(choice.expected), proven_on=len(choice.proven_on), tried_on=len(choice.tried_on))


def _ruled_out(out: RuledOut) -> RuledOutJson:
    return RuledOutJson(**plain(out.configuration), by=list(out.by), because=out.because)


def _exception(each: PhoneException) -> ExceptionJson:
    return ExceptionJson(
        id=each.phone_id,
        configuration=ConfigurationJson(**plain(each.configuration)),
        because=each.because,
        instead=None if each.instead is None else _recommended(each.instead),
    )


def schema_text() -> str:
    """Return the JSON Schema (2020-12) of ``tiers.json``, as ``profiles/tiers.schema.json`` holds it."""
    schema = TiersJson.model_json_schema(by_alias=True, mode="serialization")
    return json.dumps({"$schema": _ID, **schema}, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
