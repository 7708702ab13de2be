"""What differs between two phones or cells and could matter, ranked. Pure; the ranking is ``differences.toml``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Literal, TypeGuard

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from harness.core.errors import ConfigError
from harness.core.reasons import Reason
from harness.core.toml import read_toml
from harness.triage.side import Side, Value

FILE = Path(__file__).with_name("differences.toml")

# A kind of failure besides the reasons of records: both cells are ok, and one is much slower.
SLOW = "slow"
# Below this weight a difference is folded, unless it explains the failure.
MATTERS = 30
# A cell is slow beside another at less than this share of its speed.
SLOW_RATIO = 0.8


class Ranking(BaseModel):
    """What is known of a difference in some fields.

    Attributes:
        fields: names or patterns (``cpu_feature.sme*``); of several rankings that fit, the first counts.
        title: what it is, for people.
        why: why it matters for language models in MNN.
        explains: kinds of failure: codes of :class:`~harness.core.reasons.Reason`, or ``slow``.
        usual: those of them of which it is the usual explanation: there it comes before heavier ones.
        worse: which side it speaks against, where that is known: the one that has ``less`` or ``more`` of it.
        weight: how often such a difference explains such a failure, 1 to 100.
        source: where this is known from.
        backends: where both sides are cells and neither asks for one of these, it cannot matter; empty: always.
        ratio: numbers that differ by less than this share of the larger are the same.
        within: numbers that differ by no more are the same.
        enough: numbers that both reach this are the same.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    fields: tuple[str, ...] = Field(min_length=1)
    title: str = Field(min_length=1)
    why: str = Field(min_length=1)
    explains: tuple[str, ...] = ()
    usual: tuple[str, ...] = ()
    worse: Literal["less", "more"] | None = None
    weight: int = Field(ge=1, le=100)
    source: tuple[str, ...] = Field(min_length=1)
    backends: tuple[str, ...] = ()
    ratio: float = Field(default=0.0, ge=0, lt=1)
    within: float = Field(default=0.0, ge=0)
    enough: float | None = None

    @field_validator("explains")
    @classmethod
    def _is_known(cls, kinds: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := set(kinds) - {SLOW, *(reason.code for reason in Reason)}:
            raise ValueError(f"{sorted(unknown)} is no reason of a record")
        return kinds

    @model_validator(mode="after")
    def _usual_is_explained(self) -> Ranking:
        if unknown := set(self.usual) - set(self.explains):
            raise ValueError(f"{sorted(unknown)} is usual and not explained")
        return self

    def fits(self, name: str) -> bool:
        """Return whether this ranking is about the field ``name``."""
        return any(fnmatchcase(name, pattern) for pattern in self.fields)

    def concerns(self, a: Side, b: Side) -> bool:
        """Return whether it can matter for what ``a`` and ``b`` ran."""
        asked = {a.told("config.backend"), b.told("config.backend")}
        return not self.backends or None in asked or not asked.isdisjoint(self.backends)

    def speaks_against(self, good: Value, bad: Value) -> bool:
        """Return whether it can be the worse side that has ``bad``."""
        if self.worse is None:
            return True
        amounts = _amount(good), _amount(bad)
        return amounts[0] <= amounts[1] if self.worse == "more" else amounts[0] >= amounts[1]

    def same(self, a: Value, b: Value) -> bool:
        """Return whether two values are the same for all that matters."""
        if a == b or not _is_number(a) or not _is_number(b):
            return a == b
        if self.enough is not None and min(a, b) >= self.enough:
            return True
        return abs(a - b) <= max(self.within, self.ratio * max(abs(a), abs(b)))


@dataclass(frozen=True)
class Difference:
    """A field that differs.

    ``told`` says that it explains the failure at hand, ``usual`` that it usually does, ``concerns`` that it can matter
    for what ran at all.
    """

    name: str
    a: Value
    b: Value
    ranking: Ranking
    told: bool = False
    concerns: bool = True
    usual: bool = False

    @property
    def matters(self) -> bool:
        """Whether it could matter."""
        return self.told or (self.concerns and self.ranking.weight >= MATTERS)


@dataclass(frozen=True)
class Unknown:
    """A field that cannot be compared; the reasons are ``None`` on the side that knows it."""

    name: str
    why_a: str | None
    why_b: str | None
    weight: int
    told: bool = False


@dataclass(frozen=True)
class Comparison:
    """Two sides compared. ``kinds`` are the failures that one of them has and the other has not."""

    a: Side
    b: Side
    kinds: frozenset[str]
    differences: tuple[Difference, ...]
    same: int
    unknown: tuple[Unknown, ...]

    @property
    def matters(self) -> tuple[Difference, ...]:
        """The differences that could matter, in order."""
        return tuple(one for one in self.differences if one.matters)


def compare(a: Side, b: Side, rankings: Sequence[Ranking] | None = None) -> Comparison:
    """Compare two sides: what usually explains the failure at hand comes first, then what may, then by weight."""
    known = shipped_rankings() if rankings is None else rankings
    kinds = kinds_of(a, b)
    bad = worse_of(a, b)
    differences, unknown, same = list[Difference](), list[Unknown](), 0
    for name in a.fields | b.fields:
        ranking = next((one for one in known if one.fits(name)), None)
        if ranking is None:
            continue
        left, right = a.told(name), b.told(name)
        concerns = ranking.concerns(a, b)
        told = concerns and not kinds.isdisjoint(ranking.explains)
        if left is None or right is None:
            whys = (a.why(name) if left is None else None, b.why(name) if right is None else None)
            unknown.append(Unknown(name, *whys, ranking.weight, told))
        elif ranking.same(left, right):
            same += 1
        else:
            if bad is not None:
                told = told and ranking.speaks_against(*((left, right) if bad is b else (right, left)))
            usual = told and not kinds.isdisjoint(ranking.usual)
            differences.append(Difference(name, left, right, ranking, told, concerns, usual))
    differences.sort(key=lambda one: (not one.told, not one.usual, not one.concerns, -one.ranking.weight, one.name))
    unknown.sort(key=lambda one: (not one.told, -one.weight, one.name))
    return Comparison(a, b, kinds, tuple(differences), same, tuple(unknown))


def kinds_of(a: Side, b: Side) -> frozenset[str]:
    """Return the failures that one side has and the other has not; of two that are ok, whether one is slow."""
    if a.reason or b.reason:
        return frozenset({a.reason, b.reason} - {None}) if a.reason != b.reason else frozenset()  # type: ignore[arg-type]
    ratios = [ratio_of(a, b, name) for name in ("decode_tps", "prefill_tps")]
    slow = any(ratio is not None and not SLOW_RATIO <= ratio <= 1 / SLOW_RATIO for ratio in ratios)
    return frozenset({SLOW}) if slow else frozenset()


def worse_of(a: Side, b: Side) -> Side | None:
    """Return the side that failed where the other did not, or that is slow beside it; ``None`` where none is."""
    if (a.reason is None) != (b.reason is None):
        return b if a.reason is None else a
    if a.reason is not None:
        return None
    ratios = [ratio for name in ("decode_tps", "prefill_tps") if (ratio := ratio_of(a, b, name)) is not None]
    slow, fast = any(ratio < SLOW_RATIO for ratio in ratios), any(ratio > 1 / SLOW_RATIO for ratio in ratios)
    return None if slow == fast else b if slow else a


def _amount(value: Value) -> float:
    """Return how much a value is: of a text only whether there is one."""
    return float(value) if isinstance(value, int | float) else float(bool(value))


def ratio_of(a: Side, b: Side, name: str) -> float | None:
    """Return an outcome of ``b`` over that of ``a``; ``None`` where one of them is no number above 0."""
    left, right = a.outcomes.get(name), b.outcomes.get(name)
    if not _is_number(left) or not _is_number(right) or left <= 0 or right <= 0:
        return None
    return right / left


def _is_number(value: Value | None) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def read_rankings(path: Path) -> tuple[Ranking, ...]:
    """Read a file of rankings.

    Raises:
        ConfigError: it is not TOML, or a ranking is not whole.
    """
    try:
        return _File.model_validate(read_toml(path)).difference
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{path}: {place}: {first['msg']}", remedy="correct that ranking") from None


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    difference: tuple[Ranking, ...]


@cache
def shipped_rankings() -> tuple[Ranking, ...]:
    """Return the rankings that come with mnn-farm."""
    return read_rankings(FILE)


def as_json(found: Comparison) -> Mapping[str, object]:
    """Return what ``mnn-farm diff --json`` prints; a side that is unknown is ``null`` with its reason."""
    ended = sorted({*found.a.outcomes, *found.b.outcomes})
    return {
        "a": found.a.name,
        "b": found.b.name,
        "failures": sorted(found.kinds),
        "differences": [
            {
                "field": one.name,
                "a": one.a,
                "b": one.b,
                "weight": one.ranking.weight,
                "matters": one.matters,
                "why": one.ranking.why,
                "explains": list(one.ranking.explains),
                "source": list(one.ranking.source),
            }
            for one in found.differences
        ],
        "same": found.same,
        "unknown": [{"field": one.name, "a": one.why_a, "b": one.why_b} for one in found.unknown],
        "outcomes": [
            {
                "field": name,
                "a": found.a.outcomes.get(name),
                "b": found.b.outcomes.get(name),
                "ratio": ratio_of(found.a, found.b, name),
            }
            for name in ended
        ],
    }
