"""Files out of the page cache, and what is in it: ``probe evict`` against this computer's own kernel."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.payload.probe_files import Residency, parse_residency

SIZE = 3_000_001


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A folder whose file system has a page cache that can be dropped, which memory alone (tmpfs) has not."""
    folder = Path(tempfile.mkdtemp())
    (folder / "trial").write_bytes(bytes(8192))
    with (folder / "trial").open("rb") as file:
        os.fsync(file.fileno())
    kind = subprocess.run(["stat", "-f", "-c", "%T", str(folder)], capture_output=True, text=True, check=True).stdout
    (folder / "trial").unlink()
    if kind.strip() in ("tmpfs", "ramfs"):
        pytest.skip(f"{folder} lies in memory ({kind.strip()}): nothing of it can be dropped")
    yield folder
    shutil.rmtree(folder)


def evict(probe: Path, *arguments: str, status: int = 0, **popen: object) -> Residency:
    argv = [str(probe), "evict", *arguments]
    done = subprocess.run(argv, capture_output=True, timeout=20, **popen)  # type: ignore[call-overload]
    assert (done.returncode, done.stderr) == (status, b"")
    return parse_residency(done.stdout)


def test_what_was_just_written_is_resident_and_after_eviction_nothing_is(probe: Path, on_disk: Path) -> None:
    (on_disk / "below").mkdir()
    (on_disk / "weights").write_bytes(bytes(SIZE))  # dirty: it has to be written to storage first
    (on_disk / "below" / "graph").write_bytes(b"x")
    (on_disk / "link").symlink_to("weights")
    tree = ("--tree", str(on_disk))
    assert evict(probe, "--show", *tree) == Residency(SIZE + 1, SIZE + 1)
    evicted = evict(probe, *tree)
    assert evicted == Residency(SIZE + 1, 0)
    assert evicted.is_cold
    assert evict(probe, "--show", *tree) == evicted, "looking brings nothing back"


def test_the_part_that_was_read_again_is_counted_in_bytes(probe: Path, on_disk: Path) -> None:
    weights = on_disk / "weights"
    weights.write_bytes(bytes(SIZE))
    assert evict(probe, str(weights)).resident_bytes == 0
    with weights.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # no reading ahead
        os.pread(file.fileno(), 10, SIZE - 5)
    page = os.sysconf("SC_PAGE_SIZE")
    assert evict(probe, "--show", str(weights)).resident_bytes == SIZE % page, (
        "of the last page only what is the file's"
    )


def test_what_a_program_has_mapped_stays_and_is_told(probe: Path, on_disk: Path) -> None:
    weights = on_disk / "weights"
    weights.write_bytes(bytes(SIZE))
    with weights.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) == 0
        held = evict(probe, str(weights))
    assert held.resident_bytes == SIZE
    assert not held.is_cold


def test_of_another_users_files_the_kernel_tells_nothing(probe: Path, on_disk: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    on_disk.chmod(0o755)
    (on_disk / "weights").write_bytes(bytes(SIZE))
    shutil.copy(probe, on_disk / "probe")
    told = evict(on_disk / "probe", str(on_disk / "weights"), user=65534)
    assert told == Residency(SIZE, None)
    assert not told.is_cold


def test_what_cannot_be_looked_at_is_named_and_proves_nothing(probe: Path, on_disk: Path) -> None:
    (on_disk / "file").write_bytes(b"x")
    told = evict(probe, "none", ".", "file", status=1, cwd=on_disk)
    assert told == Residency(1, 0, {"none": "ENOENT", ".": "EISDIR"})
    assert not told.is_cold


def test_nothing_to_load_is_not_cold(probe: Path, on_disk: Path) -> None:
    (on_disk / "empty").touch()
    assert evict(probe, "--tree", str(on_disk)) == Residency(0, 0)
    assert not Residency(0, 0).is_cold


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "evict needs files, or --tree DIR"),
        (("--tree", "a", "b"), "evict --tree takes one folder and no files, but got b"),
        (("--hide",), "evict knows --tree DIR, --show and --; got --hide"),
        (("--tree",), "--tree needs a value"),
    ],
)
def test_wrong_usage_gets_one_sentence(probe: Path, words: tuple[str, ...], said: str) -> None:
    done = subprocess.run([str(probe), "evict", *words], capture_output=True, timeout=10)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == f"probe: {said}\n"


def line(**fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def test_lines_are_added_up() -> None:
    lines = line(path="a", size=10, resident_bytes=4) + line(path="l", symlink=True)
    assert parse_residency(lines + line(path="b", size=5, resident_bytes=5)) == Residency(15, 9)
    assert parse_residency(lines + line(path="b", size=5, resident_bytes=None)) == Residency(15, None)
    assert parse_residency(lines + line(path="é".encode().decode("latin-1"), error="EIO")).errors == {"é": "EIO"}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (b'{"path":"a","size":1', "ends in the middle of a line"),
        (b"[]\n", "is no JSON object"),
        (line(path="a", size=3), "has no 'resident_bytes'"),
        (line(path="a", size=3, resident_bytes=4), "tells 4 of 3 bytes"),
        (line(path="a", size=-1, resident_bytes=0), "tells 0 of -1 bytes"),
    ],
)
def test_what_is_no_answer_is_refused(lines: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_residency(lines)
