"""Which variant of a model to ship for a tier or a phone, which next, which not and why. Pure.

Accuracy, latency and memory are promises; among the variants that are proven to keep all of them the order is:

1. the fewest bytes of weights: every user downloads, stores and loads them, and accuracy beyond the promise was not
   asked for;
2. latency on the slowest phone; within 3 % of the fastest counts as equally fast;
3. least peak memory, then least temperature, fewer threads, the setting by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from harness.report.choosing import (
    Chosen,
    Labels,
    RuledOut,
    Terms,
    best_of_each,
    in_preference,
    phones_of,
    weigh,
    worst,
)
from harness.report.tiers_tried import Configuration
from harness.report.variants import Variant, in_order, name_of
from harness.report.variants_tried import TriedVariant


@dataclass(frozen=True)
class Expected:
    """What to expect of a variant: of each figure the worst among the phones that keep the SLO with it."""

    latency_ms_worst_phone: float | None
    peak_rss_bytes: int | None
    min_available_bytes: int | None
    max_c: float | None
    cosine: float | None
    same_positions: float | None
    same_top1: float | None
    max_error: float | None
    real_inputs: bool | None


@dataclass(frozen=True, kw_only=True)
class VariantChoice(Chosen):
    """A variant and how to run it."""

    variant: Variant
    expected: Expected


@dataclass(frozen=True)
class VariantException:
    """A phone that refuses the tier's choice, why, and what to use there (``None``: nothing)."""

    phone_id: str
    because: str
    instead: VariantChoice | None


@dataclass(frozen=True)
class VariantDecision:
    """What to ship of one model. Without ``recommended``, ``because`` says why and what to do instead.

    ``variants`` are all that were tried, by the hash of their folder; ``runners_up`` the other ones that would do, each
    in its best setting; ``others`` counts further settings that would.
    """

    source: str
    name: str
    variants: Mapping[str, Variant]
    recommended: VariantChoice | None
    because: str
    provisional: VariantChoice | None
    runners_up: tuple[VariantChoice, ...]
    others: int
    ruled_out: tuple[RuledOut, ...]
    exceptions: tuple[VariantException, ...] = ()


def decide_variants(tried: Sequence[TriedVariant], labels: Labels) -> tuple[VariantDecision, ...]:
    """Return the decision for each model that was tried on phones of one tier, in the order of ``tried``.

    Which settings count is decided as for language models (:func:`harness.report.choosing.weigh`).
    """
    by_source: dict[str, list[TriedVariant]] = {}
    for each in tried:
        by_source.setdefault(each.source, []).append(each)
    return tuple(_with_exceptions(_decide(group, labels), group, labels) for group in by_source.values())


def _decide(tried: Sequence[TriedVariant], labels: Labels) -> VariantDecision:
    weighed = weigh(tried, labels, _TERMS)
    shown = best_of_each(weighed.proven, lambda choice: choice.variant.hash)
    variants = {each.variant.hash: each.variant for each in tried}
    return VariantDecision(
        source=tried[0].source,
        name=name_of(variants.values()),
        variants={each.hash: each for each in in_order(variants.values())},
        recommended=weighed.recommended,
        because=weighed.because,
        provisional=weighed.provisional,
        runners_up=tuple(shown[1:]),
        others=len(weighed.proven) - len(shown),
        ruled_out=weighed.ruled_out,
    )


def _choice(
    configuration: Configuration, behind: Sequence[TriedVariant], group: Sequence[TriedVariant]
) -> VariantChoice:
    return VariantChoice(
        configuration=configuration,
        variant=group[0].variant,
        expected=Expected(
            latency_ms_worst_phone=worst(behind, max, "latency_ms"),
            peak_rss_bytes=worst(behind, max, "peak_rss_bytes"),
            min_available_bytes=worst(behind, min, "min_available_bytes"),
            max_c=worst(behind, max, "max_c"),
            cosine=worst(behind, min, "cosine"),
            same_positions=worst(behind, min, "same_positions"),
            same_top1=worst(behind, min, "same_top1"),
            max_error=worst(behind, max, "max_error"),
            real_inputs=worst(behind, min, "real_inputs"),
        ),
        **phones_of(behind, group),
    )


def _ranked(choices: Iterable[VariantChoice]) -> list[VariantChoice]:
    return in_preference(
        choices,
        size=lambda choice: (choice.variant.weight_bytes, choice.variant.hash),
        speed=_speed,
        needs=lambda choice: choice.expected,
    )


def _speed(choice: VariantChoice) -> float:
    latency = choice.expected.latency_ms_worst_phone
    return 1 / latency if latency else 0.0


_TERMS: Final = Terms(
    _choice, _ranked, "variant", "convert it with other weights, take a smaller model, or use the server"
)


def _with_exceptions(decision: VariantDecision, tried: Sequence[TriedVariant], labels: Labels) -> VariantDecision:
    best = decision.recommended
    if best is None:
        return decision
    refusing = [each for each in tried if each.configuration == best.configuration and each.standing == "refused"]
    by_phone: dict[str, list[TriedVariant]] = {each.phone_id: [] for each in refusing}
    for each in tried:
        if each.phone_id in by_phone:
            by_phone[each.phone_id].append(each)
    exceptions = (
        VariantException(each.phone_id, each.because, _decide(by_phone[each.phone_id], labels).recommended)
        for each in refusing
    )
    return replace(decision, exceptions=tuple(exceptions))
