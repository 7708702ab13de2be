"""What a check is and what it finds. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.selfcheck.subject import Subject


class Outcome(Enum):
    """Whether an assumption holds on this phone."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """What one check saw: the evidence as one sentence for people, ``measured`` for programs.

    ``ours`` says that it could not be tried for a reason that is not the phone's.
    """

    outcome: Outcome
    evidence: str
    measured: Mapping[str, Any] = field(default_factory=dict)
    ours: bool = False


def holds(evidence: str, **measured: Any) -> Finding:
    """The assumption holds."""
    return Finding(Outcome.PASS, evidence, measured)


def broken(evidence: str, **measured: Any) -> Finding:
    """The assumption does not hold."""
    return Finding(Outcome.FAIL, evidence, measured)


def unknown(evidence: str, **measured: Any) -> Finding:
    """It cannot be told, and why."""
    return Finding(Outcome.UNKNOWN, evidence, measured)


def untried(evidence: str) -> Finding:
    """It was not tried, and the phone is not to blame."""
    return Finding(Outcome.UNKNOWN, evidence, ours=True)


class NotCheckableError(Exception):
    """A check lacks what it stands on; its text is the reason. It makes the finding ``unknown``."""


@dataclass(frozen=True)
class Check:
    """One assumption about phones.

    Attributes:
        name: by which it is called, in the table and for ``--only``.
        assumes: what we take for granted, as a sentence that is true or false of a phone.
        matters: what goes wrong when it is false.
        advice: what to do then.
        test: tries it. Errors of phone and connection may be raised: they are the finding.
        essential: without it nothing further can be told.
        always: done even when only others of its group were asked for, because those stand on it.
    """

    name: str
    assumes: str
    matters: str
    advice: str
    test: Callable[[Subject], Finding]
    essential: bool = False
    always: bool = False


@dataclass(frozen=True)
class Result:
    """A check and what it found on this phone."""

    check: Check
    finding: Finding
    elapsed_s: float

    @property
    def outcome(self) -> Outcome:
        """Whether the assumption holds."""
        return self.finding.outcome

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        check, finding = self.check, self.finding
        return {
            "name": check.name,
            "outcome": finding.outcome.value,
            "assumes": check.assumes,
            "matters": check.matters,
            "evidence": finding.evidence,
            "advice": check.advice if finding.outcome is Outcome.FAIL else None,
            "measured": dict(finding.measured),
            "elapsed_s": round(self.elapsed_s, 3),
        }
