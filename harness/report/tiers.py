"""Which model in which configuration for each tier and each phone, from a run folder alone: ``tiers.json``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from harness.plan.tiers import TIERS, Slo, TierName, TierRules, load_tier_rules
from harness.report.recommend_text import tolerance_of
from harness.report.slo import SYNTHETIC
from harness.report.tensors import cosine_text, is_tensor, ms_text
from harness.report.text import cut, one_line, percent, plural
from harness.report.tiers_decide import Choice, Decision, decide
from harness.report.tiers_tried import Configuration, Tried, tried
from harness.report.tiers_what_if import what_if
from harness.report.variants_decide import VariantDecision, decide_variants
from harness.report.variants_tried import TriedVariant, tried_variants
from harness.store.head import RunInfo
from harness.store.runfolder import RunFolder, write_atomically
from harness.store.schema import CellRecord, PhoneInfo

FILE: Final = "tiers.json"
# A reason that is longer is cut at the end of a run; the page has all of it.
_LINE: Final = 160


@dataclass(frozen=True)
class PhoneException:
    """A phone on which the configuration of its tier does not do, why, and what to use there (``None``: nothing)."""

    phone_id: str
    configuration: Configuration
    because: str
    instead: Choice | None


@dataclass(frozen=True)
class TierReport:
    """One tier: ids of its phones, the decision, exceptions, and what would change it.

    ``variants`` are the decisions for models that are no language models, ``language`` whether one of these was run.
    """

    tier: TierName
    phones: tuple[str, ...]
    decision: Decision
    exceptions: tuple[PhoneException, ...] = ()
    what_if: tuple[str, ...] = ()
    variants: tuple[VariantDecision, ...] = ()
    language: bool = True


@dataclass(frozen=True)
class PhoneReport:
    """One phone: its own decision, by its tier's SLO; ``label`` is for people and stays out of ``tiers.json``."""

    phone: PhoneInfo
    label: str
    tier_because: str
    decision: Decision
    exceptions: tuple[PhoneException, ...] = ()


@dataclass(frozen=True)
class TiersReport:
    """Everything that ``tiers.json`` and the page's tier table hold. ``left_out`` says which cells do not count."""

    run_ids: tuple[str, ...]
    contexts: tuple[str, ...]
    rules: TierRules
    tiers: tuple[TierReport, ...]
    phones: tuple[PhoneReport, ...]
    left_out: tuple[str, ...] = ()


def tiers_of(info: RunInfo, records: Sequence[CellRecord], rules: TierRules) -> TiersReport:
    """Return the report; ``records`` are the attempts that count, phones are in the tier that the run put them in."""
    real = [record for record in records if record.bundle.engine != SYNTHETIC]
    phones = _phones(info, records)
    facts = {member.phone.id: {**member.facts, "nulls": member.nulls} for member in info.fleet}
    slos = {phone.id: slo for phone in phones.values() if (slo := rules.slo.get(phone.tier)) is not None}
    found: dict[str, list[Tried]] = {phone_id: [] for phone_id in phones}
    for each in tried(real, slos, facts, tolerance_of(info.plan)):
        found[each.phone_id].append(each)
    labels = _labels(phones)
    rams = {
        phone_id: ram
        for phone_id, phone in phones.items()
        if (ram := phone.ram_bytes or facts.get(phone_id, {}).get("ram_bytes")) is not None
    }
    alone = {phone_id: decide(its, labels, explain=False) for phone_id, its in found.items()}
    tiers = [_tier(tier, phones, found, alone, rams, labels, rules.slo.get(tier)) for tier in TIERS]
    if any(is_tensor(record) for record in real):
        tiers = _with_variants(tiers, phones, real, rules, facts, labels)
    because = {member.phone.id: member.tier_because for member in info.fleet}
    exceptions = {each.phone_id: each for tier in tiers for each in tier.exceptions}
    return TiersReport(
        run_ids=tuple(dict.fromkeys([info.run_id, *(record.run_id for record in records)])),
        contexts=tuple(sorted({record.phone.context for record in real})) or ("shell",),
        rules=rules,
        tiers=tuple(tiers),
        phones=tuple(
            PhoneReport(
                phone, labels[phone_id], because.get(phone_id, ""), alone[phone_id],
                tuple([exceptions[phone_id]] if phone_id in exceptions else []),
            )
            for phone_id, phone in phones.items()
        ),
        left_out=_left_out(records, rules),
    )  # fmt: skip


