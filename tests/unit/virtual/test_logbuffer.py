from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.virtual.logbuffer import LogRing, format_line


def test_a_line_has_the_threadtime_columns() -> None:
    line = format_line(1_700_000_000.25, 7, 4321, "W", "DEBUG", "text: with colon")
    assert re.fullmatch(r"11-1[45] \d\d:\d\d:20\.250     7  4321 W DEBUG   : text: with colon\n", line)


def test_every_line_of_a_message_gets_its_own_header(tmp_path: Path) -> None:
    LogRing(tmp_path).append("libc", "F", 12, 13, "one\ntwo", when_s=1_700_000_000)
    lines = [line for _, line in LogRing(tmp_path).lines()]
    assert [line.partition(b" F ")[2] for line in lines] == [b"libc    : one\n", b"libc    : two\n"]


def test_buffers_are_merged_by_time_and_chosen_by_name(tmp_path: Path) -> None:
    ring = LogRing(tmp_path)
    ring.append("b", "I", 1, 1, "second", when_s=1_700_000_002)
    ring.append("a", "I", 1, 1, "first", buffer="crash", when_s=1_700_000_001)
    assert [buffer for buffer, _ in ring.lines()] == ["crash", "main"]
    assert [buffer for buffer, _ in ring.lines(["main"])] == ["main"]


def test_a_full_ring_forgets_the_oldest_and_keeps_the_newest(tmp_path: Path) -> None:
    ring = LogRing(tmp_path, capacity_bytes=4096)
    for number in range(500):
        ring.append("tag", "I", 1, 1, f"message {number}", when_s=1_700_000_000 + number / 1000)
    kept = [int(line.split()[-1]) for _, line in ring.lines()]
    assert kept == list(range(kept[0], 500))
    assert kept[0] > 300
    assert ring.size_bytes("main") < 4096 + 200


def test_clearing_one_buffer_leaves_the_others(tmp_path: Path) -> None:
    ring = LogRing(tmp_path)
    ring.append("a", "I", 1, 1, "x")
    ring.append("a", "I", 1, 1, "y", buffer="crash")
    ring.clear(["main"])
    assert [buffer for buffer, _ in ring.lines()] == ["crash"]


@pytest.mark.parametrize(("level", "buffer"), [("X", "main"), ("II", "main"), ("I", "mian")])
def test_an_unknown_level_or_buffer_is_refused(tmp_path: Path, level: str, buffer: str) -> None:
    with pytest.raises(ValueError, match="choose one of"):
        LogRing(tmp_path).append("a", level, 1, 1, "x", buffer=buffer)
