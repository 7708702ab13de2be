"""One line of evidence, with where it stands, and without the prefix that a log put before it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from harness.runners.lines import split_prefix

# What a line is. ``crash``, ``table``, ``judged`` and ``record`` are sentences that our readers made of several lines.
Kind = Literal[
    "text", "logcat", "dmesg", "tombstone", "adb", "pytest", "note", "facts", "crash", "table", "judged", "record"
]

# Longer than any line that a rule looks at; what is behind is cut off, so that no hostile line costs much.
LONGEST = 2000
_SHOWN = 400

_ANSI = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
# The kernel's own: level, time since boot, task or CPU; /dev/kmsg has its fields behind commas.
_KERNEL = re.compile(
    r"(?:<\d{1,3}>)?\[\s{0,8}\d{1,9}\.\d{3,6}\](?:\s?\[[^\]]{0,24}\])?\s?|<\d{1,3}>|\d,\d+,\d+,[^;]{0,8};"
)
# `brief` and `tag` of logcat, and what people paste without the time: only tags that speak of death or of the engine.
_BARE = re.compile(
    r"\s{0,8}[VDIWEFAS][/ ]\s?(?P<tag>libc|DEBUG|linker\w{0,8}|lowmemorykiller|lmkd|ActivityManager|AndroidRuntime|"
    r"MNN\w{0,20}|tombstoned|crash_dump\w{0,4}|Zygote|audit|auditd|OpenCL|Adreno\S{0,20}|QnnDsp|QNN\w{0,10}|vulkan|"
    r"art|libc\+\+abi|scudo|native|am_\w{1,24}|killinfo|[Tt]hermal\w{0,20}|thermal-engine|mi_thermald|ShutdownThread)"
    r"\s{0,12}(?:\(\s{0,6}(?P<pid>\d{1,7})\))?\s{0,4}: ?"
    r"|[VDIWEFAS]/(?P<tag2>[^\s(:][^(:]{0,60}?)\s{0,12}\(\s{0,6}(?P<pid2>\d{1,7})\): ?"
    r"|(?P<tag3>ActivityManager|lowmemorykiller|lmkd|Zygote|ThermalManagerService|ThermalEngine|ShutdownThread)"
    r"\s{0,12}(?:\(\s{0,6}(?P<pid3>\d{1,7})\))?: (?=\S)"
)
_PIDS = re.compile(
    r"(?:\d{4}-)?\d\d-\d\d[ T]\d\d:\d\d:\d\d\.\d{3,9}\s{1,8}(?:[+-]\d{4}\s{1,4})?(?:[a-z]\S{0,12}\s{1,4})?"
    r"(?P<pid>\d{1,7})[-\s]"
)
# Header of logcat's format `long`; its message stands in the lines below.
_LONG = re.compile(
    r"\[ (?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d\.\d{3,9}\s{1,6}(?P<pid>\d{1,7}):\s{0,6}(?:\d{1,7}|0x[0-9a-f]+) "
    r"[VDIWEFAS]/(?P<tag>[^\]]{1,60}?)\s{0,12}\]"
)
# Line numbers of grep, a quotation mark of a mail or of an issue, and the time that a CI puts before each line.
_QUOTED = re.compile(
    r"(?:> ?){1,3}|\(standard input\):\d{1,9}:|\d{1,9}:(?=(?:\d{4}-)?\d\d-\d\d \d\d:\d\d)"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z |\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\] "
)
_NOTE = re.compile(r"#(?:\s(?=\S)|(?=[A-Za-z]))")


@dataclass(frozen=True)
class Evidence:
    """A line that a finding stands on; ``source`` is the file's name, ``line`` counts from 1."""

    source: str
    line: int
    text: str


@dataclass(frozen=True)
class Entry:
    """One line to be matched: ``text`` is what is matched, ``evidence`` are the lines it came from."""

    text: str
    kind: Kind
    evidence: tuple[Evidence, ...]
    tag: str | None = None
    pid: int | None = None

    @property
    def source(self) -> str:
        """The file that the line stands in."""
        return self.evidence[0].source if self.evidence else ""

    @property
    def line(self) -> int:
        """The number of its first line."""
        return self.evidence[0].line if self.evidence else 0


def read_entry(raw: bytes, source: str, number: int, kind: Kind) -> Entry:
    """Make an entry of one line of a file; ``kind`` is what lines of that file are unless they look like another."""
    shown = printable(_ANSI.sub("", raw[:LONGEST].decode("utf-8", "replace")))
    evidence = (Evidence(source, number, shown.strip().replace("\t", " ")[:_SHOWN]),)
    quoted = _QUOTED.match(shown)
    text = shown[quoted.end() :] if quoted is not None and kind != "note" else shown
    line = split_prefix(text)
    if line.tag is not None:
        pid = _PIDS.match(text)
        return Entry(line.text, "logcat", evidence, line.tag.strip(), None if pid is None else int(pid["pid"]))
    bare = _BARE.match(text)
    if bare is not None:
        writer = bare["pid"] or bare["pid2"] or bare["pid3"]
        tag = bare["tag"] or bare["tag2"] or bare["tag3"]
        return Entry(text[bare.end() :], "logcat", evidence, tag, int(writer) if writer else None)
    long = _LONG.match(text)
    if long is not None:
        return Entry(text[long.end() :], "logcat", evidence, long["tag"], int(long["pid"]))
    kernel = _KERNEL.match(text)
    if kernel is not None:
        return Entry(text[kernel.end() :], "dmesg", evidence)
    text = text.lstrip()
    note = _NOTE.match(text)
    if note is not None:
        return Entry(text[note.end() :], "note", evidence)
    return Entry(text, kind, evidence)


def printable(text: str) -> str:
    """Return a text without the characters that a terminal would obey; tabs stay."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\t" else "\ufffd" for char in text)
