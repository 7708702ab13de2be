"""Whether a text that a model wrote is language at all: empty, one loop, or garbled. Pure.

Nothing here judges what a text says. Only strong evidence counts: good text in any language and script, code, tables
and numbers is never called broken; a garbled text in plain words may pass.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter

# A loop ends the text, fills half of it, and came round so often.
_LEAST_ROUNDS = 6
_LEAST_LOOP = 12
# Rulers, zeros and blanks are repeated in good texts, too.
_LEAST_RULER = 60
_LONGEST_PERIOD = 120
_LEAST_LETTERS = 16
_REPLACEMENT = "\ufffd"
# What replacement characters, and fresh memory of old Windows programs, look like when read as Chinese.
_MOJIBAKE = ("锟斤拷", "烫烫烫", "屯屯屯")
_BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))
_ODD_KINDS = 4
# Scripts that stand beside each other in one word of good text.
_EAST_ASIAN = {"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "FULLWIDTH", "HALFWIDTH", "KATAKANA-HIRAGANA"}
_FRIENDS = {frozenset(("LATIN", "EAST ASIAN")), frozenset(("LATIN", "GREEK")), frozenset(("LATIN", "MICRO"))}


def degenerate(text: str) -> str:
    """Return what is wrong with a text as a clause for people, ``""`` when nothing speaks against it."""
    plain = text.strip()
    if not any(char.isprintable() and not char.isspace() and char != _REPLACEMENT for char in plain):
        return "the text is empty" if not plain else "the text has no readable character"
    return garbled(plain) or _loops(plain)


def _loops(text: str) -> str:
    loop = trailing_loop(text)
    for line in text.splitlines():
        if not loop and len(line) * 3 >= len(text):
            loop = trailing_loop(line)
    return f"{loop!r} is repeated to the end" if loop else ""


def trailing_loop(text: str) -> str:
    """Return what is repeated again and again through the last half of a text, ``""`` if nothing.

    What ends the text after it (a full stop, half a character) may be up to two characters.
    """
    text = text.strip()
    return next((loop for cut in range(3) if (loop := _loop_at_end(text[: len(text) - cut]))), "")


def _loop_at_end(text: str) -> str:
    for period in range(1, min(_LONGEST_PERIOD, len(text) // _LEAST_ROUNDS) + 1):
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], _backwards(text, period)))
        length = same + period if same else 0
        loop = text[len(text) - period :]
        # A ruler's period is one character; a word's may be long, but it has to come round as often.
        least = _LEAST_LOOP if any(map(_is_word, loop)) else _LEAST_RULER
        if length >= max(least, _LEAST_ROUNDS * period) and 2 * length >= len(text):
            return loop
    return ""


def _is_word(char: str) -> bool:
    """Whether a character is more than a ruler, a blank or a digit: a letter, an emoji, token 0 of many models."""
    box = "\u2500" <= char <= "\u25ff"
    return char.isalpha() or char in "!?" or (unicodedata.category(char) == "So" and not box)


def _backwards(text: str, period: int) -> zip[tuple[str, str]]:
    return zip(reversed(text), reversed(text[:-period]), strict=False)


def garbled(text: str) -> str:
    """Return by what a text is no language in any script, ``""`` when nothing speaks against it."""
    # An answer cut off within a character ends in one replacement; tabs and line ends are no control characters here.
    broken = [char for char in text.removesuffix(_REPLACEMENT) if _is_broken(char)]
    if len(broken) >= 4 and len(broken) * 12 >= len(text):
        return f"{len(broken)} of {len(text)} characters are unreadable ({broken[0]!r}, …)"
    for word in _MOJIBAKE:
        if text.count(word) >= 3 and text.count(word) * len(word) * 5 >= len(text):
            return f"{word!r} is what broken bytes look like"
    oddities = _oddities(text)
    if len(oddities) >= _ODD_KINDS and sum(oddities.values()) * 3 >= len(text.split()):
        return "no language has all of this: " + ", ".join(f"{count} {kind}" for kind, count in oddities.items())
    odd, letters, scripts = _odd_neighbours(text)
    if letters >= _LEAST_LETTERS and odd >= 5 and odd * 6 >= letters and scripts >= 3:
        return f"letters of {scripts} scripts stand within words, {odd} times among {letters}"
    return ""


def _oddities(text: str) -> dict[str, int]:
    """Count what good texts have one kind of, and random tokens all: each kind alone proves nothing.

    Code has symbols and closes its brackets; a text about characters has lone ones and is else well-formed.
    """
    words = text.split()
    latin = sum(word.isascii() for word in words) * 2 > len(words)
    found = {
        "unreadable characters within words": len(re.findall(rf"\w{_REPLACEMENT}|{_REPLACEMENT}\w", text)),
        "brackets that are not closed": sum(abs(text.count(one) - text.count(two)) for one, two in _BRACKETS),
        "quotation marks that are not closed": abs(text.count("«") - text.count("»")),
        "lone letters of other scripts": sum(latin and len(word) == 1 and ord(word) > 0x2E7F for word in words),
        "lone symbols": sum(len(word) == 1 and word in "\\|#^~`_" for word in words),
        "words with symbols in them": len(re.findall(r"[A-Za-z][_{}\[\]<>]+[^\w\s]+[_{}\[\]<>]*[A-Za-z]", text)),
    }
    return {kind: count for kind, count in found.items() if count}


def _is_broken(char: str) -> bool:
    if char in "\t\n\r":
        return False
    # Cc control, Co private use, Cs half a surrogate pair. Unassigned may just be newer than this Python.
    return char == _REPLACEMENT or unicodedata.category(char) in ("Cc", "Co", "Cs")


def _odd_neighbours(text: str) -> tuple[int, int, int]:
    """Return how often two scripts that share no word touch each other, and the numbers of letters and scripts."""
    odd, counts = 0, Counter[str]()
    before = ""
    for char in text:
        script = _script(char) if char.isalpha() else ""
        if script:
            counts[script] += 1
            odd += bool(before) and before != script and frozenset((before, script)) not in _FRIENDS
        # A mark belongs to the letter before it (Indic vowels, Arabic and Thai signs).
        before = before if unicodedata.category(char).startswith("M") else script
    return odd, sum(counts.values()), len(counts)


def _script(char: str) -> str:
    first = unicodedata.name(char, "?").split(" ", 1)[0]
    return "EAST ASIAN" if first in _EAST_ASIAN else first
