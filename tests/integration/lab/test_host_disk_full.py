"""This computer's disk fills up in the middle of a run: what was recorded stays, and later the rest is done."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PHONES = ("high", "mid")
DISK_MB = 4


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of some megabytes, in memory."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(disk)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"mounting a small disk needs root and CAP_SYS_ADMIN: {mounted.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path) -> Path:
    """Take all room that there is, as somebody else's log does."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 4096)
    assert os.statvfs(disk).f_bavail == 0
    return ballast


def test_a_full_disk_ends_the_run_in_one_sentence_and_resume_finishes_it(
    bench: Any, bench_module: Any, small_disk: Path
) -> None:
    running = bench.start(small_disk / "run", "--threads=1,2,3", orders=bench_module.SLOW)
    running.wait_for("the first records", lambda: len(list(running.folder.records())) >= 2)
    before = list(running.folder.records())
    running.wait_until_measuring()
    ballast = fill(small_disk)
    done = running.ended()
    assert done.status == 10, done.text
    said = f"no further cell is begun: this computer's disk is full; make room where {running.folder.path} lies"
    assert done.text.count(said) == 1
    assert f"--run-dir {running.folder.path} --resume" in done.text
    bench.assert_as_found()
    records = list(done.folder.records())
    assert records[: len(before)] == before
    assert {record.reason for record in records[len(before) :]} <= {"host_disk_full"}

    ballast.unlink()
    finished = bench.run(small_disk / "run", "--resume")
    assert finished.status == 0, finished.text
    for phone in bench.phones:
        assert finished.verdicts(phone) == ["ok"] * 3
    assert list(finished.folder.records())[: len(before)] == before
    bench.assert_as_found()


def test_a_disk_that_is_full_from_the_start_is_said_before_anything_runs(bench: Any, small_disk: Path) -> None:
    fill(small_disk)
    done = bench.run(small_disk / "run")
    assert done.status == 10, done.text
    sentence = "run.json cannot be written (No space left on device): make room on this computer and run again"
    assert f"mnn-farm: {small_disk / 'run'}/{sentence}" in done.text
    bench.assert_as_found()
