"""What a file is, from its first lines. Pure."""

from __future__ import annotations

import re

from harness.triage.entry import Kind, read_entry

HEAD = 64 << 10
_TOMBSTONE = re.compile(rb"^(?:\*\*\* ){4}|^pid: \d+, tid: \d+, name: ", re.MULTILINE)
_PYTEST = re.compile(rb"^=+ test session starts =+|^\[gw\d+\] |node down: |^=+ (?:\d+ \w+,? ?)+ in ", re.MULTILINE)
_ADB = re.compile(
    rb"^List of devices attached|^adb(?:\.exe)?: |^\* daemon |\d+ files? pushed"
    rb"|^error: (?:device|no devices|more than one|closed|protocol)",
    re.MULTILINE,
)
_RECORD = re.compile(rb'\s*\{"(?:schema|record)"|.{0,200}"record"\s*:\s*"cell"')
_FACTS = re.compile(rb"^(?:\[ro\.[a-z.]+\]: \[|processor\s+: \d|MemTotal:\s+\d+ kB|Features\s+: )", re.MULTILINE)


def kind_of(head: bytes) -> Kind:
    """Return what the lines of a file are that do not look like another kind, from the file's first bytes.

    Lines of a phone's or a kernel's log, and notes, are known one by one: files of people hold a mixture.
    """
    if _RECORD.match(head):
        return "record"
    if _TOMBSTONE.search(head):
        return "tombstone"
    if _PYTEST.search(head):
        return "pytest"
    if _ADB.search(head):
        return "adb"
    if _FACTS.search(head):
        return "facts"
    lines = [line for line in head.splitlines()[:200] if line.strip()]
    logged = [read_entry(line, "", 0, "text").kind for line in lines]
    for kind in ("logcat", "dmesg"):
        if logged and logged.count(kind) * 2 > len(logged):
            return kind
    return "text"
