"""Which variant of a model to ship, as ``tiers.json`` tells it."""

from __future__ import annotations

from pydantic import Field

from harness.report.configuration_json import RecommendedJson, RuledOutJson, Written, for_apps_json, plain
from harness.report.variants_decide import VariantChoice, VariantDecision


class VariantJson(RecommendedJson):
    """A variant of a model that is no language model, and how to run it."""

    stored: str = Field(description="how its weights are stored: fp32, fp16, int8, int8-calibrated, int4")


class ExpectedVariantJson(Written):
    """The worst figure among the phones that keep the SLO with a variant; null is unknown."""

    latency_ms_worst_phone: float | None = Field(description="90th percentile, of fewer than 20 samples the slowest")
    peak_rss_bytes: int | None
    min_available_bytes: int | None
    max_c: float | None = Field(description="highest temperature, °C")
    cosine: float | None = Field(description="cosine similarity of the worst output, mean over the samples")
    same_positions: float | None = Field(description="share of decisions as the reference's; null: it decides nothing")
    same_top1: float | None = Field(description="share of samples that decide the same everywhere")
    max_error: float | None = Field(description="largest absolute error")
    real_inputs: bool | None = Field(description="whether accuracy was measured over real inputs")
    proven_on: int = Field(ge=0, description="phones that keep the SLO with it")
    tried_on: int = Field(ge=0, description="phones on which it was tried")


class ChosenVariantJson(Written):
    """A variant and its figures."""

    configuration: VariantJson
    expected: ExpectedVariantJson


class ProvisionalVariantJson(ChosenVariantJson):
    """What keeps all of the SLO that is known."""

    not_known: list[str]


class RuledOutVariantJson(RuledOutJson):
    """A variant in a setting that is not to be used, and why."""

    stored: str


class VariantExceptionJson(Written):
    """A phone on which the variant of its tier does not do."""

    id: str
    because: str
    instead: VariantJson | None = Field(description="what to use there; null: nothing met the SLO")


class VariantsJson(Written):
    """Which variant of one model to ship: the smallest that keeps the promised accuracy, latency and memory."""

    source: str = Field(description="SHA-256 of the model that the variants were converted from")
    name: str
    recommended: VariantJson | None
    because: str = Field("", description="why nothing is recommended, and what to do instead")
    expected: ExpectedVariantJson | None = None
    provisional: ProvisionalVariantJson | None = None
    runners_up: list[ChosenVariantJson] = Field(default_factory=list)
    others: int = Field(0, ge=0, description="how many more settings would do")
    ruled_out: list[RuledOutVariantJson] = Field(default_factory=list)
    exceptions: list[VariantExceptionJson] = Field(default_factory=list)


def variants_json(decision: VariantDecision) -> VariantsJson:
    """Return the decision for one model as it is written."""
    best, likely = decision.recommended, decision.provisional
    return VariantsJson(
        source=decision.source,
        name=decision.name,
        recommended=None if best is None else _variant(best),
        because=decision.because,
        expected=None if best is None else _expected_of(best),
        provisional=None
        if likely is None
        else ProvisionalVariantJson(
            configuration=_variant(likely),
            expected=_expected_of(likely),
            not_known=[line.words for line in likely.not_known],
        ),
        runners_up=[
            ChosenVariantJson(configuration=_variant(each), expected=_expected_of(each)) for each in decision.runners_up
        ],
        others=decision.others,
        ruled_out=[
            RuledOutVariantJson(
                **plain(out.configuration),
                by=list(out.by),
                because=out.because,
                stored=decision.variants[out.configuration.model_hash].stored,
            )
            for out in decision.ruled_out
        ],
        exceptions=[
            VariantExceptionJson(
                id=each.phone_id,
                because=each.because,
                instead=None if each.instead is None else _variant(each.instead),
            )
            for each in decision.exceptions
        ],
    )


def _variant(choice: VariantChoice) -> VariantJson:
    return VariantJson(**plain(choice.configuration), **for_apps_json(choice.apps), stored=choice.variant.stored)


def _expected_of(choice: VariantChoice) -> ExpectedVariantJson:
    counts = {"proven_on": len(choice.proven_on), "tried_on": len(choice.tried_on)}
    return ExpectedVariantJson(**vars(choice.expected), **counts)
