"""A rung of the ladder, and what became of it: held, broke, or could not be checked and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from harness.core.errors import FarmError
from harness.core.reasons import Fault, Reason
from harness.report.advice import ADVICE
from harness.triage.finding import Finding
from harness.triage.triage import Source, triage

_EVIDENCE_LINES, _LINE_LENGTH = 6, 300
# What helps a run of many cells; a climb has nothing to go on with.
_RESUME = "run again with `--resume`"


class State(str, Enum):
    """What became of a rung."""

    HELD = "held"
    BROKE = "broke"
    UNKNOWN = "not checkable"


@dataclass(frozen=True)
class Rung:
    """One step up.

    Attributes:
        name: one word, for people and programs.
        adds: the one thing that it adds to those below, as a clause.
        why: what it means when this one is the first to break.
    """

    name: str
    adds: str
    why: str


@dataclass(frozen=True)
class Outcome:
    """What became of a rung.

    Attributes:
        state: held, broke or not checkable.
        detail: what was seen, in one clause; of a rung that could not be checked: why.
        reason: why it broke, by the one list of reasons.
        evidence: lines that were seen, most telling first.
        code: the kind of the likeliest cause, as ``mnn-farm triage`` names it; empty where nothing is known.
        cause: why that happens, in a sentence.
        advice: what to do, in steps.
        reproduce: a command that shows the same again.
        record: the id of the cell in the run folder, where the rung was one.
        raw: folder with its raw output, below the run folder.
        seconds: how long it took.
    """

    state: State
    detail: str = ""
    reason: Reason | None = None
    evidence: tuple[str, ...] = ()
    code: str = ""
    cause: str = ""
    advice: tuple[str, ...] = ()
    reproduce: str = ""
    record: str | None = None
    raw: str | None = None
    seconds: float = 0.0

    @property
    def fault(self) -> Fault | None:
        """Whose fault it is that the rung broke."""
        return None if self.reason is None else self.reason.fault

    @property
    def is_absence(self) -> bool:
        """Whether it broke on what the phone, or the build, simply does not have."""
        return self.reason in (Reason.BACKEND_NOT_BUILT, Reason.BACKEND_MISSING_ON_PHONE)


def held(detail: str = "") -> Outcome:
    """Return that a rung holds."""
    return Outcome(State.HELD, detail)


def unknown(why: str) -> Outcome:
    """Return that a rung cannot be checked; the climb goes on."""
    return Outcome(State.UNKNOWN, why)


def broke(reason: Reason, detail: str, *, advice: Sequence[str] = (), evidence: Sequence[str] = ()) -> Outcome:
    """Return that a rung broke; without advice that of the reason is taken."""
    return Outcome(
        State.BROKE,
        detail,
        reason,
        evidence=telling(evidence),
        cause=_sentence(reason.says),
        advice=tuple(advice) or (ADVICE[reason].replace(_RESUME, "climb again"),),
    )


def broke_by(error: FarmError) -> Outcome:
    """Return that a rung broke by an error; what triage knows of its words is taken for the cause."""
    outcome = broke(error.reason, error.message, advice=(error.remedy,) if error.remedy else ())
    return explained(outcome, [Source.of_text("error", error.message)])


def explained(outcome: Outcome, sources: Sequence[Source]) -> Outcome:
    """Return a rung that broke with the likeliest cause that the rules of triage know of these texts."""
    errors = [finding for finding in triage(sources) if finding.severity == "error"]
    return caused(outcome, errors[0]) if errors else outcome


def caused(outcome: Outcome, finding: Finding) -> Outcome:
    """Return a rung that broke, with the cause, the evidence and the advice of a finding."""
    seen = [f"{line.source}:{line.line}: {line.text}" for line in finding.evidence]
    return replace(
        outcome,
        code=finding.code,
        cause=finding.cause or finding.title,
        advice=finding.advice or outcome.advice,
        evidence=telling([*seen, *outcome.evidence]),
    )


def telling(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the first lines that people can read, each once, whether or not its source stands before it."""
    kept: list[str] = []
    for line in (line.strip()[:_LINE_LENGTH] for text in texts for line in text.splitlines()):
        if line and "\ufffd" not in line and not any(one.endswith(line) for one in kept):
            kept.append(line)
    return tuple(kept[:_EVIDENCE_LINES])


def _sentence(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:]}."


@dataclass(frozen=True)
class Step:
    """A rung and how it is tried.

    Attributes:
        rung: which.
        test: tries it; every :class:`FarmError` that it raises breaks the rung.
        sibling: it stands beside the rung before it, not on it: it is tried even if that one broke.
    """

    rung: Rung
    test: Callable[[], Outcome]
    sibling: bool = False
