"""How a program ended, from a console: exit statuses, the shell's words, a status that was lost. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.triage.entry import Entry

SIGNALS = {
    129: "SIGHUP", 130: "SIGINT", 131: "SIGQUIT", 132: "SIGILL", 133: "SIGTRAP", 134: "SIGABRT", 135: "SIGBUS",
    136: "SIGFPE", 137: "SIGKILL", 139: "SIGSEGV", 141: "SIGPIPE", 143: "SIGTERM", 159: "SIGSYS",
}  # fmt: skip
_STATUS = re.compile(
    r"(?:^|[\s;,(\[\"'])(?:(?:exit|return|(?:exited|ended|finished) with)[_ -]?(?:code|status|value)"
    r"|exit(?:ed)?(?=\s?[:=])|EXIT(?=\s?[:=])|rc(?=\s?=)|ret(?:urncode)?(?=\s?=)|exited with(?= \d)|returned(?= -?\d))"
    r"[\"']?\s{0,2}(?:[:=]|is|of)?\s{0,2}(?P<status>-?\d{1,3})(?![\d.])",
)
# mksh on a phone shows the last status before its prompt.
_STATUS_PROMPT = re.compile(r"^(?P<status>\d{1,3})\|\S{1,60}(?::\S{0,120})? [$#](?: |$)")
_ECHO = re.compile(r"echo\b.{0,40}\$\?")
_PROMPT = re.compile(r"^\S{0,60}[$#>] ")
_NUMBER = re.compile(r"^\s{0,4}(?P<status>\d{1,3})\s{0,4}$")
# What says beyond doubt that the command before failed.
_FAILED = re.compile(
    r"(?:^|\s)(?:\S{0,60}: )?\S{1,200}: (?:inaccessible or )?not found\s{0,2}$|: can't execute: |: not executable: |"
    r"Permission denied\s{0,2}$|No such file or directory\s{0,2}$|^CANNOT LINK EXECUTABLE|"
    r"^(?:Segmentation fault|Aborted|Illegal instruction|Killed|Bus error)\b|^error: "
)
_NEAR = 6


def read_exits(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield what the lines of a console tell of exit statuses, as lines for rules."""
    echoed: Entry | None = None
    failed: Entry | None = None
    for entry in entries:
        text = entry.text
        if _ECHO.search(text) and (_PROMPT.match(text) or "adb" in text):
            echoed, failed = entry, None
            continue
        if echoed is not None and entry.line - echoed.line <= _NEAR:
            if (match := _NUMBER.match(text)) is not None:
                status = int(match["status"])
                if status == 0 and failed is not None:
                    evidence = (*echoed.evidence, *failed.evidence, *entry.evidence)
                    yield Entry("exit: lost: the command failed, its status is 0", "table", evidence)
                elif status:
                    yield _status(status, (*echoed.evidence, *entry.evidence))
                echoed = None
                continue
            if _FAILED.search(text):
                failed = entry
        prompt = _STATUS_PROMPT.match(text)
        for match in (prompt,) if prompt is not None else _STATUS.finditer(text[:400]):
            status = int(match["status"])
            if status:
                yield _status(status, entry.evidence)
                break


def _status(status: int, evidence: tuple[object, ...]) -> Entry:
    # A shell on the phone tells a signal as 128 + n, Python's subprocess as -n.
    known = SIGNALS.get(128 - status if -64 <= status < 0 else status)
    return Entry(f"exit: status={status}" + (f" signal={known}" if known else ""), "table", evidence)  # type: ignore[arg-type]
