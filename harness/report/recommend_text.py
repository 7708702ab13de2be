"""The choice of a configuration in words: for the page and for the end of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.report.recommend import DEFAULT_TOLERANCE, Candidate, Choice, Standing, choices
from harness.report.text import backend_name, number, one_line, percent, plural
from harness.store.schema import CellRecord

# More phones and models than this are left to the page.
_LINES: Final = 12
_HEADS: Final[dict[Standing, str]] = {
    "recommended": "recommended", "slower": "not needed", "wrong": "not recommended", "unproven": "not recommended",
    "unscored": "not recommended",
}  # fmt: skip
_BADGES: Final[dict[Standing, str]] = {
    "recommended": "ok", "slower": "skipped", "wrong": "rejected", "unproven": "unsupported", "unscored": "unsupported",
}  # fmt: skip


def tolerance_of(plan: Mapping[str, Any]) -> float:
    """Return how much worse a configuration may answer than the best, by the plan in a run's head."""
    golden = plan.get("golden")
    tolerance = golden.get("tolerance") if isinstance(golden, dict) else None
    return float(tolerance) if isinstance(tolerance, (int, float)) else DEFAULT_TOLERANCE


def choices_of(records: Sequence[CellRecord], plan: Mapping[str, Any]) -> list[Choice]:
    """Return the choices of a run; ``plan`` is the one in its head."""
    return choices(records, tolerance_of(plan))


def name_of(candidate: Candidate) -> str:
    """Return e.g. ``CPU low / low, 4 threads``."""
    parts = [f"{backend_name(candidate.backend)} {candidate.precision} / {candidate.memory}"]
    if candidate.backend == "cpu" and candidate.threads is not None:
        parts.append(plural(candidate.threads, "thread"))
    if candidate.affinity not in (None, "any"):
        parts.append(f"cores {candidate.affinity}")
    if candidate.engine:
        parts.append(candidate.engine)
    return one_line(", ".join(parts))


def score_of(candidate: Candidate) -> str:
    """Return e.g. ``31/50 (48.2 % to 74.1 %)``; ``""`` for one that was asked nothing."""
    if candidate.score is None:
        return ""
    interval = candidate.score.ci95
    return f"{candidate.score}" + (f" ({percent(interval[0])} to {percent(interval[1])})" if interval else "")


@dataclass(frozen=True)
class Row:
    """One configuration in its table; ``head`` and ``because`` are its verdict, ``badge`` the colour of that."""

    name: str
    standing: Standing
    speed: str
    ttft: str
    score: str
    questions: str
    badge: str
    head: str
    because: str


@dataclass(frozen=True)
class ChoiceTable:
    """The configurations of one model on one phone, fastest first. ``because``: why none is recommended."""

    label: str
    model: str
    shape: str
    because: str
    rows: tuple[Row, ...]


def tables_of(found: Sequence[Choice], labels: Mapping[str, str]) -> list[ChoiceTable]:
    """Return the choices as the page shows them; ``labels`` names phones by their ids."""
    return [
        ChoiceTable(
            labels[choice.phone_id],
            choice.model,
            choice.shape,
            choice.because,
            tuple(_row(each) for each in choice.candidates),
        )
        for choice in found
    ]


def _row(each: Candidate) -> Row:
    return Row(
        name=name_of(each),
        standing=each.standing,
        speed="—" if each.decode_tps is None else number(each.decode_tps),
        ttft="—" if each.ttft_ms is None else number(each.ttft_ms),
        score=score_of(each) or "—",
        questions=each.score.of if each.score is not None else "none",
        badge=_BADGES[each.standing],
        head=_HEADS[each.standing],
        because=each.because,
    )


def lines_of(found: Sequence[Choice]) -> list[str]:
    """Return what to use on each phone, and which faster configurations are passed over, for a terminal."""
    lines = []
    for choice in found[:_LINES]:
        where, best = one_line(f"{choice.phone}, {choice.model}"), choice.recommended
        if best is None:
            lines.append(f"nothing recommended on {where}: {choice.because}")
        else:
            lines.append(f"recommended on {where}: {_told(best)}")
        faster = "" if best is None else "faster, "
        lines += [f"  {faster}not recommended: {_speed(each)}, {each.because}" for each in choice.passed_over]
    if len(found) > _LINES:
        lines.append(f"{len(found) - _LINES} more recommendations in the report")
    return lines


def _told(candidate: Candidate) -> str:
    return _speed(candidate) + (f", {candidate.score} answers right" if candidate.score is not None else "")


def _speed(candidate: Candidate) -> str:
    speed = "no proven speed" if candidate.decode_tps is None else f"{number(candidate.decode_tps)} tok/s decode"
    return f"{name_of(candidate)}: {speed}"
