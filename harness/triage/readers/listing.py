"""``adb devices``: whether it lists any phone. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.triage.entry import Entry

_HEAD = re.compile(r"^List of devices attached\s{0,4}$")
_PHONE = re.compile(r"^\S{1,64}\s{1,30}[a-z]\w{2,20}\b")
# adb ends its list with an empty line.
_LOOKS = 3


def listing_entries(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield a line for rules where the last list of phones in a text is empty."""
    heads = [place for place, entry in enumerate(entries) if _HEAD.match(entry.text)]
    if heads and not any(_PHONE.match(entry.text) for entry in entries[heads[-1] + 1 : heads[-1] + 1 + _LOOKS]):
        yield Entry("adb: none listed", "table", entries[heads[-1]].evidence)
