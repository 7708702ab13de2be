"""How a program ended, from a console: exit statuses, the shell's words, a status that was lost. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.triage.entry import Entry, Evidence

SIGNALS = {
    129: "SIGHUP", 130: "SIGINT", 131: "SIGQUIT", 132: "SIGILL", 133: "SIGTRAP", 134: "SIGABRT", 135: "SIGBUS",
    136: "SIGFPE", 137: "SIGKILL", 139: "SIGSEGV", 141: "SIGPIPE", 143: "SIGTERM", 159: "SIGSYS",
}  # fmt: skip
_NUMBERS = {name: status for status, name in SIGNALS.items()}
_STATUS = re.compile(
    r"(?:^|[\s;,(\[\"'])(?:(?:exit|ret(?:urn)?|(?:[Ee]xited|ended|finished) with)[_ -]?(?:code|status|value)"
    r"|exit(?:ed)?(?=\s?[:=])|EXIT(?=\s?[:=])|rc(?=\s?=)|ret(?:urncode)?(?=\s?=)|exited with(?= \d)|returned(?= -?\d))"
    r"[\"']?\s{0,2}(?:[:=]|is|of)?\s{0,2}(?P<status>-?\d{1,3})(?!\d|\.\d)",
)
# mksh on a phone shows the last status before its prompt.
_STATUS_PROMPT = re.compile(r"^(?P<status>\d{1,3})\|\S{1,60}(?::\S{0,120})? [$#](?: |$)")
_ECHO = re.compile(r"echo\b.{0,40}\$\?")
_PROMPT = re.compile(r"^\S{0,60}[$#>] ")
_NUMBER = re.compile(r"^\s{0,4}(?:[A-Za-z]{1,8} ?[=:] ?)?(?P<status>\d{1,3})\s{0,4}$")
# What other programs than the phone's shell say of a death by a signal: strace, Python, Rust, QEMU among them.
_SIGNALLED = re.compile(
    r"(?:terminated|killed|died|ended|crashed|exited|interrupted) (?:with|by|from|on|due to) (?:fatal )?signal:? "
    r"(?P<signal>SIG[A-Z]{2,5}|\d{1,2})\b|^--- (?P<traced>SIG(?:ILL|SEGV|BUS|ABRT|SYS|FPE)) "
    r"|died with <Signals\.(?P<python>SIG[A-Z]{2,5}): |\(signal: \d{1,2}, (?P<rust>SIG[A-Z]{2,5}): "
    r"|uncaught target signal (?P<qemu>\d{1,2}) \("
)
# zsh's words, Go's, and those of the phone's shell that no rule looks for.
_WORDED = re.compile(
    r"^(?:zsh: |\[\d{1,3}\] {1,6}[+-]? ?\d{1,7} )"
    r"(?P<zsh>segmentation fault|illegal hardware instruction|bus error|abort|killed)\b"
    r"|(?:^|: )signal: (?P<go>segmentation fault|illegal instruction|bus error|aborted|killed)"
    r"(?: \(core dumped\))?\s{0,4}$"
    r"|^\s{0,8}(?P<shell>Floating point exception|Trace/breakpoint trap)(?:\s{1,3}\(core dumped\))?\s{0,4}$"
)
_WORDS = {
    "segmentation fault": "SIGSEGV",
    "illegal hardware instruction": "SIGILL",
    "illegal instruction": "SIGILL",
    "bus error": "SIGBUS",
    "abort": "SIGABRT",
    "aborted": "SIGABRT",
    "killed": "SIGKILL",
    "Floating point exception": "SIGFPE",
    "Trace/breakpoint trap": "SIGTRAP",
}
# What says beyond doubt that the command before failed.
_FAILED = re.compile(
    r"(?:^|\s)(?:\S{0,60}: )?\S{1,200}: (?:inaccessible or )?not found\s{0,2}$|: can't execute: |: not executable: |"
    r"Permission denied\s{0,2}$|No such file or directory\s{0,2}$|^CANNOT LINK EXECUTABLE|"
    r"^(?:Segmentation fault|Aborted|Illegal instruction|Killed|Bus error)\b|^error: |"
    r"^FAILURES!!!|^INSTRUMENTATION_(?:FAILED|ABORTED)|shortMsg=Process crashed"
)
# A command over adb, and what of it the phone runs; some commands fail by what they are.
_REMOTE = re.compile(r"\badb(?:\.exe)?\b.{0,60}?\bshell\s+(?P<command>.{1,400})")
_FAILS = re.compile(r"(?:false|exit [1-9]\d{0,2})\b")
_AFTER = re.compile(r"\s{0,4}(?:;|&&)?\s{0,4}echo\b.{0,40}\$\?.{0,20}$")
_ON_PHONE = re.compile(r"^(?:\d{1,3}\|)?\S{1,60}:\S{0,120} [$#] (?P<command>.{1,400})")
_NEAR = 6
_LOST = "exit: lost: the command failed, its status is 0"


def read_exits(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield what the lines of a console tell of exit statuses, as lines for rules. Logs of phones are passed over."""
    console = _Console()
    for entry in entries:
        if entry.kind not in ("logcat", "dmesg"):
            yield from console.take(entry)


