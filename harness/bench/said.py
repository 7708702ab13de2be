"""What the model said, as it goes into the record of a cell."""

from __future__ import annotations

import re

from harness.bench.evidence import Evidence
from harness.core.ids import content_id
from harness.plan.model import Plan
from harness.store.schema import Answer, Output


def output_of(evidence: Evidence, plan: Plan, nulls: dict[str, str]) -> Output | None:
    """Return what the model said, and how many of the plan's questions it answered as expected."""
    answers = tuple(
        Answer(question=ask.question, text=said.text, expect=ask.expect, right=_matches(ask.expect, said.text))
        for ask, said in zip(plan.ask, evidence.told.of_kind("answer"), strict=False)
        if said.question in (None, ask.question)
    )
    timed = evidence.timed
    if not answers and not timed:
        return None
    if not plan.ask:
        nulls["golden"] = "the plan asks no question"
    if not timed:
        nulls["token_ids_hash"] = "no timed generation"
    text = answers[0].text if answers else timed[0].text
    return Output(
        text=text,
        token_ids_hash=content_id({"ids": list(timed[0].token_ids)})[:16] if timed else None,
        reference=None,
        match=None,
        matched_tokens=None,
        golden=f"{sum(answer.right for answer in answers)}/{len(plan.ask)}" if plan.ask else None,
        timed_text=timed[0].text if timed else "",
        answers=answers,
    )


def _matches(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None
