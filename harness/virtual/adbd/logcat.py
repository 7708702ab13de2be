"""The phone's command ``logcat``: prints the ring of :mod:`adbd.logring` as a phone does, and follows it.

Options: ``-d`` dump and end, ``-c`` clear, ``-g`` sizes, ``-b BUFFERS``, ``-v FORMAT``, ``-t COUNT``, ``-T COUNT``
(or a time, ``MM-DD hh:mm:ss.mmm``), ``-s``, ``-e REGEX``, ``--pid PID``, and filters ``TAG:LEVEL``. Formats are
threadtime, time, brief, tag and raw.
"""

from __future__ import annotations

import getopt
import re
import sys
import time
from pathlib import Path

from .logring import DEFAULT_BUFFERS, LogRing
from .logwrite import BUFFERS, CAPACITY_BYTES, LEVELS

TYPE_CHECKING = False  # importing typing takes a fifth of the time to start
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import BinaryIO

FOLDER = Path("/dev/log")
_FOLLOW_S = 0.05
_LINE = re.compile(
    rb"(?P<date>\S+) (?P<time>\S+) +(?P<pid>\d+) +(?P<tid>\d+) (?P<level>\w) (?P<tag>.*?) *: (?P<text>.*)", re.DOTALL
)
_FORMATS = {
    "threadtime": b"%(line)s",
    "time": b"%(date)s %(time)s %(level)s/%(padded)s(%(pid)5s): %(text)s",
    "brief": b"%(level)s/%(padded)s(%(pid)5s): %(text)s",
    "tag": b"%(level)s/%(padded)s: %(text)s",
    "raw": b"%(text)s",
}


class Filter:
    """Which lines are wanted: by least level of a tag (``*`` is for all others), by process, by a pattern."""

    def __init__(
        self, levels: Mapping[str, str] | None = None, pid: int | None = None, pattern: re.Pattern[bytes] | None = None
    ) -> None:
        self.levels = levels or {}
        self.pid = pid
        self.pattern = pattern

    def wants(self, line: bytes) -> bool:
        """Whether ``line`` is to be printed; what cannot be read is."""
        match = _LINE.match(line)
        if match is None:
            return True
        tag = match["tag"].decode("utf-8", "replace")
        least = self.levels.get(tag, self.levels.get("*", "V"))
        level = match["level"].decode("ascii", "replace")
        if LEVELS.find(level) < LEVELS.index(least) or least == "S":
            return False
        if self.pid is not None and int(match["pid"]) != self.pid:
            return False
        return self.pattern is None or self.pattern.search(match["text"]) is not None


def parse_filters(words: Iterable[str], *, silent: bool) -> dict[str, str]:
    """Read ``TAG:LEVEL`` words; ``-s`` silences all others.

    Raises:
        ValueError: a level does not exist.
    """
    levels = {"*": "S"} if silent else {}
    for word in words:
        tag, _, level = word.partition(":")
        level = (level or ("V" if tag != "*" else "D")).upper()
        if level not in LEVELS:
            raise ValueError(f"Invalid filter expression '{word}'")
        levels[tag] = level
    return levels


def formatted(line: bytes, name: str) -> bytes:
    """Return a threadtime line in another format."""
    match = _LINE.match(line)
    if match is None or name == "threadtime":
        return line
    parts = {key.encode(): value for key, value in match.groupdict().items()}
    parts[b"padded"] = match["tag"].ljust(8)
    return _FORMATS[name] % parts


def _buffers(texts: list[str]) -> list[str]:
    names = [name for text in texts for name in text.split(",")]
    chosen: list[str] = []
    for name in names:
        chosen += {"all": list(BUFFERS), "default": list(DEFAULT_BUFFERS)}.get(name, [name])
    return list(dict.fromkeys(chosen)) or list(DEFAULT_BUFFERS)


class Options:
    """What the command was asked for."""

    def __init__(self, words: list[str]) -> None:
        """Read the command line.

        Raises:
            getopt.GetoptError: an option that is not known, or one without its value.
            ValueError: a process that is no number.
        """
        long = ["clear", "buffer-size", "buffer=", "format=", "regex=", "pid="]
        pairs, self.filters = getopt.gnu_getopt(words, "dcgb:v:t:T:se:", long)
        flags = dict(pairs)
        self.dump = "-d" in flags
        self.clear = "-c" in flags or "--clear" in flags
        self.sizes = "-g" in flags or "--buffer-size" in flags
        self.silent = "-s" in flags
        self.buffers = [value for flag, value in pairs if flag in ("-b", "--buffer")]
        self.formats = [value for flag, value in pairs if flag in ("-v", "--format")]
        self.tail_and_end, self.tail = flags.get("-t"), flags.get("-T")
        self.regex = flags.get("-e", flags.get("--regex"))
        self.pid = int(flags["--pid"]) if "--pid" in flags else None


def main(words: list[str], ring: LogRing, out: BinaryIO) -> int:
    """Run the command."""
    try:
        options = Options(words)
        buffers = _buffers(options.buffers)
        wanted = Filter(
            parse_filters(options.filters, silent=options.silent),
            options.pid,
            re.compile(options.regex.encode()) if options.regex else None,
        )
        form = next((name for name in reversed(options.formats) if name in _FORMATS), "threadtime")
        if options.clear:
            ring.clear(buffers)
            return 0
        if options.sizes:
            for name in buffers:
                used = ring.size_bytes(name)
                out.write(f"{name}: ring buffer is {CAPACITY_BYTES // 1024} KiB ({used} B consumed)\n".encode())
            return 0
        _print(ring, buffers, wanted, form, options, out)
    except (ValueError, re.error, getopt.GetoptError) as error:
        sys.stderr.write(f"logcat: {error}\n")
        return 1
    return 0


def _print(ring: LogRing, buffers: list[str], wanted: Filter, form: str, options: Options, out: BinaryIO) -> None:
    seen = ring.lines(buffers)
    chosen = [pair for pair in seen if wanted.wants(pair[1])]
    tail = options.tail_and_end or options.tail
    if tail is not None and tail.isdigit():
        chosen = chosen[max(0, len(chosen) - int(tail)) :]
    elif tail is not None:
        chosen = [pair for pair in chosen if pair[1][: len(tail)] >= tail.encode()]
    begun: set[str] = set()
    _write(chosen, begun, form, out)
    while not (options.dump or options.tail_and_end):
        out.flush()
        time.sleep(_FOLLOW_S)  # a file has no other way to say that it grew
        lines = ring.lines(buffers)
        fresh = _after(seen, lines)
        _write([pair for pair in fresh if wanted.wants(pair[1])], begun, form, out)
        seen = lines


def _after(seen: list[tuple[str, bytes]], now: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Return what ``now`` has beyond ``seen``; the oldest of ``seen`` may have been forgotten meanwhile."""
    left: dict[tuple[str, bytes], int] = {}
    for pair in seen:
        left[pair] = left.get(pair, 0) + 1
    fresh = []
    for pair in now:
        if left.get(pair, 0) > 0:
            left[pair] -= 1
        else:
            fresh.append(pair)
    return fresh


def _write(pairs: list[tuple[str, bytes]], begun: set[str], form: str, out: BinaryIO) -> None:
    for buffer, line in pairs:
        if buffer not in begun:
            begun.add(buffer)
            out.write(f"--------- beginning of {buffer}\n".encode())
        out.write(formatted(line, form))


def run() -> None:
    """Run it as the phone's command does."""
    try:
        sys.exit(main(sys.argv[1:], LogRing(FOLDER), sys.stdout.buffer))
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(1)