class _Console:
    """What was typed last, and whether it failed, so that a status that is echoed below can be held against it."""

    def __init__(self) -> None:
        self._echoed: Entry | None = None
        self._typed: Entry | None = None
        self._failed: Entry | None = None
        self._well: dict[str, Entry] = {}

    def take(self, entry: Entry) -> Iterator[Entry]:
        """Yield what one line tells together with those before it."""
        typed = _REMOTE.search(entry.text) or _ON_PHONE.match(entry.text)
        prompted = typed is not None or _PROMPT.match(entry.text) is not None
        echoes = _ECHO.search(entry.text) is not None
        if typed is not None and _bare(typed["command"]):
            self._typed, self._failed = entry, None
        elif prompted and not echoes:
            self._typed = self._failed = None
        if echoes and (prompted or "adb" in entry.text):
            self._echoed = entry
        elif (
            self._echoed is not None
            and entry.line - self._echoed.line <= _NEAR
            and (match := _NUMBER.match(entry.text))
        ):
            yield from self._status(int(match["status"]), self._echoed, entry)
            self._echoed = None
        else:
            self._failed = entry if _FAILED.search(entry.text) else self._failed
            yield from _told(entry)

    def _status(self, status: int, echoed: Entry, entry: Entry) -> Iterator[Entry]:
        """Yield what ``echo $?`` told: a status, or that one was lost."""
        typed = self._typed or echoed
        told = (*dict.fromkeys((*typed.evidence, *echoed.evidence)), *entry.evidence)
        remote = _REMOTE.search(typed.text)
        if status:
            yield _status(status, told)
            phone = _ON_PHONE.match(typed.text)
            well = self._well.get(_bare(phone["command"])) if phone is not None and remote is None else None
            if well is not None:
                yield Entry(_LOST, "table", (*well.evidence, *told))
        elif self._failed is not None and "adb" in typed.text and entry.line - self._failed.line <= _NEAR:
            evidence = tuple(dict.fromkeys((*told[:-1], *self._failed.evidence, *entry.evidence)))
            yield Entry(_LOST, "table", evidence)
        elif remote is not None:
            command = _bare(remote["command"])
            self._well[command] = typed
            if _FAILS.match(command):
                yield Entry(_LOST, "table", told)


def _bare(command: str) -> str:
    """Return a command without the ``echo $?`` behind it and without quotation marks around it."""
    return _AFTER.sub("", command).strip(" \"'")


def _told(entry: Entry) -> Iterator[Entry]:
    """Yield what one line says of an end, in words or as a number."""
    signal = _signal(entry.text)
    if signal is not None:
        yield Entry(f"exit: status={_NUMBERS.get(signal, 128)} signal={signal}", "table", entry.evidence)
        return
    prompt = _STATUS_PROMPT.match(entry.text)
    for match in (prompt,) if prompt is not None else _STATUS.finditer(entry.text[:400]):
        if int(match["status"]):
            yield _status(int(match["status"]), entry.evidence)
            return


def _signal(text: str) -> str | None:
    """Return the signal that a line says a program died of."""
    if (match := _WORDED.search(text[:400])) is not None:
        return _WORDS[next(word for word in match.groups() if word)]
    match = _SIGNALLED.search(text[:400])
    if match is None:
        return None
    name = next(name for name in match.groups() if name)
    return SIGNALS.get(128 + int(name)) if name.isdigit() else name


def _status(status: int, evidence: tuple[Evidence, ...]) -> Entry:
    # A shell on the phone tells a signal as 128 + n, Python's subprocess as -n.
    known = SIGNALS.get(128 - status if -64 <= status < 0 else status)
    return Entry(f"exit: status={status}" + (f" signal={known}" if known else ""), "table", evidence)
