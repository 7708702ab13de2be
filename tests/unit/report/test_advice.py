from __future__ import annotations

import pytest

from harness.core.reasons import Fault, Reason
from harness.report.advice import ADVICE, WHOSE


@pytest.mark.parametrize("reason", list(Reason), ids=lambda reason: reason.code)
def test_every_reason_has_short_advice_of_whole_sentences(reason: Reason) -> None:
    text = ADVICE[reason]
    assert text[0].isupper()
    assert text.endswith(".")
    assert 10 < len(text) < 200
    assert text.count("`") % 2 == 0


def test_every_fault_is_said_in_words_of_its_own() -> None:
    assert set(WHOSE) == set(Fault)
    assert len(set(WHOSE.values())) == len(Fault)
