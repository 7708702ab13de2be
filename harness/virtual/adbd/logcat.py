"""The phone's command ``logcat``: prints the ring of :mod:`adbd.logring` as a phone does, and follows it.

Options: ``-d`` dump and end, ``-c`` clear, ``-g`` sizes, ``-b BUFFERS``, ``-v FORMAT``, ``-t COUNT``, ``-T COUNT``
(or a time, ``MM-DD hh:mm:ss.mmm``), ``-s``, ``-e REGEX``, ``--pid PID``, and filters ``TAG:LEVEL``. Formats are
threadtime, time, brief, tag and raw.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from .logring import BUFFERS, CAPACITY_BYTES, DEFAULT_BUFFERS, LEVELS, LogRing

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


class Writer(Protocol):
    """Where lines go."""

    def write(self, data: bytes, /) -> object:
        """Write bytes."""

    def flush(self) -> None:
        """Let them be seen."""


@dataclass(frozen=True)
class Filter:
    """Which lines are wanted."""

    levels: dict[str, str] = field(default_factory=dict)
    """Least level by tag; ``*`` is for all others."""
    pid: int | None = None
    pattern: re.Pattern[bytes] | None = None

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


def _parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="logcat", allow_abbrev=False)
    parser.add_argument("-d", action="store_true", dest="dump")
    parser.add_argument("-c", "--clear", action="store_true")
    parser.add_argument("-g", "--buffer-size", action="store_true", dest="sizes")
    parser.add_argument("-b", "--buffer", action="append", default=[])
    parser.add_argument("-v", "--format", action="append", default=[])
    parser.add_argument("-t", dest="tail_and_end")
    parser.add_argument("-T", dest="tail")
    parser.add_argument("-s", action="store_true", dest="silent")
    parser.add_argument("-e", "--regex")
    parser.add_argument("--pid", type=int)
    parser.add_argument("filters", nargs="*")
    return parser.parse_intermixed_args(words)


def main(words: list[str], ring: LogRing, out: Writer) -> int:
    """Run the command."""
    options = _parse(words)
    try:
        buffers = _buffers(options.buffer)
        wanted = Filter(
            parse_filters(options.filters, silent=options.silent),
            options.pid,
            re.compile(options.regex.encode()) if options.regex else None,
        )
        form = next((name for name in reversed(options.format) if name in _FORMATS), "threadtime")
        if options.clear:
            ring.clear(buffers)
            return 0
        if options.sizes:
            for name in buffers:
                used = ring.size_bytes(name)
                out.write(f"{name}: ring buffer is {CAPACITY_BYTES // 1024} KiB ({used} B consumed)\n".encode())
            return 0
        _print(ring, buffers, wanted, form, options, out)
    except (ValueError, re.error) as error:
        sys.stderr.write(f"logcat: {error}\n")
        return 1
    return 0


def _print(
    ring: LogRing, buffers: list[str], wanted: Filter, form: str, options: argparse.Namespace, out: Writer
) -> None:
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


def _write(pairs: list[tuple[str, bytes]], begun: set[str], form: str, out: Writer) -> None:
    for buffer, line in pairs:
        if buffer not in begun:
            begun.add(buffer)
            out.write(f"--------- beginning of {buffer}\n".encode())
        out.write(formatted(line, form))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:], LogRing(FOLDER), sys.stdout.buffer))
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(1)
