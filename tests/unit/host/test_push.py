"""A push to this computer: the same probe, the same words, copies instead of a cable."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from harness.core.deadline import Deadline
from harness.core.errors import DeadlineError, TransferError
from harness.core.transport import PushItem, ShellResult
from harness.host.transport import HostTransport
from harness.payload.folder import read_folder
from harness.payload.probe import Probe
from harness.payload.ranges import PIECE_BYTES
from harness.payload.store import Stored, ensure_on_phone


@pytest.fixture
def host(tmp_path: Path) -> HostTransport:
    (tmp_path / "base").mkdir()
    return HostTransport("host", tmp_path / "base", {})


def within(seconds: float = 20.0) -> Deadline:
    return Deadline(seconds, "a test", "host")


def test_a_payload_is_brought_once_and_only_what_rotted_again(host: HostTransport, tmp_path: Path) -> None:
    if platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip(f"there is no probe for {platform.machine()}")
    local = tmp_path / "local"
    (local / "sub").mkdir(parents=True)
    (local / "sub" / "w").write_bytes(os.urandom(PIECE_BYTES + 9))
    (local / "run").write_bytes(b"#!")
    payload = read_folder(local, executable=lambda name: name == "run")
    probe = Probe.install(host)

    def bring() -> Stored:
        return ensure_on_phone(host, probe, payload, kind="models", label="model toy")

    stored = bring()
    assert stored.pushed_bytes == payload.size
    assert read_folder(Path(stored.path), executable=lambda name: name == "run").hash == payload.hash
    assert os.access(f"{stored.path}/run", os.X_OK)
    assert bring() == Stored(stored.path, 0)
    Path(stored.path, "run").write_bytes(b"!#")
    assert bring() == Stored(stored.path, 2)


def test_a_file_that_is_renamed_while_it_arrives_is_no_failure(
    host: HostTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "digits").write_bytes(b"0123456789")
    arriving, renamed = Path(host.base_dir, "x"), Path(host.base_dir, "y")
    set_mode = os.fchmod

    def set_and_rename(fd: int, mode: int) -> None:
        set_mode(fd, mode)
        arriving.rename(renamed)

    monkeypatch.setattr(os, "fchmod", set_and_rename)
    host.push([PushItem(tmp_path / "digits", str(arriving), 0o755)], deadline=within())
    assert renamed.read_bytes() == b"0123456789"
    assert os.access(renamed, os.X_OK)
    assert not arriving.exists()


@pytest.mark.parametrize(
    ("offset", "length", "content"), [(0, None, b"0123456789"), (4, None, b"456789"), (4, 3, b"456")]
)
def test_a_part_of_a_file_can_be_pushed(
    host: HostTransport, tmp_path: Path, offset: int, length: int | None, content: bytes
) -> None:
    (tmp_path / "digits").write_bytes(b"0123456789")
    item = PushItem(tmp_path / "digits", f"{host.base_dir}/x", 0o644, offset, length)
    sent: list[int] = []
    came: list[PushItem] = []
    host.push([item], deadline=within(), progress=sent.append, arrived=came.append)
    assert (Path(item.remote).read_bytes(), sent, came) == (content, [len(content)], [item])


def test_a_file_that_has_become_shorter_is_refused(host: HostTransport, tmp_path: Path) -> None:
    (tmp_path / "digits").write_bytes(b"0123456789")
    with pytest.raises(TransferError, match="has become shorter"):
        host.push([PushItem(tmp_path / "digits", f"{host.base_dir}/x", 0o644, 4, 9)], deadline=within())


def test_a_child_that_is_talked_to_answers_line_by_line_and_leaves_its_exit_code(host: HostTransport) -> None:
    script = 'read -r word; echo "$word $word"; echo no >&2; printf torn; exit 7'
    with host.converse(["sh", "-c", script], deadline=within()) as talk:
        assert talk.hear(wait=False) == []
        talk.say(b"one\n")
        lines: list[bytes] = []
        while talk.result is None:
            lines += talk.hear(wait=True)
        talk.say(b"to nobody\n")
        assert (lines, talk.result) == ([b"one one"], ShellResult(7, b"torn", b"no\n"))


def test_a_child_that_says_nothing_is_waited_for_until_the_deadline_only(host: HostTransport) -> None:
    with host.converse(["cat"], deadline=within(0.2)) as talk, pytest.raises(DeadlineError, match="a test"):
        talk.hear(wait=True)


def test_a_child_that_cannot_be_started_says_so(host: HostTransport) -> None:
    with pytest.raises(TransferError, match="not found"), host.converse(["/nothing"], deadline=within()):
        pass
