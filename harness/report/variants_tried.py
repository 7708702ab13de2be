"""How each variant in each setting stands on each phone, held against what the phone's tier promises. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.reasons import Verdict
from harness.plan.tiers import TensorSlo
from harness.report.cells import value_at
from harness.report.slo import CEILINGS, TENSOR_PROMISES, Figure, comparable, figures_of, judge
from harness.report.tensors import accuracy_of, is_tensor
from harness.report.tiers_tried import Configuration, OnPhone, configuration_of, for_apps, refusal, standing_of
from harness.report.variants import Variant, source_of, variant_of
from harness.store.schema import CellRecord


@dataclass(frozen=True, kw_only=True)
class TriedVariant(OnPhone):
    """One variant in one setting on one phone: of each figure its worst cell's; ``cell_id`` is the slowest cell's.

    ``latency_ms`` is what the promise is about: the 90th percentile, of too few samples the slowest.
    """

    source: str
    variant: Variant
    latency_ms: float | None = None
    peak_rss_bytes: int | None = None
    min_available_bytes: int | None = None
    max_c: float | None = None
    cosine: float | None = None
    same_positions: float | None = None
    same_top1: float | None = None
    max_error: float | None = None
    real_inputs: bool | None = None
    cell_id: str | None = None


def tried_variants(
    records: Iterable[CellRecord], slos: Mapping[str, TensorSlo], facts: Mapping[str, Mapping[str, Any]]
) -> list[TriedVariant]:
    """Return every variant in every setting on every phone, in the order in which they come among the records.

    Args:
        records: the attempts that count, of real engines.
        slos: by phone id; a phone without one is left out.
        facts: of the run's phones, by id.
    """
    groups: dict[tuple[str, str, Configuration], list[CellRecord]] = {}
    for record in records:
        if is_tensor(record) and record.phone.id in slos:
            groups.setdefault((record.phone.id, source_of(record), configuration_of(record)), []).append(record)
    return [
        _one(source, configuration, group, slos[phone_id], facts.get(phone_id, {}))
        for (phone_id, source, configuration), group in groups.items()
    ]


def _one(
    source: str,
    configuration: Configuration,
    group: Sequence[CellRecord],
    slo: TensorSlo,
    facts: Mapping[str, Any],
) -> TriedVariant:
    proven = [record for record in group if comparable(record, slo)]
    figures = _worst_of([figures_of(record) for record in proven]) if proven else _no_figures(group)
    judgement = judge(figures, slo)
    phone = group[0].phone
    apps = for_apps(configuration.backend, facts, phone.context)
    code, because = refusal(group, None, apps)
    standing = standing_of(judgement, code)
    kept = [accuracy for record in proven if (accuracy := accuracy_of(record)) is not None]
    slowest = max(proven, key=lambda record: figures_of(record)["latency_ms"].value or 0.0, default=None)
    return TriedVariant(
        phone_id=phone.id,
        configuration=configuration,
        # What nothing was measured of meets nothing, whatever is promised.
        standing="unknown" if standing == "meets" and not proven else standing,
        judgement=judgement,
        code=code,
        because=because,
        source=source,
        variant=variant_of(group[0]),
        apps=apps,
        latency_ms=figures["latency_ms"].value,
        peak_rss_bytes=max(_known(proven, "metrics", "peak_rss_bytes"), default=None),
        min_available_bytes=min(_known(proven, "metrics", "min_available_bytes"), default=None),
        max_c=max(_known(proven, "thermal", "max_c"), default=None),
        cosine=min((each.cosine for each in kept if each.cosine is not None), default=None),
        same_positions=min((each.same_positions for each in kept if each.same_positions is not None), default=None),
        same_top1=min((each.same_top1 for each in kept if each.same_top1 is not None), default=None),
        max_error=max((each.max_error for each in kept if each.max_error is not None), default=None),
        real_inputs=all(each.real_inputs for each in kept) if kept else None,
        cell_id=slowest.cell_id if slowest is not None else None,
    )


def _worst_of(cells: Sequence[Mapping[str, Figure]]) -> dict[str, Figure]:
    """Return of each figure the worst cell's; what is not known of one cell is not known."""
    found: dict[str, Figure] = {}
    for figures in cells:
        for name, figure in figures.items():
            before = found.setdefault(name, figure)
            if before.value is None or figure.value is None:
                found[name] = before if before.value is None else figure
            elif (figure.value > before.value) is (name in CEILINGS) and figure.value != before.value:
                found[name] = figure
    return found


def _no_figures(group: Sequence[CellRecord]) -> dict[str, Figure]:
    codes = dict.fromkeys(record.reason or "" for record in group if record.verdict is not Verdict.OK)
    why = f"no valid cell: {', '.join(codes)}"
    return {promise.name: Figure(None, why) for promise in TENSOR_PROMISES}


def _known(records: Iterable[CellRecord], section: str, path: str) -> list[Any]:
    return [value for record in records if (value := value_at(record, section, path)) is not None]
