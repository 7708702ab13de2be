"""What the phone's own log says of the time of a run: the engine's words, and whom the phone killed for memory.

Engines built with MNN_USE_LOGCAT print there instead of to stderr. A log is read from a line in it, not from a time:
phones' clocks jump. Where the phone has a ``log`` that line is our own, so that a buffer that went round is noticed by
its absence; else it is the newest one before the run. The parsers are pure.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harness.core.deadline import Deadline
from harness.core.errors import DeadlineError, PhoneError
from harness.core.kept import LEFT_OUT
from harness.core.log import phone_logger
from harness.core.transport import Transport

READ_S = 20.0
NOT_READ = "the phone's log was not read"
_LAST_LINES = "3000"
# Buffers of phones hold less, unless somebody enlarged them all.
MOST_BYTES = 24 << 20
MARK_TAG = "mnn-farm"
# Others may write between our own line and the look at it.
_TAIL = "8"
# Tells the time as logs do, to the second. $1 is our line, $2 and what follows the reading, if there is one: its exit
# code is this one's, and a phone without `log` goes on without the line.
_SIGN = f'''date "+%m-%d %H:%M:%S.000"
log -p i -t {MARK_TAG} "$1" 2>/dev/null || [ $# -gt 1 ] || exit
shift
[ $# -eq 0 ] || exec "$@"'''
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

    ``gap`` says why it cannot tell everything of that time, ``""`` if it can. ``mark`` is the line it is read from, of
    which ``signed`` says that we wrote it and ``rolled`` that it was lost again; ``ended`` is whether it has our line
    of the run's end.
    """

    lines: bytes = b""
    gap: str = NOT_READ
    mark: bytes = b""
    signed: bool = False
    ended: bool = False
    rolled: bool = False


@dataclass(frozen=True)
class Kill:
    """A process that the phone killed for want of memory, and the line that says so."""

    pid: int
    name: str
    line: str


class LogReader:
    """Reads the log of one run after the other. What a phone does not give costs a run its explanation, no figure.

    Our line is read back until the phone has shown it once, with the time that it tells otherwise: from then on writing
    it is enough, and whether it stands in the log is seen when that is read.
    """

    def __init__(self, transport: Transport, sdk: int | None) -> None:
        self._transport = transport
        self._sdk = sdk
        self._buffers: tuple[str, ...] = ("-b", "all")
        self._mark: bytes | None = None
        self._signed = False
        self._word = ""
        self._shows_ours = False
        self._took_too_long = False

    def begin(self) -> None:
        """Write a line of ours into the log, from which :meth:`read` reads on; else remember the newest line."""
        self._word = secrets.token_hex(6)
        self._mark, self._signed = None, False
        if self._shows_ours and self._write_mark():
            return
        said = self._ask("-t", _TAIL, sign=f"begin {self._word}")
        if said is None:
            return
        time, newest = _without_time(said)
        lines = [line for line in newest.splitlines() if _stamp_of(line) is not None]
        ours = [line for line in lines if self._is_mark(line)]
        self._signed = bool(ours)
        self._mark = (ours or lines or [b""])[-1]
        self._shows_ours = bool(ours) and _same_minute(time, ours[-1])

    def _write_mark(self) -> bool:
        """Write our line without reading it back; the time before it stands for it until the log is read."""
        deadline = Deadline(READ_S, "writing into the phone's log", self._transport.name)
        try:
            argv = ["sh", "-c", _SIGN, "sh", f"begin {self._word}"]
            result = self._transport.shell(argv, deadline=deadline)
        except PhoneError as error:
            phone_logger(__name__, self._transport.name).warning("the phone's log could not be written: %s", error)
            return False
        self._signed = result.exit_code == 0 and _stamp_of(result.stdout) is not None
        self._mark = result.stdout.strip() if self._signed else None
        return self._signed

    def _is_mark(self, line: bytes) -> bool:
        return line.rstrip().endswith(f": begin {self._word}".encode())

    def read(self, *, sign: bool = False) -> PhoneLog:
        """Return the log since :meth:`begin`; with ``sign`` a line of ours is written first, to show the run's end."""
        stamp = _stamp_of(self._mark) if self._mark else None
        self._took_too_long = False
        end = f"end {self._word}" if sign and self._signed else None
        said = self._ask("-t", stamp.decode(), sign=end) if stamp is not None else None
        if said is not None:
            said = _without_time(said)[1]
        if said is None:  # Android before 5 counts lines only
            said = self._ask("-t", _LAST_LINES)
        if said is None:
            return PhoneLog()
        if self._mark is None:
            return PhoneLog(said, "where the run begins in the phone's log is not known")
        self._mark = next((line for line in said.splitlines() if self._signed and self._is_mark(line)), self._mark)
        lines, rolled = since(said, self._mark)
        gap = ""
        if self._took_too_long:
            gap = f"the phone's log was not read whole within {READ_S:g} s"
        elif LEFT_OUT in said:
            gap = f"the phone's log had more than {MOST_BYTES >> 20} MiB, and its middle was left out"
        elif rolled:
            gap = "the phone's log was full and had lost the run's begin"
        elif (self._sdk or _LMKD_SINCE_SDK) < _LMKD_SINCE_SDK and b"beginning of kernel" not in said:
            gap = "before Android 9 the kernel's log tells it, which this phone does not show"
        ended = f": end {self._word}".encode() in lines
        return PhoneLog(lines, gap, self._mark, self._signed, ended, rolled)

    def _ask(self, *how: str, sign: str | None = None) -> bytes | None:
        """Ask for a part of the log. Old phones do not know ``-b all``: they show their default buffers.

        With ``sign`` a line of ours is written before, and the answer begins with a line that tells the time.
        """
        deadline = Deadline(READ_S, "reading the phone's log", self._transport.name)
        try:
            for buffers in dict.fromkeys((self._buffers, ())):
                argv = _signed(["logcat", "-d", "-v", "threadtime", *buffers, *how], sign)
                result = self._transport.shell(argv, deadline=deadline, most=MOST_BYTES)
                if result.exit_code == 0:
                    self._buffers = buffers
                    return result.stdout
        except PhoneError as error:
            self._took_too_long = isinstance(error, DeadlineError)
            phone_logger(__name__, self._transport.name).warning("the phone's log could not be read: %s", error)
        return None


def _signed(argv: Sequence[str], sign: str | None) -> list[str]:
    return list(argv) if sign is None else ["sh", "-c", _SIGN, "sh", sign, *argv]


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


def _without_time(said: bytes) -> tuple[bytes, bytes]:
    """Return the line that tells the time, ``b""`` where none does, and what follows it."""
    first, _, rest = said.partition(b"\n")
    return (first, rest) if _STAMP.fullmatch(first.strip()) else (b"", said)


def _same_minute(time: bytes, line: bytes) -> bool:
    """Whether the time that the phone told is that of a line written right after: both count in the same zone."""
    told, stamp = _stamp_of(time), _stamp_of(line)
    return told is not None and stamp is not None and told <= stamp and told[:11] == stamp[:11]


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


def writer_of(line: bytes) -> int | None:
    """Return the process that wrote a line of a log, ``None`` for what is no such line."""
    match = _LINE.match(line)
    return None if match is None else int(match["pid"] or match["pid2"])


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
