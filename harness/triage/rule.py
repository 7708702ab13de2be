"""The rules of triage as data: TOML files in ``rules/``, read once and validated.

A rule says which lines prove what: ``any`` of some patterns, ``all`` of others (within some lines of each other where
``within`` says so), ``none`` of a third group. Each pattern names needles, literals of which one stands in every line
that it matches: a log is searched for those first (:mod:`harness.triage.scan`). Examples in the rules are run as tests.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness.core.errors import ConfigError
from harness.core.reasons import Fault
from harness.core.toml import read_toml
from harness.triage.entry import Kind
from harness.triage.scan import GRAM

FOLDER = Path(__file__).with_name("rules")

Severity = Literal["error", "warning", "info"]
Proof = Literal["cause", "symptom", "hint"]
_GROUP = re.compile(r"(?<!\{)\{(\w+)\}")
# Open ends that let a hostile line cost more than its length: wild cards and groups without a bound.
_UNBOUNDED = re.compile(r"(?<!\\)\.[*+]|(?<!\\)\)(?:[*+]|\{\d*,\})")
_MOST_GAPS = 4


class Frozen(BaseModel):
    """A part of a rule: fixed, and with no key that nobody reads."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Pattern(Frozen):
    """What a line must look like.

    Attributes:
        regex: searched for in the line without its log prefix; named groups may be used in the rule's texts.
        needles: at least one of them stands in every line that matches, to the letter.
        kinds: of lines, all where it is empty.
        tags: of a phone's log; lines without a tag pass.
        count: so many lines have to match.
    """

    regex: str
    needles: tuple[str, ...] = Field(min_length=1)
    kinds: tuple[Kind, ...] = ()
    tags: tuple[str, ...] = ()
    count: int = Field(default=1, ge=1, le=20)

    @model_validator(mode="after")
    def _is_safe(self) -> Pattern:
        try:
            re.compile(self.regex)
        except re.error as error:
            raise ValueError(f"{self.regex!r} is no regular expression: {error}") from None
        if short := [needle for needle in self.needles if len(needle.encode()) < GRAM]:
            raise ValueError(f"{short[0]!r} is too short a needle: {GRAM} bytes at least")
        if _UNBOUNDED.search(self.regex) or max(part.count(".{") for part in self.regex.split("|")) > _MOST_GAPS:
            raise ValueError(f"{self.regex!r} has open wild cards: bound them, as in .{{0,80}}")
        return self


class Rule(Frozen):
    """One thing that can be known from evidence, and what to do about it.

    Attributes:
        id: this rule's own name.
        code: the finding's code; rules that tell the same kind of fault by other evidence share it.
        severity: ``error`` something does not work or a figure is not true, ``warning`` it may be, ``info`` harmless.
        fault: whose it is.
        proof: whether the evidence shows the cause itself, what followed from it, or only a hint.
        weight: which of two equally strong findings stands first: the more specific one has more.
        title, cause, advice: for people; ``{group}`` is what a pattern's named group caught, ``group2`` another place
            for the same thing; ``defaults`` are for groups that caught nothing.
        source: where this is known from: a public thread, a document, a source file.
        suppresses: ids of weaker findings that this one explains.
        alone: told only where no other error was found.
        needs: ids of findings of which all are there, besides this rule's own patterns: evidence is combined.
    """

    id: str = Field(pattern=r"^[a-z][a-z0-9_]+$")
    code: str = Field(pattern=r"^[a-z][a-z0-9_]+$")
    severity: Severity
    fault: Fault
    proof: Proof = "cause"
    weight: int = Field(default=0, ge=-50, le=50)
    title: str = Field(max_length=200)
    cause: str
    advice: tuple[str, ...] = Field(min_length=1)
    source: tuple[str, ...] = Field(min_length=1)
    any: tuple[Pattern, ...] = ()
    all: tuple[Pattern, ...] = ()
    none: tuple[Pattern, ...] = ()
    within: int | None = Field(default=None, ge=0, le=5000)
    needs: tuple[str, ...] = ()
    alone: bool = False
    suppresses: tuple[str, ...] = ()
    defaults: dict[str, str] = {}
    positive: tuple[str, ...] = Field(min_length=1)
    negative: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _is_whole(self) -> Rule:
        if not (self.any or self.all or self.needs):
            raise ValueError(f"rule {self.id} has no pattern")
        told = {
            plain_name(group) for pattern in (*self.any, *self.all) for group in re.compile(pattern.regex).groupindex
        }
        for text in (self.title, self.cause, *self.advice):
            if unknown := set(_GROUP.findall(text)) - told - set(self.defaults):
                raise ValueError(f"rule {self.id} uses {sorted(unknown)}, which no pattern catches")
        return self


class RuleFile(Frozen):
    """One file of rules."""

    rule: tuple[Rule, ...]


def read_rules(folder: Path) -> tuple[Rule, ...]:
    """Read every rule of a folder.

    Raises:
        ConfigError: a file is not TOML, a rule is not whole, or names a rule that is not there.
    """
    rules: list[Rule] = []
    for path in sorted(folder.glob("*.toml")):
        try:
            rules += RuleFile.model_validate(read_toml(path)).rule
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise ConfigError(f"{path}: {place}: {first['msg']}", remedy="correct that rule") from None
    ids = [rule.id for rule in rules]
    if twice := sorted({name for name in ids if ids.count(name) > 1}):
        raise ConfigError(f"{folder}: {', '.join(twice)} is there twice", remedy="give each rule its own id")
    unknown = [
        f"{rule.id} names {name}" for rule in rules for name in (*rule.suppresses, *rule.needs) if name not in ids
    ]
    if unknown:
        raise ConfigError(f"{folder}: {'; '.join(unknown)}, which is no rule", remedy="correct the name")
    return tuple(rules)


def plain_name(group: str) -> str:
    """Return the name that texts use for a group: an expression may hold a name only once."""
    return group.rstrip("0123456789")


@cache
def shipped_rules() -> tuple[Rule, ...]:
    """Return the rules that come with mnn-farm."""
    return read_rules(FOLDER)
