"""This computer behind the transport interface keeps the promises that a phone's transport keeps."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from harness.core.deadline import Deadline
from harness.core.errors import DeadlineError, TransferError
from harness.core.transport import STDOUT, PushItem
from harness.host.transport import HostTransport


@pytest.fixture
def host(tmp_path: Path) -> HostTransport:
    return HostTransport("host", tmp_path / "base", {"PATH": os.environ["PATH"], "ONLY_HERE": "yes"})


def within(seconds: float = 10) -> Deadline:
    return Deadline(seconds, "a test", "host")


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_exit_codes_are_a_shells(host: HostTransport, script: str, code: int) -> None:
    assert host.shell(["sh", "-c", script], deadline=within()).exit_code == code


def test_output_stdin_and_environment(host: HostTransport) -> None:
    result = host.shell(["sh", "-c", 'cat; echo "$ONLY_HERE" >&2'], stdin=b"\xff\x00", deadline=within())
    assert (result.stdout, result.stderr) == (b"\xff\x00", b"yes\n")


def test_a_program_nobody_has_and_one_that_may_not_run(host: HostTransport, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    assert host.shell(["no-such-program"], deadline=within()).exit_code == 127
    assert host.shell([str(tmp_path / "plain")], deadline=within()).exit_code == 126


def test_a_deadline_that_passes_ends_the_child_and_its_children(host: HostTransport) -> None:
    nap = f"61.{os.getpid()}"
    with pytest.raises(DeadlineError, match=r"host: a test was not done after 0\.3 s"):
        host.shell(["sh", "-c", f"sleep {nap} & sleep {nap}"], deadline=within(0.3))
    left = [p for p in psutil.process_iter(["cmdline"]) if nap in (p.info["cmdline"] or [])]
    psutil.wait_procs(left, timeout=5)
    assert not [p for p in left if p.is_running()]


def test_leaving_a_stream_early_ends_the_command(host: HostTransport) -> None:
    with host.stream(["sh", "-c", "echo $$; exec sleep 61"], deadline=within()) as stream:
        fd, chunk = next(iter(stream))
    assert fd == STDOUT
    assert not psutil.pid_exists(int(chunk))


def test_pushes_make_folders_set_modes_and_count(host: HostTransport, tmp_path: Path) -> None:
    (tmp_path / "local").write_bytes(b"abc")
    sent: list[int] = []
    host.push([PushItem(tmp_path / "local", f"{host.base_dir}/a/b", 0o755)], deadline=within(), progress=sent.append)
    pushed = Path(host.base_dir) / "a" / "b"
    assert (pushed.read_bytes(), pushed.stat().st_mode & 0o777, sent) == (b"abc", 0o755, [3])


def test_a_missing_file_cannot_be_pulled(host: HostTransport, tmp_path: Path) -> None:
    with pytest.raises(TransferError, match="No such file"):
        host.pull("/nowhere", tmp_path / "back", deadline=within())
    assert not (tmp_path / "back").exists()


def test_nothing_of_it_is_on_adb(host: HostTransport) -> None:
    assert host.server is None
