"""``adb devices``: whether it lists any phone, one serial twice, or in one place what it does not in another. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from harness.triage.entry import Entry

# Test runners put their own words before what a command printed.
_BEFORE = r"^(?:\[[^\]]{1,40}\] (?:\[\w{3,8}\] )?)?(?:std(?:out|err): )?"
_HEAD = re.compile(_BEFORE + r"List of devices attached\s{0,4}$")
_PHONE = re.compile(
    _BEFORE + r"(?P<serial>\S{1,64})\s{1,30}(?:device|offline|unauthorized|authorizing|connecting|no permissions|"
    r"bootloader|recovery|sideload|rescue|fastbootd?|host|detached|unknown)\b"
)
# What a server that is started for the list says in the middle of it.
_SERVER = re.compile(r"^\* daemon |^adb server ")
# A command that asks another computer, a container or another user.
_ELSEWHERE = re.compile(r"\b(?:docker|podman|kubectl|wsl|ssh|sudo|su|lxc|multipass|vagrant)\b.{0,300}\badb\b")
_LONGEST = 64

_List = tuple[Entry, bool, tuple[tuple[str, Entry], ...]]


def listing_entries(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield lines for rules where the last list of phones is empty, names a serial twice, or another list differs."""
    lists = [_read(entries, place) for place, entry in enumerate(entries) if _HEAD.match(entry.text)]
    if not lists:
        return
    head, _, phones = lists[-1]
    if not phones:
        yield Entry("adb: none listed", "table", head.evidence)
    serials = Counter(serial for serial, _ in phones)
    for twice in (serial for serial, times in serials.items() if times > 1 and serial.strip("?")):
        evidence = tuple(one for serial, entry in phones if serial == twice for one in entry.evidence)
        yield Entry(f"adb: listed twice: {twice}", "table", evidence)
    yield from _elsewhere(lists)


def _elsewhere(lists: Sequence[_List]) -> Iterator[Entry]:
    """Yield a line where one place lists a phone and another place lists none."""
    for head, place, phones in lists:
        other = next((phones for _, there, phones in lists if there != place and phones), ())
        if not phones and other:
            serial, listed = other[0]
            yield Entry(f"adb: listed elsewhere: {serial}", "table", (*head.evidence, *listed.evidence))
            return


def _read(entries: Sequence[Entry], place: int) -> _List:
    """Return a list's head, whether it was asked for elsewhere, and its serials with their lines."""
    asked = place > 0 and _ELSEWHERE.search(entries[place - 1].text) is not None
    return entries[place], asked, tuple(_phones(entries[place + 1 : place + 1 + _LONGEST]))


def _phones(entries: Sequence[Entry]) -> Iterator[tuple[str, Entry]]:
    """Yield serials and lines of one list; it ends at the first line that is neither a phone nor the server's."""
    for entry in entries:
        match = _PHONE.match(entry.text)
        if match is not None:
            yield match["serial"], entry
        elif not _SERVER.match(entry.text):
            return
