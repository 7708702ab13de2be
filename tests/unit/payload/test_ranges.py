from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from harness.payload.ranges import BLOCK_BYTES, PIECE_BYTES, Range, data_bytes, ranges

K = 1024
NOISE = os.urandom(BLOCK_BYTES)


def of(path: Path, start: int = 0, size: int | None = None) -> list[Range]:
    with path.open("rb") as file:
        return list(ranges(file.fileno(), start, path.stat().st_size if size is None else size))


def test_data_is_cut_into_pieces_but_for_what_begins_the_file(tmp_path: Path) -> None:
    file = tmp_path / "w"
    size = 2 * PIECE_BYTES + 5
    file.write_bytes(b"x" * size)
    assert of(file) == [Range(0, size)]
    assert of(file, 10) == [
        Range(10, PIECE_BYTES - 10),
        Range(PIECE_BYTES, PIECE_BYTES),
        Range(2 * PIECE_BYTES, 5),
    ]


def test_holes_and_stored_zeros_are_one_run_and_not_sent(tmp_path: Path) -> None:
    file = tmp_path / "w"
    with file.open("wb") as out:
        out.write(NOISE)
        out.write(bytes(2 * BLOCK_BYTES))
        out.seek(8 * BLOCK_BYTES)
        out.write(NOISE[:100])
    assert of(file) == [
        Range(0, BLOCK_BYTES),
        Range(BLOCK_BYTES, 7 * BLOCK_BYTES, zeros=True),
        Range(8 * BLOCK_BYTES, 100),
    ]
    with file.open("rb") as opened:
        assert data_bytes(opened.fileno(), 0, 8 * BLOCK_BYTES + 100) in (3 * BLOCK_BYTES + 100, 8 * BLOCK_BYTES + 100)


def test_a_block_that_only_begins_with_zeros_is_data(tmp_path: Path) -> None:
    file = tmp_path / "w"
    file.write_bytes(bytes(BLOCK_BYTES - 1) + b"x")
    assert of(file) == [Range(0, BLOCK_BYTES)]


@pytest.mark.parametrize(("length", "start"), [(0, 0), (5, 5)])
def test_where_nothing_is_left_there_is_nothing(tmp_path: Path, length: int, start: int) -> None:
    file = tmp_path / "w"
    file.write_bytes(b"x" * length)
    assert of(file, start) == []


def test_a_file_of_nothing_but_hole_is_one_run(tmp_path: Path) -> None:
    file = tmp_path / "w"
    with file.open("wb") as out:
        out.truncate(5 << 30)
    assert of(file) == [Range(0, 5 << 30, zeros=True)]
    assert of(file, 1 << 30) == [Range(1 << 30, 4 << 30, zeros=True)]


def test_a_file_system_that_knows_no_holes_has_data_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "w"
    file.write_bytes(NOISE + bytes(BLOCK_BYTES))

    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, "no holes here")

    monkeypatch.setattr(os, "lseek", refuse)
    assert of(file) == [Range(0, BLOCK_BYTES), Range(BLOCK_BYTES, BLOCK_BYTES, zeros=True)]
    with file.open("rb") as opened:
        assert data_bytes(opened.fileno(), 0, 2 * BLOCK_BYTES) == 2 * BLOCK_BYTES


def test_a_file_that_has_become_shorter_is_told_of_as_it_was(tmp_path: Path) -> None:
    """So that sending it fails, instead of something shorter arriving."""
    file = tmp_path / "w"
    file.write_bytes(NOISE)
    covered = of(file, 0, BLOCK_BYTES + 10)
    assert sum(part.length for part in covered) == BLOCK_BYTES + 10
