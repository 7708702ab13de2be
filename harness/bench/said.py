"""What the model said, as it goes into the record of a cell."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path

from harness.bench.evidence import Evidence, explain
from harness.bench.text_rules import against_reference
from harness.core.ids import content_id
from harness.plan.golden import golden_name
from harness.plan.matrix import questions_of
from harness.plan.model import Ask, Plan
from harness.store.schema import Answer, Output

# Every answer lies in raw/; of a golden set the record itself holds wrong ones only, and of those so much.
_GOLDEN_KEPT = 20
_GOLDEN_TEXT = 160
_Z95 = 1.959964


def output_of(evidence: Evidence, plan: Plan, nulls: dict[str, str]) -> Output | None:
    """Return what the model said, how much of it is right, and whether it is what the reference says."""
    asked, of_set = _answers(plan.ask, evidence, 0), _answers(_set_of(evidence, plan), evidence, len(plan.ask))
    timed = evidence.timed
    if not asked and not of_set and not timed:
        return None
    has_ids = bool(timed and timed[0].token_ids)
    explain(nulls, not timed, "token_ids_hash", "no timed generation")
    explain(nulls, bool(timed) and not has_ids, "token_ids_hash", "the runner tells no token ids")
    has_logits = bool(timed and timed[0].first_logits)
    explain(nulls, not has_logits, "first_logits", "the runner tells no logits" if timed else "no timed generation")
    timed_text = next((one.text for one in (*timed, *evidence.told.of_kind("check")) if one.text), "")
    text = asked[0].text if asked else timed_text if timed else of_set[0].text
    # A set's answers count by themselves: those of the plan's questions are in every cell.
    is_set = bool(_set_of(evidence, plan))
    scored, count = (of_set, len(plan.golden.ask)) if is_set else (asked, len(plan.ask))
    right, whole = sum(answer.right for answer in scored), len(scored) == count > 0
    if not whole:
        why = f"{len(scored)} of {count} questions were answered" if count else "the plan asks no question"
        nulls["golden"] = nulls["golden_ci95"] = why
    if not is_set:
        nulls["golden_set"] = (
            "the set is asked in the first cell of each configuration" if plan.golden.ask else "the plan has no set"
        )
    judged = against_reference(evidence)
    if judged is None:
        why = (
            evidence.reference_why
            if evidence.reference is None
            else "the runner told no token ids of a prompt that is the same"
        )
        nulls.update(dict.fromkeys(("reference", "match", "matched_tokens"), why))
    elif judged.matched_tokens is None:
        nulls["matched_tokens"] = "no timed generation"
    return Output(
        text=text,
        token_ids_hash=content_id({"ids": list(timed[0].token_ids)})[:16] if has_ids else None,
        reference="host" if judged is not None else None,
        match=judged.match if judged is not None else None,
        matched_tokens=judged.matched_tokens if judged is not None else None,
        golden=f"{right}/{count}" if whole else None,
        golden_ci95=wilson(right, count) if whole else None,
        golden_set=golden_name(plan.golden) if is_set else None,
        timed_text=timed_text,
        first_logits=timed[0].first_logits if has_logits else None,
        answers=(*asked, *_wrong_ones(of_set)),
    )


def write_answers(evidence: Evidence, plan: Plan, file: Path) -> None:
    """Write every answer of a cell in full, one JSON object a line."""
    answers = _answers(questions_of(evidence.cell, plan), evidence, 0)
    if answers:
        lines = [json.dumps(answer.model_dump(mode="json"), ensure_ascii=False) for answer in answers]
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def wilson(right: int, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share by Wilson's formula, which also holds for few questions and for all right."""
    share, z2 = right / count, _Z95**2
    middle = share + z2 / (2 * count)
    half = _Z95 * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2))
    low, high = ((middle + side * half) / (1 + z2 / count) for side in (-1, 1))
    return round(max(0.0, low), 4), round(min(1.0, high), 4)


def _set_of(evidence: Evidence, plan: Plan) -> Sequence[Ask]:
    """Return the questions of the golden set that this cell is asked."""
    return plan.golden.ask if evidence.cell.leads else ()


def _answers(asks: Sequence[Ask], evidence: Evidence, first: int) -> tuple[Answer, ...]:
    """Return the answers to ``asks``, of which the first is answer number ``first`` of the run."""
    return tuple(
        Answer(question=ask.question, text=said.text, expect=ask.expect, right=_matches(ask.expect, said.text))
        for ask, said in zip(asks, evidence.told.of_kind("answer")[first:], strict=False)
        if said.question in (None, ask.question)
    )


def _wrong_ones(answers: Sequence[Answer]) -> list[Answer]:
    wrong = [answer for answer in answers if not answer.right]
    return [answer.model_copy(update={"text": answer.text[:_GOLDEN_TEXT]}) for answer in wrong[:_GOLDEN_KEPT]]


def _matches(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None
