"""A full disk costs lines in between, never the end of a run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.payload.probe_events import RunLog

FILL = "cat /dev/zero > filler 2>/dev/null || :;"


@pytest.fixture(scope="module")
def namespace() -> list[str]:
    """A command that runs a script with mounts of its own."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    argv = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec"]
    if subprocess.run([*argv, "mount -t tmpfs none /mnt"], capture_output=True, timeout=10, check=False).returncode:
        pytest.skip("unshare is not allowed to mount a tmpfs here")
    return argv


def in_mount(namespace: list[str], mount: str, script: str, probe: Path, tmp_path: Path) -> RunLog:
    """Run ``script`` in a small file system; what the probe left in ``run`` is copied out and read."""
    before = f'mount -t {mount} none "$1"; cd "$1"; probe="$2"; '
    after = '; cp run/events.jsonl "$3"'
    (tmp_path / "mount").mkdir()
    argv = [*namespace, before + script + after, "sh", str(tmp_path / "mount"), str(probe), str(tmp_path / "copy")]
    done = subprocess.run(argv, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return RunLog.read((tmp_path / "copy").read_bytes())


def test_the_end_is_there_although_the_disk_is_full(namespace: list[str], probe: Path, tmp_path: Path) -> None:
    # the command fills the disk, then prints more than was reserved
    command = f"{FILL} echo full; head -c 400000 /dev/zero; exit 3"
    script = f"\"$probe\" run --dir run --interval-ms 10000 -- sh -c '{command}' > /dev/null"
    log = in_mount(namespace, "tmpfs -o size=2m", script, probe, tmp_path)
    assert log.end is not None
    assert (log.end.why, log.end.exit_code, log.end.file_error) == ("exit", 3, "ENOSPC")
    assert log.torn == b""
    # The word is there unless it came in one piece with more than there was room for.
    assert set(log.stdout.removeprefix(b"full\n")) == {0}
    assert len(log.stdout) < 400_000


def test_when_there_is_room_again_lines_come_again(namespace: list[str], probe: Path, tmp_path: Path) -> None:
    command = f"{FILL} head -c 400000 /dev/zero; rm filler; sleep 0.1; echo again"
    script = f"\"$probe\" run --dir run --interval-ms 10000 -- sh -c '{command}' > /dev/null"
    log = in_mount(namespace, "tmpfs -o size=2m", script, probe, tmp_path)
    assert log.stdout.endswith(b"again\n")
    assert log.end is not None
    assert log.end.file_error == "ENOSPC"


def test_on_a_disk_that_is_full_before_no_run_is_begun(namespace: list[str], probe: Path, tmp_path: Path) -> None:
    script = (
        f'mkdir run; {FILL} if "$probe" run --dir run -- touch ran 2> "$3.said" > "$3.told"; then exit 9; fi; '
        'test ! -e ran; test ! -s "$3.told"; test ! -e run/events.jsonl; rm filler; '
        '"$probe" run --dir run -- true > /dev/null'
    )
    log = in_mount(namespace, "tmpfs -o size=1m", script, probe, tmp_path)
    assert log.end is not None
    assert "run has no room for events (ENOSPC)" in (tmp_path / "copy.said").read_text()


def test_a_file_system_that_cannot_reserve_is_filled_and_given_back(
    namespace: list[str], probe: Path, tmp_path: Path
) -> None:
    """ramfs has no fallocate: the room is written, and cut off at the end."""
    command = "echo one; wc -c < run/events.jsonl; echo two"
    script = f"\"$probe\" run --dir run --interval-ms 10000 -- sh -c '{command}' > /dev/null"
    log = in_mount(namespace, "ramfs", script, probe, tmp_path)
    first, size, last = log.stdout.split()
    assert (first, last) == (b"one", b"two")
    assert int(size) > 32_768
    assert log.end is not None
    assert (log.end.exit_code, log.end.file_error, log.torn) == (0, None, b"")
    assert b"\0" not in (tmp_path / "copy").read_bytes()


def test_attach_takes_reserved_room_for_no_content(namespace: list[str], probe: Path, tmp_path: Path) -> None:
    script = (
        ': > "$3.attached"; "$probe" run --detach --dir run --deadline-ms 20000 -- '
        'sh -c "echo said; exec sleep 60" > /dev/null; '
        '"$probe" attach run >> "$3.attached" & '
        'until grep -q said "$3.attached"; do :; done; "$probe" stop run > /dev/null; wait'
    )
    in_mount(namespace, "ramfs", script, probe, tmp_path)
    assert (tmp_path / "copy.attached").read_bytes() == (tmp_path / "copy").read_bytes()


def test_what_was_reserved_and_not_used_is_given_back(probe: Path, tmp_path: Path) -> None:
    subprocess.run([str(probe), "run", "--dir", str(tmp_path), "--", "true"], capture_output=True, timeout=10)
    file = (tmp_path / "events.jsonl").stat()
    assert file.st_blocks * 512 <= file.st_size + 8192
