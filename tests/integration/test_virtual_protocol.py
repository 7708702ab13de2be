"""What phones of several Android versions speak, through the real adb binary: features, keys, logcat, sparse files."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.core.adbprogram import find_adb
from harness.core.provider import Endpoint
from harness.core.resources import cache_dir
from harness.virtual.logbuffer import LogRing

TMP = "/data/local/tmp"
PHONES = ("high", "android6")


@dataclass(frozen=True)
class Phone:
    adb: Path
    endpoint: Endpoint

    def __call__(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        argv = [str(self.adb), "-P", str(self.endpoint.adb_port), "-s", self.endpoint.transport_serial, *words]
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)

    @property
    def state(self) -> Path:
        return cache_dir("virtual") / self.endpoint.name

    @property
    def log(self) -> LogRing:
        return LogRing(self.state / "run" / "log")


@pytest.fixture(scope="module")
def phones(virtual_phones: list[Endpoint]) -> list[Phone]:
    return [Phone(find_adb(), endpoint) for endpoint in virtual_phones]


@pytest.fixture
def phone(phones: list[Phone]) -> Phone:
    return phones[0]


@pytest.fixture
def old(phones: list[Phone]) -> Phone:
    """Android 6, which asks for a key: that it is there at all shows that the signature was accepted."""
    return phones[1]


def test_an_old_phone_has_no_features_and_a_new_one_has_the_shell_protocol(phone: Phone, old: Phone) -> None:
    assert {"shell_v2", "stat_v2", "ls_v2", "sendrecv_v2"} <= set(phone("features").stdout.decode().split())
    assert old("features").stdout.split() == []


def test_an_old_phone_loses_the_exit_code_merges_stderr_and_ends_lines_with_cr_lf(old: Phone) -> None:
    result = old("shell", "echo out; echo err >&2; exit 3")
    assert (result.returncode, result.stdout, result.stderr) == (0, b"out\r\nerr\r\n", b"")


def test_exec_keeps_bytes_as_they_are_on_an_old_phone_too(old: Phone) -> None:
    assert old("exec-out", "printf 'a\\nb\\n'").stdout == b"a\nb\n"


def test_files_and_folders_go_there_and_back_without_the_second_sync_version(old: Phone, tmp_path: Path) -> None:
    (tmp_path / "tree/sub").mkdir(parents=True)
    (tmp_path / "tree/sub/file").write_bytes(b"content" * 50_000)
    assert old("push", str(tmp_path / "tree"), f"{TMP}/").returncode == 0
    assert old("pull", f"{TMP}/tree", str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back/sub/file").read_bytes() == b"content" * 50_000


def test_adb_ls_lists_names_with_sizes(phone: Phone, old: Phone) -> None:
    for one in (phone, old):
        one("shell", f"mkdir -p {TMP}/listed; printf 12345 > {TMP}/listed/five")
        row = next(line for line in one("ls", f"{TMP}/listed").stdout.splitlines() if line.endswith(b" five"))
        assert row.split()[1] == b"00000005"


def test_zero_blocks_of_a_pushed_file_become_holes_and_are_read_as_zeros(phone: Phone, tmp_path: Path) -> None:
    data = b"head" + bytes(20_000_000) + b"middle" + bytes(5_000_000)
    (tmp_path / "sparse").write_bytes(data)
    assert phone("push", str(tmp_path / "sparse"), f"{TMP}/sparse").returncode == 0
    status = (phone.state / "data/local/tmp/sparse").stat()
    assert status.st_size == len(data)
    assert status.st_blocks * 512 < 1_000_000
    assert phone("exec-out", f"cat {TMP}/sparse").stdout == data


def test_a_size_over_four_gibibytes_is_told_whole(phone: Phone) -> None:
    size = 5 * 2**30 + 1
    phone("shell", f"mkdir -p {TMP}/huge; truncate -s {size} {TMP}/huge/file")
    try:
        row = next(line for line in phone("ls", f"{TMP}/huge").stdout.splitlines() if line.endswith(b" file"))
        assert int(row.split()[1], 16) == size
    finally:
        phone("shell", f"rm -r {TMP}/huge")


def test_logcat_dumps_what_was_logged_inside_and_outside(phone: Phone) -> None:
    phone("logcat", "-c", "-b", "all")
    phone.log.append("lowmemorykiller", "I", 479, 480, "Kill 'x'")
    phone.log.append("DEBUG", "F", 12, 12, "signal 11", buffer="crash")
    phone("shell", "log -t inside -p w hello there")
    text = phone("logcat", "-d", "-v", "threadtime").stdout.decode()
    assert "--------- beginning of main\n" in text
    assert re.search(r"^\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}   479   480 I lowmemorykiller: Kill 'x'$", text, re.MULTILINE)
    assert re.search(r" W inside  : hello there$", text, re.MULTILINE)
    assert "lowmemorykiller" not in phone("logcat", "-d", "-b", "crash").stdout.decode()
    assert phone("logcat", "-d", "-s", "inside:W").stdout.decode().count("\n") == 2


def test_logcat_follows_until_it_is_ended(phone: Phone) -> None:
    phone("logcat", "-c")
    argv = [str(phone.adb), "-P", str(phone.endpoint.adb_port), "-s", phone.endpoint.transport_serial, "logcat"]
    with subprocess.Popen([*argv, "-v", "raw", "-s", "t"], stdout=subprocess.PIPE) as follower:
        assert follower.stdout is not None
        phone.log.append("t", "I", 1, 1, "first")
        assert follower.stdout.readline() == b"--------- beginning of main\n"
        assert follower.stdout.readline() == b"first\n"
        phone.log.append("other", "I", 1, 1, "unwanted")
        phone.log.append("t", "I", 1, 1, "second")
        assert follower.stdout.readline() == b"second\n"
        follower.kill()