def together(runs: Sequence[tuple[RunInfo, Sequence[CellRecord]]]) -> tuple[RunInfo, list[CellRecord]]:
    """Return several runs as one, such as bursts and soaks of the same phones: a plan holds one kind only.

    The head is the first run's with the phones of all, each as the last run knows it. Of a cell that several runs
    measured the attempt that began last counts.
    """
    fleet = {member.phone.id: member for info, _ in runs for member in info.fleet}
    latest: dict[str, CellRecord] = {}
    for record in (record for _, records in runs for record in records):
        before = latest.get(record.cell_id)
        if before is None or (record.started, record.attempt) >= (before.started, before.attempt):
            latest[record.cell_id] = record
    return runs[0][0].model_copy(update={"fleet": tuple(fleet.values())}), list(latest.values())


def tiers_of_runs(runs: Sequence[Path | RunFolder], tiers: Path | None = None) -> TiersReport:
    """Return what the records of several run folders recommend together; ``tiers`` is a file of one's own.

    Raises:
        ConfigError: one of the folders is not a run folder, or one of the files cannot be read.
    """
    folders = [RunFolder.open(path) for path in runs]
    info, records = together([(folder.read_info(), folder.latest()) for folder in folders])
    return tiers_of(info, records, load_tier_rules(tiers))


def tiers_json(report: TiersReport) -> str:
    """Return the text of ``tiers.json``."""
    from harness.report.tiers_json import document

    return document(report).model_dump_json(indent=1, by_alias=True) + "\n"


def write_tiers(run_dir: Path | RunFolder) -> Path:
    """Write ``tiers.json`` into a run folder, whole or not at all; return where.

    Raises:
        ConfigError: ``run_dir`` is not a run folder, or its head cannot be read.
    """
    folder = RunFolder.open(run_dir)
    target = folder.path / FILE
    write_atomically(target, tiers_json(tiers_of_runs([folder])).encode())
    return target


def lines_of(report: TiersReport) -> list[str]:
    """Return one line for each tier that has phones, for a terminal."""
    lines = []
    for each in report.tiers:
        best = each.decision.recommended
        if each.phones and best is not None:
            share = f"proven on {len(best.proven_on)} of {plural(len(each.phones), 'phone')}"
            lines.append(f"tier {each.tier}: {best.configuration.name}, {share}")
        elif each.phones and (each.language or not each.variants):
            lines.append(f"tier {each.tier}: nothing recommended: {_in_short(each.decision)}")
        lines += variant_lines(each)
    return lines


def variant_lines(report: TierReport) -> list[str]:
    """Return one line for each model of which a variant is to be shipped, or none."""
    lines = []
    for each in report.variants:
        best = each.recommended
        head = f"tier {report.tier}, {each.name}"
        if best is None:
            lines.append(cut(one_line(f"{head}: no variant recommended: {each.because}"), 2 * _LINE))
            continue
        expected = best.expected
        kept = [
            f"{percent(expected.same_positions)} of decisions kept" if expected.same_positions is not None else "",
            f"cosine {cosine_text(expected.cosine)}" if expected.cosine is not None else "",
        ]
        told = [
            f"{head}: ship {best.variant.stored or best.variant.name}, {best.configuration.name}",
            "" if expected.latency_ms_worst_phone is None else f"{ms_text(expected.latency_ms_worst_phone)} ms",
            next(filter(None, kept), ""),
            f"proven on {len(best.proven_on)} of {plural(len(report.phones), 'phone')}",
        ]
        lines.append(", ".join(filter(None, told)))
    return lines


