"""Which configuration to use: the fastest proven one whose answers are as right as the best one's. Pure over the frame.

A configuration is model, device binaries, backend, precision, memory mode and engine keys. Threads and lengths change
its speed and not its text, so its score counts for all its cells.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

import pandas as pd

from harness.core.reasons import Fault, Verdict

DEFAULT_TOLERANCE: Final = 0.05
# Rounding of shares must not decide.
_EPSILON: Final = 1e-9

_CONFIGURATION: Final = ("bundle_hash", "backend_requested", "precision", "memory", "engine_config")
_SHAPE: Final = ("kind", "prompt_tokens", "generate_tokens", "context_tokens")
_NEVER_RAN: Final = (Verdict.UNSUPPORTED.value, Verdict.SKIPPED.value)

Standing = Literal["recommended", "slower", "wrong", "unproven", "unscored"]


class Score(NamedTuple):
    """Right answers of so many questions; ``ci95`` is the interval of their share, ``of`` the set they are from."""

    right: int
    asked: int
    ci95: tuple[float, float] | None
    of: str

    @property
    def share(self) -> float:
        """The share of right answers."""
        return self.right / self.asked

    def __str__(self) -> str:
        return f"{self.right}/{self.asked}"


@dataclass(frozen=True)
class Candidate:
    """A configuration on one phone: its fastest proven cell, its score, and where it stands among the others.

    Speed and latency are None where no cell of it is proven; ``refused`` then names the reasons of its cells.
    ``because`` says why it is not the one to use.
    """

    backend: str
    precision: str
    memory: str
    engine: str
    bundle_hash: str
    cell_id: str | None
    threads: int | None
    affinity: str | None
    decode_tps: float | None
    ttft_ms: float | None
    score: Score | None
    refused: str = ""
    standing: Standing = "unscored"
    because: str = ""


@dataclass(frozen=True)
class Choice:
    """What to use on one phone for one model, and why; ``shape`` says at which lengths speeds are compared."""

    phone_id: str
    phone: str
    model: str
    model_hash: str
    shape: str
    candidates: tuple[Candidate, ...]
    because: str

    @property
    def recommended(self) -> Candidate | None:
        """The configuration to use, ``None`` if nothing proves one."""
        return next((each for each in self.candidates if each.standing == "recommended"), None)

    @property
    def passed_over(self) -> tuple[Candidate, ...]:
        """The configurations that answer worse and are proven faster than the recommended one; all if there is none."""
        best = self.recommended
        limit = best.decode_tps if best is not None and best.decode_tps is not None else 0.0
        return tuple(each for each in self.candidates if each.standing == "wrong" and (each.decode_tps or 0.0) > limit)


def choices(frame: pd.DataFrame, tolerance: float = DEFAULT_TOLERANCE) -> list[Choice]:
    """Return the choice for each phone and model of a frame of cells, in the order in which they come there."""
    groups: dict[tuple[str, str], list[dict[Hashable, Any]]] = {}
    for row in frame.to_dict("records"):
        if row["verdict"] not in _NEVER_RAN:
            groups.setdefault((row["phone_id"], row["model_hash"]), []).append(row)
    return [_choice(rows, tolerance) for rows in groups.values()]


def choose(candidates: Iterable[Candidate], tolerance: float = DEFAULT_TOLERANCE) -> tuple[list[Candidate], str]:
    """Return the candidates with their standings, the fastest first, and why none is recommended (``""``: one is).

    Right enough is a share of right answers that is lower than the best by ``tolerance`` at most.
    """
    ordered = sorted(candidates, key=lambda each: -(each.decode_tps or 0.0))
    scores = [each.score for each in ordered if each.score is not None]
    best = max(scores, key=lambda score: score.share, default=None)
    judged: list[Candidate] = []
    found = False
    for each in ordered:
        standing, because = _standing(each, best, tolerance, found)
        found = found or standing == "recommended"
        judged.append(replace(each, standing=standing, because=because))
    return judged, "" if found else _why_none(judged, best)


def _standing(each: Candidate, best: Score | None, tolerance: float, found: bool) -> tuple[Standing, str]:
    if each.score is None and each.refused:
        return "unproven", f"none of its cells is ok: {each.refused}"
    if each.score is None or best is None:
        return "unscored", "it was asked nothing"
    if each.score.share < best.share - tolerance - _EPSILON:
        return "wrong", f"answers {each.score}, best {best}"
    if best.right == 0:
        return "wrong", f"answers {each.score}"
    if each.decode_tps is None:
        return "unproven", f"none of its cells is ok: {each.refused or 'none has these lengths'}"
    return ("slower", "its answers are as right, and it is slower") if found else ("recommended", "")


def _why_none(judged: Sequence[Candidate], best: Score | None) -> str:
    if best is None:
        return "no question was asked, and the fastest may be the one that answers wrongly (ask some: --golden general)"
    if best.right == 0:
        return "no configuration answered any question right"
    if all(each.decode_tps is None for each in judged):
        return "no configuration has a proven speed"
    return f"none with a proven speed answers as well as the best ({best})"


def _choice(rows: Sequence[dict[Hashable, Any]], tolerance: float) -> Choice:
    shape = _common([tuple(row[name] for name in _SHAPE) for row in rows if row["verdict"] == Verdict.OK.value])
    of = _common([row["golden_set"] for row in rows if pd.notna(row["golden_set"])])
    groups: dict[tuple[Any, ...], list[dict[Hashable, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(_plain(row[name]) for name in _CONFIGURATION), []).append(row)
    judged, because = choose((_candidate(group, shape, of) for group in groups.values()), tolerance)
    first = rows[0]
    return Choice(
        phone_id=first["phone_id"],
        phone=first["phone"],
        model=first["model"],
        model_hash=first["model_hash"],
        shape="" if shape is None else _shape_label(shape),
        candidates=tuple(judged),
        because=because,
    )


def _candidate(rows: Sequence[dict[Hashable, Any]], shape: tuple[Any, ...] | None, of: str | None) -> Candidate:
    proven = [
        row
        for row in rows
        if row["verdict"] == Verdict.OK.value
        and tuple(row[name] for name in _SHAPE) == shape
        and pd.notna(row["decode_tps"])
    ]
    fastest = max(proven, key=lambda row: row["decode_tps"], default=None)
    first = rows[0]
    engine = _plain(first["engine_config"])
    return Candidate(
        backend=first["backend_requested"],
        precision=first["precision"],
        memory=first["memory"],
        engine=", ".join(f"{key} = {json.dumps(value)}" for key, value in json.loads(engine).items()) if engine else "",
        bundle_hash=first["bundle_hash"],
        cell_id=fastest["cell_id"] if fastest else None,
        threads=int(fastest["threads"]) if fastest else None,
        affinity=_plain(fastest["affinity"]) if fastest else None,
        decode_tps=float(fastest["decode_tps"]) if fastest else None,
        ttft_ms=_number(fastest["ttft_p50_ms"]) if fastest else None,
        refused=""
        if fastest
        else ", ".join(dict.fromkeys(str(row["reason"]) for row in rows if _plain(row["reason"]))),
        score=next((score for row in rows if (score := _score(row, of)) is not None), None),
    )


def _score(row: dict[Hashable, Any], of: str | None) -> Score | None:
    """Return what a cell scored in the set ``of``, or in the plan's own questions where the run has no set.

    What the product did wrong has no score; a cell that was hot or noisy said what it says all the same.
    """
    right, slash, asked = str(_plain(row["golden"]) or "").partition("/")
    if row["fault"] == Fault.PRODUCT.value or not slash or not (right.isdigit() and asked.isdigit()) or not int(asked):
        return None
    if of is not None and _plain(row["golden_set"]) != of:
        return None
    low, high = _number(row["golden_ci95_low"]), _number(row["golden_ci95_high"])
    interval = (low, high) if low is not None and high is not None else None
    return Score(int(right), int(asked), interval, of or "the plan's questions")


def _common(values: Sequence[Any]) -> Any:
    """Return the value that occurs most often, the first of several; ``None`` if there is none."""
    return Counter(values).most_common(1)[0][0] if values else None


def _shape_label(shape: tuple[Any, ...]) -> str:
    kind, prompt, generate, context = shape
    return f"{kind}, {prompt} → {generate} tokens" + (f" after {context}" if context else "")


def _plain(value: Any) -> Any:
    return None if pd.isna(value) else value


def _number(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)
