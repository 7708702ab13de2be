from __future__ import annotations

import pytest

from harness.virtual.provider import VirtualPhones
from harness.virtual.words import Word, parse_word, wanted_profiles

KNOWN = ["high", "low", "mid"]


@pytest.mark.parametrize(
    ("text", "word"),
    [("1", Word(None, 1)), ("64", Word(None, 64)), ("mid", Word("mid", 1)), ("low*3", Word("low", 3))],
)
def test_words_are_read(text: str, word: Word) -> None:
    assert parse_word(text, KNOWN) == word


def test_a_number_takes_the_profiles_in_turn() -> None:
    assert Word(None, 5).profiles() == ["high", "mid", "low", "high", "mid"]


def test_words_are_taken_together_in_their_order() -> None:
    assert wanted_profiles(["high", "2", "high*2"], KNOWN) == ["high", "high", "mid", "high", "high"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "needs a number or a profile: virtual:2 or virtual:PROFILE of high, low, mid"),
        ("0", "virtual:0: 0 virtual phones cannot be had; say 1 to 64"),
        ("-1", "-1 virtual phones cannot be had"),
        ("65", "65 virtual phones cannot be had; say 1 to 64"),
        ("9" * 5000, "cannot be had"),
        ("hgih", "no virtual phone is described as 'hgih'; known: high, low, mid"),
        ("high*", "'' is not a number of phones"),
        ("high*x", "'x' is not a number of phones; say 1 to 64"),
        ("high*0", "cannot be had"),
        ("2*2", "no virtual phone is described as '2'"),
        ("../high", "no virtual phone is described as"),
        ("２", "no virtual phone is described as"),
    ],
)
def test_a_word_that_makes_no_sense_gets_one_sentence(text: str, says: str) -> None:
    with pytest.raises(ValueError, match="virtual:") as caught:
        parse_word(text, KNOWN)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_many_phones_together_are_refused() -> None:
    with pytest.raises(ValueError, match="65 virtual phones are too many; ask for 64 at most"):
        wanted_profiles(["64", "high"], KNOWN)


def test_the_provider_checks_words_without_starting_anything() -> None:
    provider = VirtualPhones()
    assert provider.check("high*2") is None
    assert "high, high-opencl, kirin, low, low-hot, low-slow, mid, mid-hot, mid-soak, mid-soak-quick, tensor" in (
        provider.check("pixel") or ""
    )
    provider.stop()
