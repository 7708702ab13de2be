from __future__ import annotations

from pathlib import Path

import pytest

from harness.payload.folder import PayloadFile, PayloadFolder
from harness.payload.probe_files import HashLine
from harness.payload.resume import Remaining, begin

A, W = PayloadFile("a", 10, "a" * 64, True), PayloadFile("sub/w", 100, "f" * 64)
PAYLOAD = PayloadFolder(Path(), (A, W))


def start(file: PayloadFile, length: int) -> str:
    """The hash of the start of a local file: here it just tells which and how long."""
    return f"{file.path}:{length}"


@pytest.mark.parametrize(
    ("found", "offset"),
    [
        ([], 0),
        ([HashLine("sub/w", 40, "sub/w:40")], 40),
        ([HashLine("sub/w", 40, "another")], 0),
        ([HashLine("sub/w", 100, "f" * 64)], 100),
        ([HashLine("sub/w", 100, "0" * 64)], 0),
        ([HashLine("sub/w", 101, "sub/w:101")], 0),
        ([HashLine("sub/w", 0, "e3b0")], 0),
        ([HashLine("sub/w", error="EIO")], 0),
        ([HashLine("sub/w", symlink=True)], 0),
    ],
    ids=["nothing", "half", "half of another", "whole", "rotted", "too long", "empty", "unreadable", "link"],
)
def test_a_push_goes_on_after_what_is_the_start_of_the_file(found: list[HashLine], offset: int) -> None:
    beginning = begin(PAYLOAD, found, start)
    assert Remaining(W, offset) in beginning.files
    assert beginning.kept_bytes == offset
    assert beginning.drop == ()


def test_what_does_not_belong_is_dropped_and_what_is_whole_comes_first() -> None:
    found = [HashLine("sub/w", 100, "f" * 64), HashLine("stray", 5, "0"), HashLine("odd", symlink=True)]
    beginning = begin(PAYLOAD, found, start)
    assert beginning.drop == ("odd", "stray")
    assert beginning.files == (Remaining(W, 100), Remaining(A, 0))


def test_a_local_file_is_only_read_where_a_part_of_it_is_there() -> None:
    asked: list[tuple[str, int]] = []

    def spy(file: PayloadFile, length: int) -> str:
        asked.append((file.path, length))
        return ""

    begin(PAYLOAD, [HashLine("a", 10, "a" * 64), HashLine("sub/w", 7, "x")], spy)
    assert asked == [("sub/w", 7)]
