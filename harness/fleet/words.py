"""The words of ``--devices``: read and checked. Pure but for asking providers about their own words.

========================  ==========================================================================
word                      phones
========================  ==========================================================================
``all``                   every phone that adb lists
a serial                  every transport with this serial, or the one that is shown under this name
``usb:PATH``              the phone at this USB port, e.g. ``usb:1-4.2``
``transport:N``           the transport with adb's number N
``model=GLOB``            by model, e.g. ``model=Pixel*``; capital and small letters are the same
``soc=GLOB``              by chip
``tier=high|mid|low``     by tier
``sdk=33``, ``sdk=33+``   by Android's API level, exactly or at least
``virtual:…``, ``host``   what a provider brings
``not:WORD``              leaves out what WORD names
========================  ==========================================================================

Words are a union, and ``not:`` takes away from it; nothing but ``not:`` words means all but those.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import get_args

from harness.core.errors import ConfigError
from harness.core.provider import load_provider, provider_names
from harness.plan.tiers import TierName

_NOT = "not:"
_SDK = re.compile(r"([0-9]{1,4})(\+?)")


class Kind(Enum):
    """What a word looks at; the value is how it begins."""

    ALL = "all"
    SERIAL = ""
    USB = "usb:"
    TRANSPORT = "transport:"
    MODEL = "model="
    SOC = "soc="
    TIER = "tier="
    SDK = "sdk="

    @property
    def is_name(self) -> bool:
        """Whether it names phones, so that a word which nobody answers to is a mistake and no empty choice."""
        return self in (Kind.SERIAL, Kind.USB, Kind.TRANSPORT)


@dataclass(frozen=True)
class Word:
    """One word about phones that adb lists; ``value`` is what follows its beginning."""

    kind: Kind
    value: str = ""

    def __str__(self) -> str:
        return f"{self.kind.value}{self.value}"


ALL = Word(Kind.ALL)


@dataclass(frozen=True)
class Words:
    """``--devices``, read.

    Attributes:
        wanted: words that choose among adb's phones; empty when only providers' phones are asked for.
        unwanted: words that take away, from providers' phones too.
        provided: by provider, what it is asked for.
    """

    wanted: tuple[Word, ...] = ()
    unwanted: tuple[Word, ...] = ()
    provided: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def read_words(spec: str, option: str = "--devices") -> Words:
    """Read ``--devices`` and let each provider check its words; ``option`` is what errors call it.

    Raises:
        ConfigError: there is no word, one makes no sense, or its provider refuses it.
    """
    words = [word for word in (part.strip() for part in spec.split(",")) if word]
    if not words:
        raise ConfigError(f"{option} names no phone", remedy="use all, a serial, virtual:2 or host")
    plus = [word for word in words if not word.startswith(_NOT)]
    minus = [word.removeprefix(_NOT) for word in words if word.startswith(_NOT)]
    wanted, provided = _sort(plus, f"{option} ")
    unwanted, unprovided = _sort(minus, f"{option} {_NOT}")
    for prefix, rest in unprovided:
        if (prefix, rest) not in provided:
            word = f"{prefix}:{rest}" if rest else prefix
            raise ConfigError(f"{option} {_NOT}{word}: nothing asks for {word}", remedy="leave that word away")
    brought: dict[str, tuple[str, ...]] = {}
    for prefix, rest in provided:
        if (prefix, rest) not in unprovided:
            brought[prefix] = (*brought.get(prefix, ()), rest)
    chosen = tuple(wanted) if plus else (ALL,)
    if not chosen and not brought:
        raise ConfigError(f"{option} {spec}: what is asked for is all left out again")
    return Words(chosen, tuple(unwanted), brought)


def _sort(words: Sequence[str], before: str) -> tuple[list[Word], list[tuple[str, str]]]:
    """Return the words about adb's phones, and those of providers as (prefix, rest); ``before`` begins errors."""
    prefixes = provider_names()
    listed: list[Word] = []
    provided: list[tuple[str, str]] = []
    for word in words:
        prefix, _, rest = word.partition(":")
        if prefix in prefixes:
            wrong = load_provider(prefix).check(rest)
            if wrong is not None:
                raise ConfigError(f"{before}{word}: {wrong}")
            provided.append((prefix, rest))
        else:
            listed.append(_read(word, before))
    return listed, provided


def _read(word: str, before: str) -> Word:
    if word == Kind.ALL.value:
        if before.endswith(_NOT):
            raise ConfigError(f"{before}all: nothing would be left", remedy="leave that word away")
        return ALL
    kind = next((kind for kind in Kind if kind.value[-1:] in (":", "=") and word.startswith(kind.value)), Kind.SERIAL)
    read = Word(kind, word.removeprefix(kind.value))
    wrong = _problem(read)
    if wrong:
        raise ConfigError(f"{before}{word}: {wrong}")
    return read


def _problem(word: Word) -> str:
    """Return what is wrong with a word's value, ``""`` if nothing."""
    if word.kind is Kind.SERIAL:
        key, equals, _ = word.value.partition("=")
        if equals:
            known = ", ".join(f"{kind.value}…" for kind in Kind if kind.value.endswith("="))
            return f"there is no filter {key}=; known: {known}"
        return "there is nothing after not:" if not word.value else ""
    if not word.value:
        return f"there is nothing after {word.kind.value}"
    if word.kind is Kind.TRANSPORT and not (word.value.isascii() and word.value.isdigit()):
        return f"{word.value!r} is no number; adb devices -l shows them as transport_id"
    if word.kind is Kind.TIER and word.value not in get_args(TierName):
        return f"tiers are {', '.join(get_args(TierName))}"
    if word.kind is Kind.SDK and _SDK.fullmatch(word.value) is None:
        return f"{word.value!r} is no API level; say e.g. sdk=33 or sdk=33+"
    return ""


def sdk_range(value: str) -> tuple[int, int | None]:
    """Return the lowest and the highest API level that the value of an ``sdk=`` word means; ``None``: no highest."""
    match = _SDK.fullmatch(value)
    if match is None:
        raise ValueError(f"{value!r} is no API level")
    low = int(match[1])
    return low, None if match[2] else low
