"""``adb devices``: whether it lists any phone, and whether it lists one serial twice. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from harness.triage.entry import Entry

_HEAD = re.compile(r"^List of devices attached\s{0,4}$")
_PHONE = re.compile(
    r"^(?P<serial>\S{1,64})\s{1,30}(?:device|offline|unauthorized|authorizing|connecting|no permissions|bootloader|"
    r"recovery|sideload|rescue|fastbootd?|host|detached|unknown)\b"
)
# What a server that is started for the list says in the middle of it.
_SERVER = re.compile(r"^\* daemon |^adb server ")
_LONGEST = 64


def listing_entries(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield a line for rules where the last list of phones in a text is empty, or names a serial twice."""
    heads = [place for place, entry in enumerate(entries) if _HEAD.match(entry.text)]
    if not heads:
        return
    phones = tuple(_phones(entries[heads[-1] + 1 : heads[-1] + 1 + _LONGEST]))
    if not phones:
        yield Entry("adb: none listed", "table", entries[heads[-1]].evidence)
    serials = Counter(serial for serial, _ in phones)
    for twice in (serial for serial, times in serials.items() if times > 1 and serial.strip("?")):
        evidence = tuple(one for serial, entry in phones if serial == twice for one in entry.evidence)
        yield Entry(f"adb: listed twice: {twice}", "table", evidence)


def _phones(entries: Sequence[Entry]) -> Iterator[tuple[str, Entry]]:
    """Yield serials and lines of one list; it ends at the first line that is neither a phone nor the server's."""
    for entry in entries:
        match = _PHONE.match(entry.text)
        if match is not None:
            yield match["serial"], entry
        elif not _SERVER.match(entry.text):
            return
