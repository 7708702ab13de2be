from __future__ import annotations

import pytest

from harness.adb.server import TransportInfo
from harness.core.errors import ConfigError
from harness.fleet.opening import choose, read_words


def listed(serial: str, state: str = "device", transport: int = 1) -> TransportInfo:
    return TransportInfo(serial, state, transport, None, None)


def test_words_are_sorted_by_who_provides_them() -> None:
    words = read_words("R58M, virtual:high*2,host,virtual:1")
    assert words.adb == ("R58M",)
    assert words.provided == {"virtual": ("high*2", "1"), "host": ("",)}


@pytest.mark.parametrize("spec", ["", " , ", ","])
def test_no_word_at_all_is_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match="names no phone"):
        read_words(spec)


def test_a_provider_refuses_its_own_words() -> None:
    with pytest.raises(ConfigError, match="--devices virtual:nope: no virtual phone is described as 'nope'"):
        read_words("virtual:nope")


def test_all_is_every_transport_in_every_state() -> None:
    there = [listed("a"), listed("b", "unauthorized", 2)]
    assert choose(("all",), there) == there


def test_a_serial_names_every_phone_that_has_it_once() -> None:
    twins = [listed("same", transport=1), listed("same", transport=2), listed("other", transport=3)]
    assert choose(("same", "same"), twins) == twins[:2]


def test_a_serial_nobody_has_lists_what_is_there() -> None:
    with pytest.raises(ConfigError, match=r"no phone has this serial; adb lists: a \(offline\)"):
        choose(("z",), [listed("a", "offline")])
