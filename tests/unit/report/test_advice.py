from __future__ import annotations

import re

import pytest

from harness.cli import VERBS
from harness.commands.lazy import loaded
from harness.core.reasons import Fault, Reason
from harness.report.advice import ADVICE, WHOSE


@pytest.mark.parametrize("reason", list(Reason), ids=lambda reason: reason.code)
def test_every_reason_has_short_advice_of_whole_sentences(reason: Reason) -> None:
    text = ADVICE[reason]
    assert text[0].isupper()
    assert text.endswith(".")
    assert 10 < len(text) < 200
    assert text.count("`") % 2 == 0


def test_advice_names_no_command_or_option_that_does_not_exist(pytestconfig: pytest.Config) -> None:
    said = " ".join(ADVICE.values())
    there = {verb.name: verb for verb in VERBS}
    verbs = set(re.findall(r"`mnn-farm ([a-z]+)", said))
    assert "devices" in verbs
    assert verbs <= set(there)
    of_verbs = re.findall(r"`mnn-farm ([a-z]+)([^`]*)`", said)
    for verb, words in of_verbs:
        known = {option for parameter in loaded(there[verb]).params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", words)) <= known
    for option in re.findall(r"--[a-z-]+", re.sub(r"`mnn-farm [^`]*`", "", said)):
        assert pytestconfig.getoption(option, default="absent") != "absent", option


def test_every_fault_is_said_in_words_of_its_own() -> None:
    assert set(WHOSE) == set(Fault)
    assert len(set(WHOSE.values())) == len(Fault)
