"""Which variant of a model to ship for a tier or a phone, which next, which not and why. Pure.

Accuracy, latency and memory are promises; among the variants that are proven to keep all of them the order is:

1. the fewest bytes of weights: every user downloads, stores and loads them, and accuracy beyond the promise was not
   asked for;
2. latency on the slowest phone; within 3 % of the fastest counts as equally fast;
3. least peak memory, then least temperature, fewer threads, the setting by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from harness.report.slo import Missed, unknowns_in_words
from harness.report.text import distinct, listing
from harness.report.tiers_decide import (
    EQUALLY_FAST,
    Labels,
    RuledOut,
    closest_of,
    frugal,
    judged,
    place_of,
    ruled_out_by_refusal,
    ruled_out_by_slo,
)
from harness.report.tiers_tried import Configuration, ForApps
from harness.report.variants import Variant, in_order, name_of
from harness.report.variants_tried import TriedVariant

_DO_INSTEAD: Final = "convert it with other weights, take a smaller model, or use the server"


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


@dataclass(frozen=True)
class VariantChoice:
    """A variant and how to run it: ``proven_on`` keep the SLO with it, of ``tried_on``."""

    variant: Variant
    configuration: Configuration
    expected: Expected
    proven_on: tuple[str, ...]
    tried_on: tuple[str, ...]
    apps: ForApps
    not_known: tuple[Missed, ...] = ()
    met: tuple[str, ...] = ()

    @property
    def unknowns(self) -> str:
        """What is not known of it, in words."""
        return unknowns_in_words(self.not_known)


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

    Which settings count is decided as for language models (:func:`harness.report.tiers_decide.decide`).
    """
    by_source: dict[str, list[TriedVariant]] = {}
    for each in tried:
        by_source.setdefault(each.source, []).append(each)
    return tuple(_with_exceptions(_decide(group, labels), group, labels) for group in by_source.values())


def _decide(tried: Sequence[TriedVariant], labels: Labels) -> VariantDecision:
    proven, open_ones, out = [], [], []
    for configuration, group, verdict in judged(tried):
        behind = [each for each in group if each.standing == verdict]
        if verdict == "meets":
            proven.append(_choice(configuration, behind, group))
        elif verdict == "unknown":
            open_ones.append(_choice(configuration, behind, group))
        elif verdict == "misses":
            out.append(ruled_out_by_slo(configuration, behind, labels))
        else:
            out.append(ruled_out_by_refusal(configuration, behind, len(group), labels))
    ranked = _ranked(proven)
    shown = _one_each(ranked)
    likely = [] if ranked else _ranked(each for each in open_ones if each.met)
    provisional = likely[0] if likely else None
    out += [RuledOut(each.configuration, ("not_known",), each.unknowns) for each in open_ones if each != provisional]
    variants = {each.variant.hash: each.variant for each in tried}
    return VariantDecision(
        source=tried[0].source,
        name=name_of(variants.values()),
        variants={each.hash: each for each in in_order(variants.values())},
        recommended=ranked[0] if ranked else None,
        because="" if ranked else _why_none(provisional, open_ones, tried),
        provisional=provisional,
        runners_up=tuple(shown[1:]),
        others=len(ranked) - len(shown),
        ruled_out=tuple(sorted(out, key=place_of)),
    )


def _choice(
    configuration: Configuration, behind: Sequence[TriedVariant], group: Sequence[TriedVariant]
) -> VariantChoice:
    def worst(pick: Callable[[Iterable[Any]], Any], name: str) -> Any:
        values = [value for each in behind if (value := getattr(each, name)) is not None]
        return pick(values) if values else None

    unsure = [each.apps for each in behind if not each.apps.allowed]
    return VariantChoice(
        group[0].variant,
        configuration,
        Expected(
            worst(max, "latency_ms"), worst(max, "peak_rss_bytes"), worst(min, "min_available_bytes"),
            worst(max, "max_c"), worst(min, "cosine"), worst(min, "same_positions"), worst(min, "same_top1"),
            worst(max, "max_error"), worst(min, "real_inputs"),
        ),
        tuple(each.phone_id for each in behind if each.standing == "meets"),
        tuple(each.phone_id for each in group),
        unsure[0] if unsure else ForApps(True),
        tuple(dict.fromkeys(line for each in behind for line in each.judgement.unknown)),
        tuple(distinct(name for each in behind for name in each.judgement.met)),
    )  # fmt: skip


def _ranked(choices: Iterable[VariantChoice]) -> list[VariantChoice]:
    """Return them in the order of preference."""
    by_size: dict[tuple[int, str], list[VariantChoice]] = {}
    for choice in choices:
        by_size.setdefault((choice.variant.weight_bytes, choice.variant.hash), []).append(choice)
    ranked: list[VariantChoice] = []
    for _, group in sorted(by_size.items()):
        group.sort(key=_latency)
        while group:
            limit = _latency(group[0]) / (1 - EQUALLY_FAST)
            fast = [choice for choice in group if _latency(choice) <= limit]
            ranked += sorted(fast, key=lambda each: frugal(each.configuration, each.expected))
            group = group[len(fast) :]
    return ranked


def _latency(choice: VariantChoice) -> float:
    latency = choice.expected.latency_ms_worst_phone
    return float("inf") if latency is None else latency


def _one_each(ranked: Iterable[VariantChoice]) -> list[VariantChoice]:
    """Return the best setting of each variant."""
    return list({choice.variant.hash: choice for choice in reversed(list(ranked))}.values())[::-1]


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


def _why_none(
    provisional: VariantChoice | None, open_ones: Sequence[VariantChoice], tried: Sequence[TriedVariant]
) -> str:
    if provisional is not None:
        return (
            f"no variant is proven to meet the SLO. {provisional.configuration.name} meets what is known of it; "
            f"not known: {provisional.unknowns}"
        )
    if open_ones:
        return f"nothing is proven of what the SLO promises; not known: {open_ones[0].unknowns}"
    nearest, closest = "", closest_of(tried)
    if closest is not None:
        words = listing([line.words for line in closest.judgement.missed])
        nearest = f" (closest: {closest.configuration.name}: {words})"
    return f"no variant met the SLO: {_DO_INSTEAD}{nearest}"
