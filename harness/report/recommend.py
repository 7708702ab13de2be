"""Which configuration to use: the fastest proven one whose answers are as right as the best one's. Pure over records.

A configuration is model, device binaries, backend, precision, memory mode and engine keys. Threads and lengths change
its speed and not its text, so its score counts for all its cells.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, TypeVar

from harness.core.reasons import Fault, Verdict
from harness.report.cells import value_at
from harness.store.schema import CellRecord

DEFAULT_TOLERANCE: Final = 0.05
# What a score is from where no set was asked.
PLANS_QUESTIONS: Final = "the plan's questions"
# Rounding of shares must not decide.
_EPSILON: Final = 1e-9

# One encoder for all: `json.dumps` makes one a call.
_ENCODE: Final = json.JSONEncoder(sort_keys=True).encode
_NEVER_RAN: Final = (Verdict.UNSUPPORTED, Verdict.SKIPPED)

_Value = TypeVar("_Value")

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


class Numerics(NamedTuple):
    """What of a cell decides its answers: all but threads, cores and lengths. ``engine`` is JSON, ``""`` for no key."""

    bundle_hash: str
    backend: str
    precision: str
    memory: str
    engine: str


class _Shape(NamedTuple):
    """What was asked: speeds are compared between cells of one shape."""

    kind: str
    prompt_tokens: int
    generate_tokens: int
    context_tokens: int

    def __str__(self) -> str:
        after = f" after {self.context_tokens}" if self.context_tokens else ""
        return f"{self.kind}, {self.prompt_tokens} → {self.generate_tokens} tokens{after}"


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
    numerics: Numerics | None = None


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


def choices(records: Iterable[CellRecord], tolerance: float = DEFAULT_TOLERANCE) -> list[Choice]:
    """Return the choice for each phone and language model, in the order in which they come among the records."""
    groups: dict[tuple[str, str], list[CellRecord]] = {}
    for record in records:
        if record.verdict not in _NEVER_RAN and record.config.kind != "tensor":
            groups.setdefault((record.phone.id, record.model.hash), []).append(record)
    return [_choice(group, tolerance) for group in groups.values()]


def numerics_of(record: CellRecord) -> Numerics:
    """Return what of a cell decides its answers."""
    config = record.config
    return Numerics(record.bundle.hash, config.backend, config.precision, config.memory, engine_keys(record))


def engine_keys(record: CellRecord) -> str:
    """Return a cell's further engine keys as JSON in the order of their names, ``""`` for none."""
    engine = record.config.engine
    return _ENCODE(engine) if engine else ""


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


def _choice(records: Sequence[CellRecord], tolerance: float) -> Choice:
    shape = _common([_shape(record) for record in records if record.verdict is Verdict.OK])
    of = _common([record.output.golden_set for record in records if record.output and record.output.golden_set])
    groups: dict[Numerics, list[CellRecord]] = {}
    for record in records:
        groups.setdefault(numerics_of(record), []).append(record)
    judged, because = choose((_candidate(key, group, shape, of) for key, group in groups.items()), tolerance)
    first = records[0]
    return Choice(
        phone_id=first.phone.id,
        phone=first.phone.name,
        model=first.model.name,
        model_hash=first.model.hash,
        shape="" if shape is None else str(shape),
        candidates=tuple(judged),
        because=because,
    )


def _shape(record: CellRecord) -> _Shape:
    config = record.config
    return _Shape(config.kind, config.prompt_tokens, config.generate_tokens, config.context_tokens)


def _candidate(key: Numerics, records: Sequence[CellRecord], shape: _Shape | None, of: str | None) -> Candidate:
    proven = [record for record in records if record.verdict is Verdict.OK and _shape(record) == shape]
    fastest = max(proven, key=_speed, default=None)
    engine = records[0].config.engine
    return Candidate(
        backend=key.backend,
        precision=key.precision,
        memory=key.memory,
        engine=", ".join(f"{name} = {json.dumps(value)}" for name, value in engine.items()),
        bundle_hash=key.bundle_hash,
        cell_id=fastest.cell_id if fastest else None,
        threads=fastest.config.threads if fastest else None,
        affinity=fastest.config.affinity if fastest else None,
        decode_tps=_speed(fastest) if fastest else None,
        ttft_ms=value_at(fastest, "metrics", "ttft_ms.p50") if fastest else None,
        refused="" if fastest else ", ".join(dict.fromkeys(record.reason for record in records if record.reason)),
        score=next((score for record in records if (score := score_of_cell(record, of)) is not None), None),
        numerics=key,
    )


def _speed(record: CellRecord) -> float:
    """Return the decode speed of an ``ok`` record, which always has one."""
    speed = record.metrics.decode_tps if record.metrics is not None else None
    return 0.0 if speed is None else speed.median


def score_of_cell(record: CellRecord, of: str | None = None) -> Score | None:
    """Return what a cell scored in the set ``of``, or in the plan's own questions where the run has no set.

    What the product did wrong has no score; a cell that was hot or noisy said what it says all the same.
    """
    output = record.output
    if output is None or record.fault is Fault.PRODUCT or (of is not None and output.golden_set != of):
        return None
    right, slash, asked = (output.golden or "").partition("/")
    if not slash or not (right.isdigit() and asked.isdigit()) or not int(asked):
        return None
    return Score(int(right), int(asked), output.golden_ci95, of or PLANS_QUESTIONS)


def _common(values: Sequence[_Value]) -> _Value | None:
    """Return the value that occurs most often, the first of several; ``None`` if there is none."""
    return Counter(values).most_common(1)[0][0] if values else None
