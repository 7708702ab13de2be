"""The variants of each model as the page shows them side by side, and which one to ship. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.plan.tiers import TIERS, TierRules
from harness.report.cells import value_at
from harness.report.slo import promises_of
from harness.report.tensors import accuracy_of, cosine_text, error_text, latency_at, ms_text
from harness.report.text import mebibytes, number, percent, plural
from harness.report.tiers import TierReport
from harness.report.variants import InTier, Model, OnPhone, Refused, Variant, codes_of, models_of, setting_of
from harness.report.variants_decide import VariantChoice, VariantDecision
from harness.store.schema import CellRecord

_NOTHING: Final = "—"
# Of a large run so many rows of phones are listed for a model; the table of all cells has the rest.
_PHONE_ROWS: Final = 200


@dataclass(frozen=True)
class Linked:
    """A figure and the cell that it is from, by the id that links name it by (``""``: no cell)."""

    text: str
    cell: str = ""
    below: str = ""
    title: str = ""


@dataclass(frozen=True)
class VariantRow:
    """A variant in a tier or on a phone: ``where`` (``of`` so many phones); ``says`` what is to be known of it."""

    where: str
    of: str
    variant: str
    stored: str
    size: str
    setting: str
    figures: tuple[Linked, ...]
    ok: bool
    badge: str
    head: str
    says: str
    refused: tuple[Linked, ...] = ()


@dataclass(frozen=True)
class ShipRow:
    """What to ship of a model in a tier: a setting, or why none; (name, by, because) are ruled out."""

    tier: str
    promise: str
    choice: str
    expected: str
    proven: str
    because: str
    provisional: str
    runners_up: tuple[str, ...]
    exceptions: tuple[tuple[str, str, str], ...]
    ruled_out: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class ModelView:
    """One model: what to ship tier by tier, its variants side by side by tier, and phone by phone."""

    name: str
    source: str
    ship: tuple[ShipRow, ...]
    tiers: tuple[VariantRow, ...]
    phones: tuple[VariantRow, ...]
    unlisted: int


# The figures' titles and units, in the order of :func:`_figures`.
TITLES: Final = (
    ("latency p50", "ms"), ("p90", "ms"), ("p99", "ms"), ("load", "ms"), ("peak RSS", ""), ("cosine", "worst output"),
    ("decisions kept", ""), ("largest error", ""),
)  # fmt: skip


def variants_view(
    records: Iterable[CellRecord],
    tiers: Sequence[TierReport],
    rules: TierRules,
    labels: Mapping[str, str],
    short_ids: Mapping[str, str],
) -> tuple[ModelView, ...]:
    """Return a view of each model; ``labels`` are the phones' names, ``short_ids`` the cells' as links name them."""
    decisions: dict[str, list[tuple[str, VariantDecision]]] = {}
    for tier in tiers:
        for each in tier.variants:
            decisions.setdefault(each.source, []).append((tier.tier, each))
    return tuple(
        _model(model, decisions.get(model.source, []), rules, labels, short_ids) for model in models_of(records)
    )


def _model(
    model: Model,
    decisions: Sequence[tuple[str, VariantDecision]],
    rules: TierRules,
    labels: Mapping[str, str],
    short_ids: Mapping[str, str],
) -> ModelView:
    by_tier = dict(decisions)
    tiers = [
        _tier_row(side.variant, each, by_tier.get(each.tier), short_ids) for side in model.sides for each in side.tiers
    ]
    phones = [(side.variant, each) for side in model.sides for each in side.phones]
    return ModelView(
        model.name,
        model.source,
        tuple(_ship(tier, decision, rules, labels) for tier, decision in decisions),
        tuple(row for tier in TIERS for row in tiers if row.where == tier),
        tuple(_phone_row(variant, each, labels, short_ids) for variant, each in phones[:_PHONE_ROWS]),
        max(0, len(phones) - _PHONE_ROWS),
    )


def _tier_row(
    variant: Variant, found: InTier, decision: VariantDecision | None, short_ids: Mapping[str, str]
) -> VariantRow:
    badge, head, says = _standing(variant, decision)
    missing = found.phones - found.measured
    if missing:
        says = "; ".join(filter(None, (says, f"no proven figure on {missing} of {plural(found.phones, 'phone')}")))
    return VariantRow(
        found.tier,
        f"worst of {plural(found.measured, 'phone')}",
        variant.name,
        variant.stored or _NOTHING,
        mebibytes(variant.weight_bytes),
        setting_of(found.slowest),
        _figures(found.slowest, found.largest, found.least, short_ids),
        True,
        badge,
        head,
        says,
    )


def _standing(variant: Variant, decision: VariantDecision | None) -> tuple[str, str, str]:
    """Return the badge, its words and why, for a variant in its tier."""
    if decision is None:
        return "", "", "the rules promise nothing for this tier"
    if decision.recommended is not None and decision.recommended.variant.hash == variant.hash:
        return "ok", "ship", ""
    if any(each.variant.hash == variant.hash for each in decision.runners_up):
        return "skipped", "keeps the SLO", "larger than what is shipped"
    if decision.provisional is not None and decision.provisional.variant.hash == variant.hash:
        return "unsupported", "not proven", decision.provisional.unknowns
    out = next((each for each in decision.ruled_out if each.configuration.model_hash == variant.hash), None)
    if out is None:
        return "skipped", "keeps the SLO", "not among the first"
    return "rejected", "ruled out", ", ".join(out.by)


def _phone_row(variant: Variant, found: OnPhone, labels: Mapping[str, str], short_ids: Mapping[str, str]) -> VariantRow:
    refused = tuple(
        Linked(f"{each.setting}: {each.code}", short_ids[each.cell_id], title=each.detail) for each in found.refused
    )
    best = found.best
    return VariantRow(
        labels[found.phone_id],
        "",
        variant.name,
        variant.stored or _NOTHING,
        mebibytes(variant.weight_bytes),
        _NOTHING if best is None else setting_of(best),
        () if best is None else _figures(best, best, best, short_ids),
        best is not None,
        "ok" if best is not None else "rejected",
        "" if best is not None else "no result",
        "" if best is not None else _why(found.refused),
        refused,
    )


def _why(refused: Sequence[Refused]) -> str:
    return f"none of its cells is ok: {', '.join(codes_of(refused))}"


def _figures(
    slowest: CellRecord, largest: CellRecord | None, least: CellRecord | None, short_ids: Mapping[str, str]
) -> tuple[Linked, ...]:
    accuracy = accuracy_of(least) if least is not None else None
    inputs = accuracy.inputs if accuracy is not None else ""
    said = accuracy.words if accuracy is not None else ""

    def linked(record: CellRecord | None, text: str | None, below: str = "", title: str = "") -> Linked:
        if record is None or text is None:
            return Linked(_NOTHING, title=title)
        return Linked(text, short_ids[record.cell_id], below, title)

    def latency(name: str) -> Linked:
        value = latency_at(slowest, name)
        why = slowest.nulls.get(f"latency_ms.{name}", "")
        return linked(slowest, None if value is None else ms_text(value), title=why)

    load, peak = value_at(slowest, "metrics", "load_ms"), None
    if largest is not None:
        peak = value_at(largest, "metrics", "peak_rss_bytes")
    shown = (
        (None, None, None)
        if accuracy is None
        else (
            None if accuracy.cosine is None else cosine_text(accuracy.cosine),
            None if accuracy.same_positions is None else percent(accuracy.same_positions),
            None if accuracy.max_error is None else error_text(accuracy.max_error),
        )
    )
    return (
        *(latency(name) for name in ("p50", "p90", "p99")),
        linked(slowest, None if load is None else number(load)),
        linked(largest, None if peak is None else mebibytes(peak)),
        linked(least, shown[0], f"over {inputs}" if inputs else "", said),
        linked(least, shown[1], title="" if shown[1] else "its outputs hold no classes to choose from"),
        linked(least, shown[2]),
    )


def _ship(tier: str, decision: VariantDecision, rules: TierRules, labels: Mapping[str, str]) -> ShipRow:
    best, likely = decision.recommended, decision.provisional
    slo = next((slo for name, slo in rules.tensor_slo.items() if name == tier), None)
    return ShipRow(
        tier=tier,
        promise=", ".join(words for _, words in promises_of(slo)) if slo is not None else "",
        choice="" if best is None else _named(best),
        expected="" if best is None else _expected(best),
        proven="" if best is None else f"{len(best.proven_on)} of {plural(len(best.tried_on), 'phone')}",
        because=decision.because,
        provisional="" if likely is None else f"{_named(likely)}: {_expected(likely)}",
        runners_up=tuple(f"{_named(each)}: {_expected(each)}" for each in decision.runners_up),
        exceptions=tuple(
            (labels[each.phone_id], each.because, _named(each.instead) if each.instead else "nothing met the SLO there")
            for each in decision.exceptions
        ),
        ruled_out=tuple((out.configuration.name, ", ".join(out.by), out.because) for out in decision.ruled_out),
    )


def _named(choice: VariantChoice) -> str:
    stored = choice.variant.stored
    return f"{stored}: {choice.configuration.name}" if stored else choice.configuration.name


def _expected(choice: VariantChoice) -> str:
    expected = choice.expected
    parts = [
        mebibytes(choice.variant.weight_bytes),
        "" if expected.latency_ms_worst_phone is None else f"{ms_text(expected.latency_ms_worst_phone)} ms",
        "" if expected.peak_rss_bytes is None else f"{mebibytes(expected.peak_rss_bytes)} at the peak",
        "" if expected.same_positions is None else f"{percent(expected.same_positions)} of decisions kept",
        "" if expected.cosine is None else f"cosine {cosine_text(expected.cosine)}",
        "" if expected.real_inputs is not False else "over random inputs",
    ]
    return ", ".join(filter(None, parts))
