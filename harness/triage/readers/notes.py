"""Notes of people that compare: the output is wrong with one value of a setting, and right with another. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.triage.entry import Entry

_PAIR = re.compile(r"\b(?P<key>[A-Za-z][\w.]{1,30}) ?[=:] ?[\"']?(?P<value>[A-Za-z0-9][\w.+-]{0,30})")
_BAD = re.compile(
    r"(?i)\b(?:gibberish|garbled|garbage|nonsense|wrong|broken|nan|repeats?|repeated|empty)\b|乱码|错误|不对|异常"
)
_GOOD = re.compile(r"(?i)\b(?:ok|okay|fine|good|correct|right|works|normal text)\b|正常|正确")
# What names the result, or is no setting.
_NO_SETTINGS = frozenset(
    (
        "text",
        "output",
        "answer",
        "reply",
        "response",
        "result",
        "soc",
        "phone",
        "device",
        "model",
        "gpu",
        "android",
        "note",
    )
)
_LONGEST = 300


def note_entries(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield, as a line for rules, the first setting of which one value is called wrong and another right."""
    bad, good = (_settings(entries, regex, other) for regex, other in ((_BAD, _GOOD), (_GOOD, _BAD)))
    for key, values in bad.items():
        wrong = {value: entry for value, entry in values.items() if value not in good.get(key, {})}
        right = {value: entry for value, entry in good.get(key, {}).items() if value not in values}
        if wrong and right:
            (is_bad, first), (is_good, second) = next(iter(wrong.items())), next(iter(right.items()))
            text = f"notes: setting key=({key}) bad=({is_bad}) good=({is_good})"
            yield Entry(text, "table", (*first.evidence, *second.evidence))
            return


def _settings(entries: Sequence[Entry], wanted: re.Pattern[str], other: re.Pattern[str]) -> dict[str, dict[str, Entry]]:
    found: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        text = entry.text[:_LONGEST]
        # A note that says both cannot be told which value it means.
        if entry.kind == "note" and wanted.search(text) and not other.search(text):
            for pair in _PAIR.finditer(text):
                if pair["key"].lower() not in _NO_SETTINGS:
                    found.setdefault(pair["key"], {}).setdefault(pair["value"].lower(), entry)
    return found
