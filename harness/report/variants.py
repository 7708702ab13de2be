"""The variants of one model side by side: full, half precision, 8 bits, …; what each needs and keeps. Pure.

Variants share the model that they were converted from (``model.source``). Of each variant on each phone the fastest
proven setting (backend, threads, precision) counts; of a tier its worst phone, with the setting that is fastest there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.core.reasons import Verdict
from harness.plan.tiers import TIERS, TierName
from harness.report.cells import backend_label, numerics_label, threads_label, value_at
from harness.report.tensors import Accuracy, accuracy_of, exactness, is_tensor, latency_at, stored_of
from harness.report.text import cut, distinct, one_line
from harness.store.schema import CellRecord

_DETAIL = 160


@dataclass(frozen=True)
class Variant:
    """One way to store a model's weights; ``hash`` is that of its folder."""

    name: str
    hash: str
    stored: str
    weight_bytes: int


@dataclass(frozen=True)
class Refused:
    """A setting that gave no result on a phone, and why."""

    setting: str
    code: str
    detail: str
    cell_id: str


@dataclass(frozen=True)
class OnPhone:
    """A variant on one phone: its fastest ``ok`` cell, ``None`` where there is none, and what was refused."""

    phone_id: str
    tier: TierName
    best: CellRecord | None
    refused: tuple[Refused, ...]


@dataclass(frozen=True)
class InTier:
    """A variant in one tier: on ``measured`` of ``phones`` there is a proven figure.

    ``slowest`` is the best cell of the phone that is slowest with it, ``largest`` of the one that needs most memory,
    ``least`` of the one on which it keeps least accuracy.
    """

    tier: TierName
    phones: int
    measured: int
    slowest: CellRecord
    largest: CellRecord | None
    least: CellRecord | None


@dataclass(frozen=True)
class Side:
    """One variant: tier by tier and phone by phone."""

    variant: Variant
    tiers: tuple[InTier, ...]
    phones: tuple[OnPhone, ...]


@dataclass(frozen=True)
class Model:
    """A model and its variants, the most exact first; ``source`` is the hash of what they were converted from."""

    source: str
    name: str
    sides: tuple[Side, ...]


def source_of(record: CellRecord) -> str:
    """Return what a cell's model was converted from: a model of which that is not known is its own."""
    return record.model.source or record.model.hash


def variant_of(record: CellRecord) -> Variant:
    """Return which variant a cell ran."""
    model = record.model
    return Variant(one_line(model.name), model.hash, stored_of(record), model.weight_bytes)


def models_of(records: Iterable[CellRecord]) -> tuple[Model, ...]:
    """Return the models of all tensor cells, in the order in which they come among the records."""
    found: dict[str, dict[Variant, dict[str, list[CellRecord]]]] = {}
    for record in records:
        if is_tensor(record):
            variants = found.setdefault(source_of(record), {})
            variants.setdefault(variant_of(record), {}).setdefault(record.phone.id, []).append(record)
    return tuple(_model(source, variants) for source, variants in found.items())


def in_order(variants: Iterable[Variant]) -> list[Variant]:
    """Return variants with the most exact first; of the same weights the larger one."""
    return sorted(variants, key=lambda each: (exactness(each.stored), -each.weight_bytes, each.name))


def name_of(variants: Iterable[Variant]) -> str:
    """Return what a model is called: as the most exact of its variants."""
    return in_order(variants)[0].name


def setting_of(record: CellRecord) -> str:
    """Return how a cell was run, e.g. ``CPU low / low, 4 threads``."""
    affinity = record.config.affinity
    parts = [f"{backend_label(record)} {numerics_label(record)}", threads_label(record)]
    return one_line(", ".join(parts + ([f"cores {affinity}"] if affinity not in (None, "any") else [])))


def _model(source: str, variants: Mapping[Variant, Mapping[str, Sequence[CellRecord]]]) -> Model:
    return Model(source, name_of(variants), tuple(_side(each, variants[each]) for each in in_order(variants)))


def _side(variant: Variant, by_phone: Mapping[str, Sequence[CellRecord]]) -> Side:
    phones = tuple(_on_phone(phone_id, group) for phone_id, group in by_phone.items())
    tiers = (_in_tier(tier, [each for each in phones if each.tier == tier]) for tier in TIERS)
    return Side(variant, tuple(each for each in tiers if each is not None), phones)


def _on_phone(phone_id: str, group: Sequence[CellRecord]) -> OnPhone:
    proven = [record for record in group if record.verdict is Verdict.OK]
    refused = (record for record in group if record.verdict is not Verdict.OK)
    return OnPhone(
        phone_id,
        group[0].phone.tier,
        min(proven, key=_latency, default=None),
        tuple(
            Refused(setting_of(each), each.reason or "", cut(one_line(each.detail), _DETAIL), each.cell_id)
            for each in refused
        ),
    )


def _in_tier(tier: TierName, phones: Sequence[OnPhone]) -> InTier | None:
    cells = [each.best for each in phones if each.best is not None]
    if not cells:
        return None
    sized = [cell for cell in cells if value_at(cell, "metrics", "peak_rss_bytes") is not None]
    compared = [(accuracy, cell) for cell in cells if (accuracy := accuracy_of(cell)) is not None]
    return InTier(
        tier,
        len(phones),
        len(cells),
        max(cells, key=_latency),
        max(sized, key=lambda cell: int(value_at(cell, "metrics", "peak_rss_bytes")), default=None),
        min(compared, key=lambda pair: loss_key(pair[0]), default=(None, None))[1],
    )


def loss_key(accuracy: Accuracy) -> tuple[float, float, float]:
    """Return what accuracies are sorted by, the least first: decisions, then direction, then the largest error."""
    decisions = 1.0 if accuracy.same_positions is None else accuracy.same_positions
    cosine = 1.0 if accuracy.cosine is None else accuracy.cosine
    return decisions, cosine, -(accuracy.max_error or 0.0)


def _latency(record: CellRecord) -> float:
    """Return the median latency of an ``ok`` tensor cell, which always has one."""
    return latency_at(record, "p50") or 0.0


def codes_of(refused: Sequence[Refused]) -> list[str]:
    """Return the codes of what was refused, each once."""
    return distinct(each.code for each in refused)
