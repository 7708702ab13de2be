"""Known issues: failures that somebody has a ticket for, in a file of the tested repository, each with its end."""

from __future__ import annotations

import difflib
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from harness.core.reasons import Reason
from harness.core.toml import read_toml
from harness.plan.load import check_against

KNOWN_FILE: Final = "known_issues.toml"
# What a cell is that is ok and proven slower than before: a reason for known issues, not for records.
SLOWER: Final = "slower"
_REASONS: Final = (*(reason.code for reason in Reason), SLOWER)
# So much of a detail is looked at: a pattern costs at most this times its own length.
_DETAIL_LIMIT: Final = 4000
_PATTERN_LIMIT: Final = 200

_Word = Annotated[str, Field(min_length=1, max_length=_PATTERN_LIMIT)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


class Known(_Strict):
    """One known issue. All conditions that are given must hold; ``phone``, ``model`` and ``detail`` are globs.

    In a glob ``*`` stands for any text, ``?`` for one character, ``[ab]`` for one of these.
    """

    ticket: _Word = Field(description="number or address of the ticket")
    expires: date = Field(description="the last day on which it counts as known")
    note: str = Field(min_length=1, max_length=1000, description="what it is, in a few words")
    owner: str | None = Field(None, description="who looks after it")
    reason: _Word | None = Field(None, description="a reason of docs/reasons.md, or slower")
    phone: _Word | None = Field(None, description="glob over the phone's name or model")
    model: _Word | None = Field(None, description="glob over the language model's name")
    backend: _Word | None = Field(None, description="the backend that was asked for")
    detail: _Word | None = Field(None, description="glob over the detail of the record")

    @field_validator("expires", mode="before")
    @classmethod
    def _is_a_day(cls, value: Any) -> Any:
        if type(value) is not date:
            raise ValueError("write a day without quotes, like 2026-12-31")
        return value

    @field_validator("reason")
    @classmethod
    def _is_a_reason(cls, value: str | None) -> str | None:
        if value is not None and value not in _REASONS:
            near = difflib.get_close_matches(value, _REASONS, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"{hint}allowed are {', '.join(_REASONS)}")
        return value

    @model_validator(mode="after")
    def _says_which(self) -> Known:
        if (self.reason, self.phone, self.model, self.backend, self.detail) == (None,) * 5:
            raise ValueError(
                f"it would match every failure ({self.ticket}); give it one of reason, phone, model, backend or detail"
            )
        return self

    def matches(self, reason: str, phones: tuple[str | None, ...], model: str, backend: str, detail: str) -> bool:
        """Whether this is the issue of a cell; ``phones`` are the names its phone goes by."""
        return (
            self.reason in (None, reason)
            and self.backend in (None, backend)
            and (self.phone is None or any(_glob(name, self.phone) for name in phones if name is not None))
            and (self.model is None or _glob(model, self.model))
            and (self.detail is None or _glob(detail, self.detail))
        )

    def expired(self, today: date) -> bool:
        """Whether its last day is over."""
        return self.expires < today


class KnownIssues(_Strict):
    """A file of known issues."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    known: tuple[Known, ...] = Field((), strict=False)


def load_known(path: Path) -> tuple[Known, ...]:
    """Read and check a file of known issues.

    Raises:
        ConfigError: one sentence with file, key and allowed values.
    """
    data = read_toml(path)
    check_against(KnownIssues, data, str(path))
    return KnownIssues.model_validate(data).known


def _glob(text: str, pattern: str) -> bool:
    return fnmatchcase(" ".join(text[:_DETAIL_LIMIT].split()), pattern)