def _in_short(decision: Decision) -> str:
    likely = decision.provisional
    if likely is None:
        return cut(one_line(decision.because), _LINE)
    missing = ", ".join(dict.fromkeys(line.name for line in likely.not_known))
    return f"{likely.configuration.name} meets what is known of it; not known: {missing}"


def _phones(info: RunInfo, records: Sequence[CellRecord]) -> dict[str, PhoneInfo]:
    phones = {member.phone.id: member.phone for member in info.fleet}
    for record in records:
        phones.setdefault(record.phone.id, record.phone)
    return phones


def _labels(phones: Mapping[str, PhoneInfo]) -> dict[str, str]:
    """Return what people call a phone that they do not have: model and chip, with a number where several are alike."""
    plain = {key: one_line(phone.model or phone.soc or "a phone") for key, phone in phones.items()}
    alike = Counter(plain.values())
    seen: Counter[str] = Counter()
    labels = {}
    for key, name in plain.items():
        seen[name] += 1
        labels[key] = f"{name} #{seen[name]}" if alike[name] > 1 else name
    return labels


def _tier(
    tier: TierName,
    phones: Mapping[str, PhoneInfo],
    found: Mapping[str, Sequence[Tried]],
    alone: Mapping[str, Decision],
    rams: Mapping[str, int],
    labels: Mapping[str, str],
    slo: Slo | None,
) -> TierReport:
    own = tuple(phone_id for phone_id, phone in phones.items() if phone.tier == tier)
    if not own:
        why = f"no phone of this tier took part: measure one (pytest --devices tier={tier})"
        return TierReport(tier, (), _nothing(why))
    if slo is None:
        return TierReport(tier, own, _nothing("the rules promise nothing for this tier: add [slo." + tier + "]"))
    its = [each for phone_id in own for each in found[phone_id]]
    decision = decide(its, labels)
    return TierReport(tier, own, decision, _exceptions(decision, its, alone), what_if(decision, its, rams, labels))


def _with_variants(
    tiers: Sequence[TierReport],
    phones: Mapping[str, PhoneInfo],
    real: Sequence[CellRecord],
    rules: TierRules,
    facts: Mapping[str, Mapping[str, Any]],
    labels: Mapping[str, str],
) -> list[TierReport]:
    """Return the tiers with which variant of each model to ship there."""
    slos = {key: slo for key, phone in phones.items() if (slo := rules.tensor_slo.get(phone.tier)) is not None}
    by_tier: dict[str, list[TriedVariant]] = {tier: [] for tier in TIERS}
    for each in tried_variants(real, slos, facts):
        by_tier[phones[each.phone_id].tier].append(each)
    language = {phones[record.phone.id].tier for record in real if not is_tensor(record)}
    return [
        replace(each, variants=decide_variants(by_tier[each.tier], labels), language=each.tier in language)
        for each in tiers
    ]


def _nothing(because: str) -> Decision:
    return Decision(None, because, None, (), 0, ())


def _exceptions(decision: Decision, its: Sequence[Tried], alone: Mapping[str, Decision]) -> tuple[PhoneException, ...]:
    """Return the phones that refuse what their tier uses; those on which it is not known are none."""
    if decision.recommended is None:
        return ()
    wanted = decision.recommended.configuration
    return tuple(
        PhoneException(each.phone_id, wanted, each.because, alone[each.phone_id].recommended)
        for each in its
        if each.configuration == wanted and each.standing == "refused"
    )


def _left_out(records: Sequence[CellRecord], rules: TierRules) -> tuple[str, ...]:
    ordered = sum(record.bundle.engine == SYNTHETIC for record in records)
    tensors = sum(
        is_tensor(record) and record.bundle.engine != SYNTHETIC and record.phone.tier not in rules.tensor_slo
        for record in records
    )
    lines = []
    if ordered:
        lines.append(f"{plural(ordered, 'cell')} of the synthetic engine: its figures are ordered, not measured")
    if tensors:
        lines.append(f"{plural(tensors, 'tensor cell')}: the rules promise nothing of them: add [tensor_slo.TIER]")
    return tuple(lines)
