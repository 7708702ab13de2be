"""Takes out of texts what tells one phone, or its owner, from all others. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

# Keys of properties whose values are somebody's.
_PRIVATE_KEY = re.compile(
    r"serial|imei|meid|imsi|iccid|msisdn|line1|esn$|mac(addr|$)|bdaddr|btmac|wifimac|hostname|ssid", re.IGNORECASE
)
_PROPERTY = re.compile(r"^\[(?P<key>[^\]\n]+)\]: \[(?P<value>[^\n]*)\]\r?$", re.MULTILINE)
_PATTERNS = {
    "hardware addresses": re.compile(r"\b(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}\b"),
    "e-mail addresses": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    "numbers of 14 to 20 digits (IMEI, IMSI, ICCID are such)": re.compile(r"(?<![\d.])\d{14,20}(?![\d.])"),
}
_SHORTEST_SECRET = 4
_MARK = "<redacted>"


class Redactor:
    """Redacts texts and counts what was taken out, by kind."""

    def __init__(self, serials: Iterable[str]) -> None:
        # The longest first: one may be part of another.
        self._serials = sorted({word for word in serials if len(word) >= _SHORTEST_SECRET}, key=len, reverse=True)
        self.counts: Counter[str] = Counter()

    def names(self, text: str) -> str:
        """Take the phone's serials out. For what we wrote ourselves, where every number is a measurement."""
        for word in self._serials:
            self.counts["serial numbers"] += text.count(word)
            text = text.replace(word, _MARK)
        return text

    def everything(self, text: str) -> str:
        """Take out serials, private properties, and whatever looks like an address or a long number."""
        text = _PROPERTY.sub(self._property, self.names(text))
        for kind, pattern in _PATTERNS.items():
            text, count = pattern.subn(_MARK, text)
            self.counts[kind] += count
        return text

    def told(self) -> list[str]:
        """Say what was taken out and how often."""
        return [f"{kind}: {count}" for kind, count in sorted(self.counts.items()) if count]

    def _property(self, match: re.Match[str]) -> str:
        if not _PRIVATE_KEY.search(match["key"]) or match["value"] in ("", _MARK):
            return match[0]
        self.counts["private properties"] += 1
        return f"[{match['key']}]: [{_MARK}]"


def serials_in(properties: Mapping[str, str], *known: str) -> list[str]:
    """Return the phone's serials: those known and those in its properties."""
    return [*known, *(value for key, value in properties.items() if key.endswith("serialno"))]
