"""What a model wrote and is no language, in texts of people that no tool's output is known in. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from harness.triage.entry import Entry

# One sign (rulers, digits and brackets of good texts left out), one letter beyond ASCII, or one word, again and again.
_LOOP = re.compile(
    r"(?P<sign>[!?])(?P=sign){29,}"
    r"|(?P<letter>[^\W\d_\x00-\x7f])(?P=letter){15,}"
    r"|(?<!\w)(?P<word>[^\W\d_]{2,16})(?:[ ,]{1,2}(?P=word)){14,}"
)
_MOJIBAKE = re.compile(r"(?:锟斤拷){3,}|烫{6,}|屯{6,}")
# A token that ends a turn, written out as text: one may be a template's, three in a row are a model that goes on.
_STOP = re.compile(
    r"(?P<token><\|?/?(?:end_of_turn|im_end|eot_id|endoftext|end_of_text|end|s|EOT|eos)\|?>|\[/?(?:EOS|INST)\])"
    r"(?:\s{0,2}(?P=token)){2,}"
)
# What stands before an answer where people and tools show a talk.
_ANSWER = re.compile(
    r"(?:A|AI|Assistant|Answer|Output|Response|\w{1,20} [Aa]nswering|回答|输出)\s?[:：]\s?(?P<text>.{24,})"
)
# Whole words that come round at the end of an answer.
_SENTENCE = re.compile(r"(?P<sentence>(?P<first>\S)(?!(?P=first){5}).{5,80}?)(?:\s{0,2}(?P=sentence)){4,}.{0,80}$")
_EAST_ASIAN = frozenset(
    ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO", "FULLWIDTH", "HALFWIDTH")
)
# Scripts that stand beside each other within words of good texts.
_FRIENDS = frozenset({frozenset(("LATIN", "EAST ASIAN")), frozenset(("LATIN", "GREEK"))})


def text_entries(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield, as lines for rules, the first line that is no language and the first that goes on without an end."""
    wrong = next(((entry, detail) for entry in entries if (detail := _wrong(entry.text[:600]))), None)
    if wrong is not None:
        yield Entry(f"text: loop detail=[{wrong[1]}]", "table", wrong[0].evidence)
    for entry in entries:
        stop, answer = _STOP.search(entry.text[:1200]), _ANSWER.match(entry.text[:600])
        loop = None if answer is None else _SENTENCE.search(answer["text"])
        if stop is not None:
            yield Entry(f"text: stop token=({stop['token']})", "table", entry.evidence)
            return
        if loop is not None:
            yield Entry(f"text: sentence detail=[{loop['sentence']!r} is repeated to the end]", "table", entry.evidence)
            return


def _wrong(text: str) -> str:
    match = _LOOP.search(text)
    if match is not None:
        return f"{next(part for part in match.groups() if part)!r} is repeated again and again"
    if _MOJIBAKE.search(text):
        return "it is what broken bytes look like"
    answer = _ANSWER.match(text)
    return "" if answer is None else _mixed(answer["text"])


def _mixed(answer: str) -> str:
    """Return by what an answer is random tokens: words of which each is of several scripts."""
    scripts: set[str] = set()
    odd, before = 0, ""
    for char in answer:
        script = _script(char) if char.isalpha() else ""
        if script:
            scripts.add(script)
            odd += bool(before) and before != script and frozenset((before, script)) not in _FRIENDS
        # A mark belongs to the letter before it (Indic vowels, Arabic and Thai signs).
        before = before if unicodedata.category(char).startswith("M") else script
    if len(scripts) >= 3 and odd >= 2:
        return f"letters of {len(scripts)} scripts stand within words"
    return ""


def _script(char: str) -> str:
    first = unicodedata.name(char, "?").split(" ", 1)[0]
    return "EAST ASIAN" if first in _EAST_ASIAN else first
