"""Triage: texts in, findings out. Reads each text once, in bounded memory, and never raises on what is in it."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from harness.triage.entry import Entry, Kind, read_entry
from harness.triage.finding import Finding, findings_of
from harness.triage.match import Matcher
from harness.triage.readers.backends import backend_entries
from harness.triage.readers.benched import bench_rows
from harness.triage.readers.clocks import clock_entries
from harness.triage.readers.crash import NEEDLES as CRASH_NEEDLES
from harness.triage.readers.crash import CrashReader, Frame
from harness.triage.readers.exits import read_exits
from harness.triage.readers.features import NEEDLES as FEATURE_NEEDLES
from harness.triage.readers.features import FeatureReader
from harness.triage.readers.kind import HEAD, kind_of
from harness.triage.readers.listing import listing_entries
from harness.triage.readers.notes import note_entries
from harness.triage.readers.record import EVENT_NEEDLES, RECORD_NEEDLES, event_entries, record_entries
from harness.triage.readers.series import series_entries
from harness.triage.readers.states import state_entries
from harness.triage.readers.tables import table_entries
from harness.triage.readers.texts import text_entries
from harness.triage.readers.timings import timing_entries
from harness.triage.readers.walltime import walltime_entries
from harness.triage.rule import Rule, shipped_rules
from harness.triage.scan import blocks

# Readers that need a text as a whole look at texts of people's size only.
WHOLE = 4 << 20


@dataclass(frozen=True)
class Source:
    """One text: its name for people, and how to open it for reading bytes."""

    name: str
    open: Callable[[], AbstractContextManager[BinaryIO]]

    @classmethod
    def of_file(cls, path: Path) -> Source:
        """Return the source that a file is."""
        return cls(str(path), lambda: path.open("rb"))

    @classmethod
    def of_text(cls, name: str, text: bytes | str) -> Source:
        """Return the source that a text in memory is."""
        data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        return cls(name, lambda: nullcontext(io.BytesIO(data)))


# Who knows more of a whole text than its single lines tell, e.g. the judge of MNN's figures: from its name and its
# bytes as UTF-8 with plain line ends.
Judge = Callable[[str, bytes], Iterable[Entry]]


def triage(
    sources: Iterable[Source],
    rules: Sequence[Rule] | None = None,
    judges: Sequence[Judge] = (),
    name_frame: Callable[[Frame], str | None] | None = None,
) -> tuple[Finding, ...]:
    """Return what the sources show together, most likely cause first; empty when nothing is known of them.

    Args:
        sources: read in this order, all as one case.
        rules: other ones than those that come with mnn-farm.
        judges: who else looks at whole texts.
        name_frame: names the function of a stack's frame where the phone could not (:mod:`harness.triage.symbols`).

    Raises:
        OSError: a source cannot be read.
    """
    needles = (*CRASH_NEEDLES, *FEATURE_NEEDLES, *EVENT_NEEDLES, *RECORD_NEEDLES)
    matcher = Matcher(shipped_rules() if rules is None else rules, needles)
    readers = _Readers()
    for source in sources:
        with source.open() as stream:
            whole = _read_one(source.name, stream, matcher, readers)
        for entry in _of_whole(source.name, whole, judges):
            matcher.take_text(entry)
    if name_frame is not None:
        readers.crashes.name_frames(name_frame)
    for entry in (*readers.crashes.entries(), *readers.features.entries()):
        matcher.take_text(entry)
    return findings_of(matcher.hits())


class _Readers:
    """The readers that put lines of all sources together; each wants the lines that hold one of its needles."""

    def __init__(self) -> None:
        self.crashes = CrashReader()
        self.features = FeatureReader()
        places = iter(range(len(CRASH_NEEDLES) + len(FEATURE_NEEDLES) + len(EVENT_NEEDLES)))
        self._crash_needles, self._feature_needles, self.event_needles = (
            frozenset(itertools.islice(places, len(needles)))
            for needles in (CRASH_NEEDLES, FEATURE_NEEDLES, EVENT_NEEDLES)
        )

    def take(self, entry: Entry, needles: frozenset[int]) -> None:
        """Look at one line that holds these needles."""
        if needles & self._crash_needles:
            self.crashes.take(entry)
        if needles & self._feature_needles:
            self.features.take(entry)


def _read_one(name: str, stream: BinaryIO, matcher: Matcher, readers: _Readers) -> bytes | None:
    """Read a text line by line; return it as a whole when it is small enough, else ``None``."""
    head = stream.read(HEAD)
    kind = kind_of(head)
    kept = _Kept(head, stream)
    for found in matcher.scanner.scan(kept):  # type: ignore[arg-type]
        ours = record_entries if kind == "record" else event_entries if found.needles & readers.event_needles else None
        if ours is not None:
            for entry in ours(found.raw, name, found.number):
                matcher.take_text(entry)
            continue
        entry = read_entry(found.raw, name, found.number, _usual(kind))
        matcher.take(entry, found.needles)
        readers.take(entry, found.needles)
    return kept.whole


class _Kept:
    """A stream whose beginning was read already; remembers what it gave as long as that is little."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = head, rest
        self._parts: list[bytes] | None = []
        self._size = 0

    def read(self, size: int) -> bytes:
        """Return the next bytes, ``b""`` at the end."""
        part, self._head = (self._head, b"") if self._head else (self._rest.read(size), b"")
        self._size += len(part)
        if self._size > WHOLE:
            self._parts = None
        if self._parts is not None:
            self._parts.append(part)
        return part

    @property
    def whole(self) -> bytes | None:
        """All that was read, ``None`` when it was too much to keep."""
        return None if self._parts is None else b"".join(self._parts)


def _of_whole(name: str, whole: bytes | None, judges: Sequence[Judge]) -> Iterator[Entry]:
    if whole is None:
        return
    plain = b"".join(blocks(io.BytesIO(whole)))
    entries = list(_entries(name, plain, kind_of(plain[:HEAD])))
    if entries and entries[0].kind != "record":
        rows = bench_rows(entries)
        yield from table_entries(entries, rows)
        yield from backend_entries(entries, rows)
        yield from series_entries(entries)
        yield from state_entries(entries)
        yield from clock_entries(entries)
        yield from walltime_entries(entries)
        yield from read_exits(entries)
        yield from text_entries(entries)
        yield from timing_entries(entries)
        yield from note_entries(entries)
        yield from listing_entries(entries)
        for judge in judges:
            yield from judge(name, plain)


def _entries(name: str, plain: bytes, kind: Kind) -> Iterator[Entry]:
    for number, line in enumerate(plain.split(b"\n"), 1):
        yield read_entry(line, name, number, _usual(kind))


def _usual(kind: Kind) -> Kind:
    """Return what a line of a file is that looks like nothing else: mostly what somebody put beside it."""
    return kind if kind in ("adb", "pytest", "record") else "text"
