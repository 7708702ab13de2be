from __future__ import annotations

import pytest

from harness.core.errors import ConfigError
from harness.fleet.words import ALL, Kind, Word, Words, read_words, sdk_range


def test_each_word_of_the_grammar_is_read() -> None:
    spec = "all,R58M,usb:1-4.2,transport:7,model=Toy*,soc=SM8?50,tier=high,sdk=33+,sdk=30"
    assert read_words(spec).wanted == (
        ALL,
        Word(Kind.SERIAL, "R58M"),
        Word(Kind.USB, "1-4.2"),
        Word(Kind.TRANSPORT, "7"),
        Word(Kind.MODEL, "Toy*"),
        Word(Kind.SOC, "SM8?50"),
        Word(Kind.TIER, "high"),
        Word(Kind.SDK, "33+"),
        Word(Kind.SDK, "30"),
    )


@pytest.mark.parametrize("word", ["R58M", "192.168.1.5:5555", "usb:1-1", "transport:1", "model=a", "tier=low", "all"])
def test_a_word_is_written_as_it_was_read(word: str) -> None:
    assert [str(read) for read in read_words(word).wanted] == [word]


def test_words_are_sorted_by_who_provides_them() -> None:
    words = read_words("R58M, virtual:high*2,host,virtual:1")
    assert words == Words((Word(Kind.SERIAL, "R58M"),), (), {"virtual": ("high*2", "1"), "host": ("",)})


def test_not_takes_any_word_and_alone_means_all_but() -> None:
    assert read_words("not:R58M,not:tier=low") == Words((ALL,), (Word(Kind.SERIAL, "R58M"), Word(Kind.TIER, "low")))
    assert read_words("tier=high,not:usb:1-4").unwanted == (Word(Kind.USB, "1-4"),)


def test_providers_phones_alone_do_not_ask_adb() -> None:
    assert read_words("virtual:2,not:tier=low") == Words((), (Word(Kind.TIER, "low"),), {"virtual": ("2",)})


def test_a_provider_word_can_be_taken_back() -> None:
    assert read_words("host,virtual:1,not:host").provided == {"virtual": ("1",)}


@pytest.mark.parametrize("spec", ["", " , ", ","])
def test_no_word_at_all_is_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match="names no phone"):
        read_words(spec)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("virtual:nope", "--devices virtual:nope: no virtual phone is described as 'nope'"),
        ("not:virtual:nope", "--devices not:virtual:nope: no virtual phone is described as 'nope'"),
        ("all,not:host", "--devices not:host: nothing asks for host"),
        ("host,not:host", "--devices host,not:host: what is asked for is all left out again"),
        ("not:all", "--devices not:all: nothing would be left"),
        ("not:", "--devices not:: there is nothing after not:"),
        ("usb:", "--devices usb:: there is nothing after usb:"),
        ("model=", "--devices model=: there is nothing after model="),
        ("transport:x", "--devices transport:x: 'x' is no number"),
        ("transport:²", "--devices transport:²: '²' is no number"),
        ("tier=top", "--devices tier=top: tiers are high, mid, low"),
        ("not:tier=top", "--devices not:tier=top: tiers are high, mid, low"),
        ("sdk=33-", "--devices sdk=33-: '33-' is no API level; say e.g. sdk=33 or sdk=33+"),
        ("sdk=13.1", "--devices sdk=13.1: '13.1' is no API level"),
        ("ram=8", "--devices ram=8: there is no filter ram=; known: model=…, soc=…, tier=…, sdk=…"),
    ],
)
def test_a_word_that_makes_no_sense_is_refused_in_one_sentence(spec: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_words(spec)
    assert str(caught.value).startswith(sentence)


def test_api_levels_are_exact_or_at_least() -> None:
    assert sdk_range("33") == (33, 33)
    assert sdk_range("33+") == (33, None)
