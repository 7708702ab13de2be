"""A local file is hashed once, as long as nobody writes to it."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.payload import hashes
from harness.payload.folder import read_folder
from harness.payload.hashes import SMALLEST_BYTES, cached_sha256_of

LATER_NS = 10_000_000_000


class Counting:
    """The hash of a file some seconds after it was written, and how often it was really read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads = 0
        self._sha256_of = hashes.sha256_of
        monkeypatch.setattr(hashes, "sha256_of", self._count)

    def _count(self, path: Path) -> str:
        self.reads += 1
        return self._sha256_of(path)

    def __call__(self, path: Path, after_ns: int = LATER_NS) -> str:
        found = cached_sha256_of(path, now_ns=lambda: time.time_ns() + after_ns)
        assert found == hashlib.sha256(path.read_bytes()).hexdigest()
        return found


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Counting:
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "cache"))
    return Counting(monkeypatch)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "w"
    path.write_bytes(os.urandom(SMALLEST_BYTES))
    return path


def test_it_is_read_once(hashed: Counting, file: Path) -> None:
    assert hashed(file) == hashed(file)
    assert hashed.reads == 1


def in_place(path: Path) -> None:
    before = path.stat()
    with path.open("r+b") as opened:
        opened.write(b"X")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "touch",
    [
        in_place,
        lambda path: path.write_bytes(os.urandom(SMALLEST_BYTES)),
        lambda path: (path.rename(path.with_name("old")), path.write_bytes(bytes(SMALLEST_BYTES))),
    ],
    ids=["byte", "written", "replaced"],
)
def test_it_is_read_again_when_it_was_touched(hashed: Counting, file: Path, touch: Callable[[Path], object]) -> None:
    hashed(file)
    touch(file)
    hashed(file)
    assert hashed.reads == 2


def test_a_file_that_was_just_written_is_not_remembered(hashed: Counting, file: Path) -> None:
    hashed(file, after_ns=0)
    hashed(file, after_ns=0)
    assert hashed.reads == 2


def test_small_files_are_simply_read(hashed: Counting, tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"x" * (SMALLEST_BYTES - 1))
    hashed(tmp_path / "small")
    assert list((tmp_path / "cache").rglob("*")) == []


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"sha256": 5}', b"\xff", b'{"path": "/x", "sha256": "0"}'])
def test_a_damaged_entry_is_no_entry(hashed: Counting, file: Path, tmp_path: Path, damage: bytes) -> None:
    hashed(file)
    (entry,) = (tmp_path / "cache" / "hashes").iterdir()
    entry.write_bytes(damage)
    hashed(file)
    hashed(file)
    assert hashed.reads == 2


def test_an_entry_that_cannot_be_written_costs_only_time(
    hashed: Counting, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", refuse)
    hashed(file)
    hashed(file)
    assert hashed.reads == 2


def test_many_at_once_agree(hashed: Counting, file: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(hashed, [file] * 32))) == 1
    reads = hashed.reads
    hashed(file)
    assert hashed.reads == reads


def test_the_oldest_entries_go(hashed: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashes, "_MOST_ENTRIES", 4)
    for number in range(5):
        path = tmp_path / str(number)
        path.write_bytes(bytes([number]) * SMALLEST_BYTES)
        hashed(path)
    assert len(list((tmp_path / "cache" / "hashes").iterdir())) == 3


def test_a_folder_is_read_through_the_cache_unless_every_byte_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "w").write_bytes(b"content")
    monkeypatch.setattr("harness.payload.folder.cached_sha256_of", lambda _: "remembered")
    assert [file.sha256 for file in read_folder(tmp_path).files] == ["remembered"]
    assert [file.sha256 for file in read_folder(tmp_path, trust=False).files] == [
        hashlib.sha256(b"content").hexdigest()
    ]
