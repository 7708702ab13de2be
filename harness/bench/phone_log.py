"""What the phone's own log says of the time of a run: the engine's words, and whom the phone killed for memory.

Engines built with MNN_USE_LOGCAT print there instead of to stderr. A log is read from its own newest line before the
run, not from a time: phones' clocks jump. The parsers are pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from harness.core.deadline import Deadline
from harness.core.errors import PhoneError
from harness.core.log import phone_logger
from harness.core.transport import Transport

READ_S = 20.0
NOT_READ = "the phone's log was not read"
_LAST_LINES = "3000"
# lmkd's (Android 9 and later), the old kernel driver's, and the kernel's own words for a process killed for memory.
_KILLED = re.compile(
    rb"lowmemorykiller\s*(?:\(\s*\d+\))?: Kill(?:ing)? '(?P<app>[^']*)' \((?P<lmkd>\d+)\)"
    rb"|[Oo]ut of memory: Kill(?:ed)? process (?P<kernel>\d+)(?: \((?P<name>[^)]*)\))?"
)
# Before Android 9 the kernel kills, and its log is not shown on most phones.
_LMKD_SINCE_SDK = 28
_WHEN = rb"(?:\d{4}-)?(\d\d-\d\d \d\d:\d\d:\d\d\.\d{3})\S*"
_STAMP = re.compile(_WHEN)
# `threadtime`, with the year, the zone or the user where a phone adds them; else `time` and `brief`.
_LINE = re.compile(
    rb"(?:" + _WHEN + rb"\s+(?:[+-]\d{4}\s+)?(?:[a-z]\S*\s+)?(?P<pid>\d+)\s+\d+\s+[VDIWEFS]\s(?P<tag>[^:]{0,64}):"
    rb"|(?:" + _WHEN + rb"\s+)?[VDIWEFS]/(?P<tag2>[^:(]{0,64})\(\s*(?P<pid2>\d+)\):) ?(?P<text>.*)"
)
_ENGINE_TAG = b"mnn"


@dataclass(frozen=True)
class PhoneLog:
    """A phone's log over the time of a run, oldest line first.

    ``gap`` says why it cannot tell everything of that time, ``""`` if it can.
    """

    lines: bytes = b""
    gap: str = NOT_READ


@dataclass(frozen=True)
class Kill:
    """A process that the phone killed for want of memory, and the line that says so."""

    pid: int
    name: str
    line: str


class LogReader:
    """Reads the log of one run. What a phone does not give costs a run its explanation, never its figures."""

    def __init__(self, transport: Transport, sdk: int | None) -> None:
        self._transport = transport
        self._sdk = sdk
        self._buffers: tuple[str, ...] = ("-b", "all")
        self._mark: bytes | None = None

    def begin(self) -> None:
        """Remember the newest line, from which :meth:`read` reads on."""
        newest = self._ask("-t", "1")
        if newest is not None:
            lines = [line for line in newest.splitlines() if _stamp_of(line) is not None]
            self._mark = lines[-1] if lines else b""

    def read(self) -> PhoneLog:
        """Return the log since :meth:`begin`."""
        stamp = _stamp_of(self._mark) if self._mark else None
        said = self._ask("-t", stamp.decode()) if stamp is not None else None
        if said is None:  # Android before 5 counts lines only
            said = self._ask("-t", _LAST_LINES)
        if said is None:
            return PhoneLog()
        if self._mark is None:
            return PhoneLog(said, "where the run begins in the phone's log is not known")
        lines, rolled = since(said, self._mark)
        if rolled:
            return PhoneLog(lines, "the phone's log was full and had lost the run's begin")
        if (self._sdk or _LMKD_SINCE_SDK) < _LMKD_SINCE_SDK and b"beginning of kernel" not in said:
            return PhoneLog(lines, "before Android 9 the kernel's log tells it, which this phone does not show")
        return PhoneLog(lines, "")

    def _ask(self, *how: str) -> bytes | None:
        """Ask for a part of the log. Old phones do not know ``-b all``: they show their default buffers."""
        deadline = Deadline(READ_S, "reading the phone's log", self._transport.name)
        try:
            for buffers in dict.fromkeys((self._buffers, ())):
                argv = ["logcat", "-d", "-v", "threadtime", *buffers, *how]
                result = self._transport.shell(argv, deadline=deadline)
                if result.exit_code == 0:
                    self._buffers = buffers
                    return result.stdout
        except PhoneError as error:
            phone_logger(__name__, self._transport.name).warning("the phone's log could not be read: %s", error)
        return None


def since(log: bytes, mark: bytes) -> tuple[bytes, bool]:
    """Return the lines after the line ``mark``, and whether that line is missing; ``b""`` is before all lines.

    Where it is missing, the lines count from the first one that is not older. Later lines stay whatever their time:
    when a phone's clock is set back, they look older.
    """
    lines = log.splitlines(keepends=True)
    if not mark:
        return log, False
    same = [number for number, line in enumerate(lines) if line.rstrip() == mark.rstrip()]
    if same:
        return b"".join(lines[same[-1] + 1 :]), False
    begun = _stamp_of(mark) or b""
    for number, line in enumerate(lines):
        stamp = _stamp_of(line)
        if stamp is not None and not _is_before(stamp, begun):
            return b"".join(lines[number:]), True
    return b"", True


def _is_before(stamp: bytes, mark: bytes) -> bool:
    """Compare two times of a log, which have no year."""
    turn_of_year = mark[:2] == b"12" and stamp[:2] == b"01"
    return stamp < mark and not turn_of_year


def _stamp_of(line: bytes) -> bytes | None:
    match = _STAMP.match(line)
    return None if match is None else match[1]


def memory_kill(log: bytes, pid: int) -> str | None:
    """Return the line in which the phone says that it killed process ``pid`` for want of memory."""
    return next((kill.line for kill in reversed(_kills(log)) if kill.pid == pid), None)


def killed_apps(log: bytes, ours: Collection[int]) -> tuple[Kill, ...]:
    """Return the processes that are not ours and were killed for want of memory, each once."""
    return tuple({kill.pid: kill for kill in _kills(log) if kill.pid not in ours}.values())


def _kills(log: bytes) -> list[Kill]:
    found = []
    for line in log.splitlines():
        match = _KILLED.search(line)
        if match is not None:
            name = (match["app"] or match["name"] or b"").decode("utf-8", "replace")
            text = line.decode("utf-8", "replace").strip()
            found.append(Kill(int(match["lmkd"] or match["kernel"]), name, text))
    return found


def engine_lines(log: bytes, pids: Collection[int]) -> bytes:
    """Return what MNN wrote into the log from one of these processes, without the log's own words before each line."""
    said = []
    for line in log.splitlines():
        match = _LINE.match(line)
        if match is None or int(match["pid"] or match["pid2"]) not in pids:
            continue
        if (match["tag"] or match["tag2"] or b"").lower().startswith(_ENGINE_TAG):
            said.append(match["text"])
    return b"\n".join(said)


def worth_keeping(log: bytes, pids: Collection[int]) -> bytes:
    """Return the lines of our processes and of kills, which is all that a run that ended well needs."""
    kept = []
    for line in log.splitlines(keepends=True):
        match = _LINE.match(line)
        own = match is not None and int(match["pid"] or match["pid2"]) in pids
        if own or _KILLED.search(line):
            kept.append(line)
    return b"".join(kept)
