"""Golden sets: questions with known answers, one TOML file each, found by name or by path.

A file looks like the questions of a plan: ``schema = 1`` and ``[[ask]]`` tables with ``question``, ``expect`` (a
regular expression that a right answer contains, case ignored) and ``max_tokens``.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from harness.core.errors import ConfigError
from harness.core.ids import content_id
from harness.core.resources import profile_file, profile_names
from harness.core.toml import read_toml
from harness.plan.load import check_against
from harness.plan.matrix import PlannedCell
from harness.plan.model import Ask, Golden, Plan

NONE = "none"
# A phone that is slower than this is too slow for any use; a question itself is some 40 tokens.
_SLOWEST_TPS = 2.0
_QUESTION_S = 5.0


class GoldenFile(BaseModel):
    """The typed form of a golden set's file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    ask: list[Ask] = Field(min_length=1)

    @field_validator("ask")
    @classmethod
    def _each_once(cls, asks: list[Ask]) -> list[Ask]:
        question, times = Counter(ask.question for ask in asks).most_common(1)[0]
        if times > 1:
            raise ValueError(f"{question!r} is asked {times} times")
        return asks


def golden_names() -> list[str]:
    """Return the names of the sets that come with the product."""
    return profile_names("golden")


def find_golden(name_or_file: str) -> Path:
    """Return the file of a set given by name or by path.

    Raises:
        ConfigError: neither exists.
    """
    path = profile_file("golden", name_or_file)
    if path is not None:
        return path
    raise ConfigError(
        f"golden set {name_or_file}: there is no such set or file",
        remedy=f"sets are {', '.join(golden_names())}; or name a TOML file, or {NONE}",
    )


def load_golden(path: Path) -> tuple[Ask, ...]:
    """Read and check a set.

    Raises:
        ConfigError: one sentence with place, key and what is wrong.
    """
    data = read_toml(path)
    check_against(GoldenFile, data, str(path))
    return tuple(GoldenFile.model_validate(data).ask)


def with_golden(plan: Plan, given: str | None = None) -> Plan:
    """Return the plan with the questions of its golden set in it, so that it needs the file no more.

    ``given`` names another set than the plan's. A set that was read before is not read again.

    Raises:
        ConfigError: the set cannot be found or read, or the plan runs models that answer no questions.
    """
    if plan.kind == "tensor":
        if given not in (None, NONE):
            raise ConfigError(f"--golden {given}: a plan of kind tensor asks no questions", remedy="leave it out")
        return plan
    golden = plan.golden if given is None else Golden(set=given, tolerance=plan.golden.tolerance)
    if golden.set != NONE and not golden.ask:
        golden = golden.model_copy(update={"ask": list(load_golden(find_golden(golden.set)))})
    return plan.model_copy(update={"golden": golden})


def golden_name(golden: Golden) -> str:
    """Return the name of a set and the hash of its questions and patterns, e.g. ``general 0a1b2c3d4e5f``."""
    name = "plan" if golden.set == NONE else Path(golden.set).stem
    asks = [ask.model_dump(mode="json") for ask in golden.ask]
    return f"{name} {content_id({'ask': asks})[:12]}"


def golden_allowance_s(cell: PlannedCell, plan: Plan) -> float:
    """Return how much longer a cell may take for the golden set, in s, 0 for one that is not asked it."""
    if not cell.leads:
        return 0.0
    return sum(_QUESTION_S + ask.max_tokens / _SLOWEST_TPS for ask in plan.golden.ask)
