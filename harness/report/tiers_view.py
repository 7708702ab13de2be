"""The tier table as the page shows it, worked out from the report: the template only lays it out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.plan.tiers import TIERS, Slo, TierName, TierRules
from harness.report.slo import promises_of
from harness.report.text import celsius, mebibytes, number, percent, plural
from harness.report.tiers import PhoneException, TiersReport
from harness.report.tiers_decide import Choice, Decision, Expected


@dataclass(frozen=True)
class ChoiceRow:
    """A configuration with its figures in words; ``note`` says what is to be known of it."""

    name: str
    proven: str
    figures: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class DecisionView:
    """A decision: the configuration to use and the next ones, or why there is none; (name, by, because) ruled out."""

    rows: tuple[ChoiceRow, ...]
    because: str
    provisional: ChoiceRow | None
    others: str
    ruled_out: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class TierView:
    """One tier; ``promise`` is its SLO in words, (phone, because, instead) are exceptions.

    ``language`` is whether it is to be shown: not where other models alone were run.
    """

    tier: TierName
    phones: str
    promise: str
    decision: DecisionView
    exceptions: tuple[tuple[str, str, str], ...]
    what_if: tuple[str, ...]
    language: bool = True


@dataclass(frozen=True)
class PhoneView:
    """One phone: its tier and why, what to use on it, or ``because`` why nothing."""

    label: str
    tier: TierName
    tier_because: str
    recommended: str
    figures: tuple[str, ...]
    because: str


@dataclass(frozen=True)
class TiersView:
    """The tier table. ``context`` says where its figures hold, ``other_only`` that no language model was run."""

    titles: tuple[str, ...]
    tiers: tuple[TierView, ...]
    phones: tuple[PhoneView, ...]
    context: str
    left_out: tuple[str, ...]
    other_only: bool = False


# The figures' titles, in the order of :func:`_figures`.
_TITLES = ("TTFT ms", "decode tok/s", "sustained", "peak RSS", "least free memory", "max °C", "right answers")


def tiers_view(report: TiersReport, labels: Mapping[str, str]) -> TiersView:
    """Return the tier table; ``labels`` are the phones' names as the rest of the page has them."""
    names = {each.phone.id: labels.get(each.phone.id, each.label) for each in report.phones}
    others = any(each.variants for each in report.tiers)
    return TiersView(
        titles=_TITLES,
        tiers=tuple(
            TierView(
                each.tier,
                plural(len(each.phones), "phone") if each.phones else "no phone",
                promise_of(report.rules, each.tier),
                _decision(each.decision),
                tuple(_exception(one, names) for one in each.exceptions),
                each.what_if,
                each.language or not others,
            )
            for each in sorted(report.tiers, key=lambda one: TIERS.index(one.tier))
        ),
        phones=tuple(
            PhoneView(
                names[each.phone.id],
                each.phone.tier,
                each.tier_because,
                each.decision.recommended.configuration.name if each.decision.recommended else "",
                _figures(each.decision.recommended.expected) if each.decision.recommended else (),
                each.decision.because,
            )
            for each in report.phones
        ),
        context="in an app" if report.contexts == ("app",) else "in the shell; what apps may not load is ruled out",
        left_out=report.left_out,
        other_only=others and not any(each.language for each in report.tiers),
    )


def promise_of(rules: TierRules, tier: TierName) -> str:
    """Return what a tier promises, e.g. ``at 256 prompt tokens: decode speed at least 10.0 tok/s``."""
    slo: Slo | None = rules.slo.get(tier)
    if slo is None:
        return "nothing is promised"
    parts = [words for _, words in promises_of(slo)]
    return f"at {slo.prompt_tokens} prompt tokens: {', '.join(parts) or 'nothing'}"


def _decision(decision: Decision) -> DecisionView:
    best: Sequence[Choice] = [decision.recommended] if decision.recommended else []
    return DecisionView(
        tuple(_row(each) for each in (*best, *decision.runners_up)),
        decision.because,
        None if decision.provisional is None else _row(decision.provisional),
        plural(decision.others, "more configuration would do", "more configurations would do")
        if decision.others
        else "",
        tuple((out.configuration.name, ", ".join(out.by), out.because) for out in decision.ruled_out),
    )


def _row(choice: Choice) -> ChoiceRow:
    proven = f"{len(choice.proven_on)} of {plural(len(choice.tried_on), 'phone')}"
    note = "; ".join(part for part in (choice.apps.because, *choice.warnings) if part)
    return ChoiceRow(choice.configuration.name, proven, _figures(choice.expected), note)


def _figures(expected: Expected) -> tuple[str, ...]:
    shown = (
        (expected.ttft_ms_worst_phone, number),
        (expected.decode_tps_worst_phone, number),
        (expected.sustained_ratio, number),
        (expected.peak_rss_bytes, mebibytes),
        (expected.min_available_bytes, mebibytes),
        (expected.max_c, celsius),
        (expected.golden, percent),
    )
    return tuple("—" if value is None else show(value) for value, show in shown)


def _exception(each: PhoneException, names: Mapping[str, str]) -> tuple[str, str, str]:
    instead = each.instead.configuration.name if each.instead else "nothing met the SLO there"
    return names[each.phone_id], f"{each.configuration.name}: {each.because}", instead
