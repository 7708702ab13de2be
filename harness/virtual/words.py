"""The words after ``virtual:`` in ``--devices``: ``N`` or ``PROFILE`` or ``PROFILE*N``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MAX_PHONES = 64
CYCLE = ("high", "mid", "low")
"""What ``virtual:N`` takes in turn."""

_NUMBER = re.compile(r"-?[0-9]+")


@dataclass(frozen=True)
class Word:
    """``count`` phones of ``profile``; ``None`` for the usual mixture."""

    profile: str | None
    count: int

    def profiles(self) -> list[str]:
        """Return one profile name a phone."""
        if self.profile is not None:
            return [self.profile] * self.count
        return [CYCLE[number % len(CYCLE)] for number in range(self.count)]


def parse_word(text: str, known: Sequence[str]) -> Word:
    """Read one word.

    Raises:
        ValueError: it makes no sense; the message is one sentence for people.
    """
    if not text:
        raise ValueError(f"virtual: needs a number or a profile: virtual:2 or virtual:PROFILE of {', '.join(known)}")
    if _NUMBER.fullmatch(text):
        return Word(None, _count(text, text))
    profile, star, count = text.partition("*")
    if profile not in known:
        raise ValueError(f"virtual:{text}: no virtual phone is described as {profile!r}; known: {', '.join(known)}")
    return Word(profile, _count(count, text) if star else 1)


def _count(number: str, text: str) -> int:
    if not _NUMBER.fullmatch(number):
        raise ValueError(f"virtual:{text}: {number!r} is not a number of phones; say 1 to {MAX_PHONES}")
    # Compared by length first: a number of ten thousand digits is refused by int() itself.
    if len(number) > 9 or not 1 <= int(number) <= MAX_PHONES:
        raise ValueError(f"virtual:{text}: {number[:12]} virtual phones cannot be had; say 1 to {MAX_PHONES}")
    return int(number)


def wanted_profiles(words: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the profile of every phone that ``words`` ask for, in order.

    Raises:
        ValueError: a word makes no sense, or there are too many phones together.
    """
    profiles = [profile for word in words for profile in parse_word(word, known).profiles()]
    if len(profiles) > MAX_PHONES:
        raise ValueError(f"{len(profiles)} virtual phones are too many; ask for {MAX_PHONES} at most")
    return profiles
