"""The real adb binary against virtual phones: every point of the protocol that the harness relies on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.core.adbprogram import find_adb
from harness.core.provider import Endpoint

TMP = "/data/local/tmp"
PHONES = ("high", "low")


@dataclass(frozen=True)
class Adb:
    """The adb binary, aimed at one phone."""

    binary: Path
    endpoint: Endpoint

    def argv(self, *words: str) -> list[str]:
        server = ["-H", self.endpoint.adb_host, "-P", str(self.endpoint.adb_port)]
        return [str(self.binary), *server, "-s", self.endpoint.transport_serial, *words]

    def __call__(self, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(self.argv(*words), input=stdin, capture_output=True, timeout=60, check=False)

    def shell(self, command: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return self("shell", command, stdin=stdin)


@pytest.fixture(scope="module")
def phones(virtual_phones: list[Endpoint]) -> list[Adb]:
    return [Adb(find_adb(), endpoint) for endpoint in virtual_phones]


@pytest.fixture
def adb(phones: list[Adb]) -> Adb:
    return phones[0]


@pytest.mark.parametrize("code", [0, 7, 255])
def test_the_exit_code_of_a_shell_arrives(adb: Adb, code: int) -> None:
    assert adb.shell(f"exit {code}").returncode == code


def test_a_shell_killed_by_a_signal_ends_with_128_and_its_number(adb: Adb) -> None:
    assert adb.shell("kill -SEGV $$").returncode == 128 + signal.SIGSEGV


def test_stdin_comes_back_unchanged_and_its_end_is_seen(adb: Adb) -> None:
    sent = os.urandom(300_000)
    assert adb.shell("cat", stdin=sent).stdout == sent


def test_stderr_is_kept_apart_from_stdout(adb: Adb) -> None:
    result = adb.shell("echo to-out; echo to-err >&2; exit 3")
    assert (result.stdout, result.stderr, result.returncode) == (b"to-out\n", b"to-err\n", 3)


def test_a_megabyte_of_binary_output_is_unchanged(adb: Adb, tmp_path: Path) -> None:
    data = os.urandom(1_048_576)
    (tmp_path / "blob").write_bytes(data)
    assert adb("push", str(tmp_path / "blob"), f"{TMP}/blob").returncode == 0
    assert adb.shell(f"cat {TMP}/blob").stdout == data
    assert adb("exec-out", f"cat {TMP}/blob").stdout == data


def test_a_terminal_is_given_when_asked_for(adb: Adb) -> None:
    assert adb("shell", "-tt", "tty; test -t 1 && echo yes").stdout.splitlines()[-1] == b"yes"
    assert adb("shell", "-T", "test -t 1 || echo no").stdout == b"no\n"


def test_a_command_as_long_as_adb_takes_arrives_whole(adb: Adb) -> None:
    assert adb.shell(f"echo {'x' * 60_000} | wc -c").stdout == b"60001\n"


@pytest.mark.parametrize(
    "name", ["plain", "with space", "quote's", 'double"quote', "größe-日本", "-dash", "semi;colon,0644"]
)
def test_a_file_of_any_name_goes_there_and_back(adb: Adb, tmp_path: Path, name: str) -> None:
    (tmp_path / "there").write_bytes(name.encode() * 100)
    assert adb("push", str(tmp_path / "there"), f"{TMP}/{name}").returncode == 0
    assert adb("pull", f"{TMP}/{name}", str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back").read_bytes() == name.encode() * 100
    assert name.encode() in adb.shell(f"ls {TMP}").stdout.splitlines()


@pytest.mark.parametrize("size", [0, 1, 65_536, 5_000_001])
def test_a_file_of_any_size_goes_there_and_back(adb: Adb, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "there").write_bytes(data)
    assert adb("push", str(tmp_path / "there"), f"{TMP}/sized").returncode == 0
    assert adb.shell(f"stat -c %s {TMP}/sized").stdout == f"{size}\n".encode()
    assert adb("pull", f"{TMP}/sized", str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back").read_bytes() == data


def test_mode_and_time_of_a_pushed_file_are_kept(adb: Adb, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    os.utime(program, (1_600_000_000, 1_600_000_000))
    assert adb("push", str(program), f"{TMP}/program").returncode == 0
    assert adb.shell(f"stat -c '%a %Y' {TMP}/program").stdout == b"777 1600000000\n"  # adbd widens the mode
    assert adb.shell(f"{TMP}/program").stdout == b"ran\n"


def test_a_push_makes_missing_folders_and_replaces_a_file(adb: Adb, tmp_path: Path) -> None:
    for text in ("a longer first text", "short"):
        (tmp_path / "file").write_text(text)
        assert adb("push", str(tmp_path / "file"), f"{TMP}/made/for/it/file").returncode == 0
    assert adb.shell(f"cat {TMP}/made/for/it/file").stdout == b"short"


def test_a_folder_goes_there_and_back(adb: Adb, tmp_path: Path) -> None:
    (tmp_path / "tree/sub").mkdir(parents=True)
    (tmp_path / "tree/one").write_text("1")
    (tmp_path / "tree/sub/two").write_text("2")
    assert adb("push", str(tmp_path / "tree"), f"{TMP}/").returncode == 0
    assert adb("pull", f"{TMP}/tree", str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back/sub/two").read_text() == "2"


def test_a_missing_file_cannot_be_pulled(adb: Adb, tmp_path: Path) -> None:
    result = adb("pull", f"{TMP}/no-such-file", str(tmp_path / "back"))
    assert result.returncode == 1
    assert b"remote object '/data/local/tmp/no-such-file'" in result.stderr
    assert not (tmp_path / "back").exists()


def test_a_push_to_a_read_only_place_fails_with_the_phones_reason(adb: Adb, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    result = adb("push", str(tmp_path / "file"), "/system/file")
    assert result.returncode == 1
    assert b"remote couldn't create file: Read-only file system" in result.stderr


def test_a_push_below_a_folder_that_cannot_be_made_fails_with_the_phones_reason(adb: Adb, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    result = adb("push", str(tmp_path / "file"), "/system/new/file")
    assert result.returncode == 1
    assert b"secure_mkdirs() failed: Read-only file system" in result.stderr


def test_a_push_into_a_folder_without_rights_is_denied(adb: Adb, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    adb.shell(f"mkdir {TMP}/closed; chmod 500 {TMP}/closed")
    result = adb("push", str(tmp_path / "file"), f"{TMP}/closed/file")
    assert result.returncode == 1
    assert b"remote couldn't create file: Permission denied" in result.stderr


def test_a_full_disk_fails_the_push_and_leaves_no_partial_file(adb: Adb, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 5_000_000)
    result = adb("push", str(tmp_path / "file"), "/dev/full")
    assert result.returncode == 1
    assert b"remote write failed: No space left on device" in result.stderr
    assert adb.shell("echo still there").stdout == b"still there\n"


@pytest.mark.parametrize("through", ["link", "folder"])
def test_a_link_that_points_out_of_the_phone_is_refused(adb: Adb, tmp_path: Path, through: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_text("untouched")
    (tmp_path / "file").write_text("intruder")
    target, place = {
        "link": (outside / "victim", f"{TMP}/out-link"),
        "folder": (outside, f"{TMP}/out-folder/victim"),
    }[through]
    link = f"{TMP}/out-{through}"
    assert adb.shell(f"ln -s '{target}' {link}").returncode == 0
    result = adb("push", str(tmp_path / "file"), place)
    assert result.returncode == 1
    assert b"failed to copy" in result.stderr
    assert (outside / "victim").read_text() == "untouched"
    assert adb.shell(f"cat {link}").returncode != 0


def test_a_path_with_dots_does_not_lead_out_of_the_phone(adb: Adb, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("intruder")
    up = "/.." * 20
    result = adb("push", str(tmp_path / "file"), f"{TMP}{up}{tmp_path}/got-out")
    assert result.returncode == 1
    assert not (tmp_path / "got-out").exists()
    assert adb.shell(f"ls {TMP}{up}{tmp_path}").returncode != 0


def test_ten_shells_at_once_each_get_their_own_output(adb: Adb) -> None:
    def ask(number: int) -> bytes:
        return adb.shell(f"sleep 0.2; echo {number}; exit 0").stdout

    with ThreadPoolExecutor(10) as pool:
        assert list(pool.map(ask, range(10))) == [f"{number}\n".encode() for number in range(10)]


def test_a_shell_with_much_output_and_a_push_do_not_disturb_each_other(adb: Adb, tmp_path: Path) -> None:
    data = os.urandom(20_000_000)
    (tmp_path / "big").write_bytes(data)
    with ThreadPoolExecutor(2) as pool:
        push = pool.submit(adb, "push", str(tmp_path / "big"), f"{TMP}/big")
        shell = pool.submit(adb.shell, "yes 0123456789 | head -c 20000000")
        assert push.result().returncode == 0
        output = shell.result().stdout
    assert len(output) == 20_000_000
    assert set(output.split(b"\n")[:-1]) == {b"0123456789"}
    assert adb("exec-out", f"cat {TMP}/big").stdout == data


def test_a_shell_whose_output_nobody_reads_does_not_hold_up_the_phone(adb: Adb) -> None:
    with subprocess.Popen(adb.argv("shell", "yes"), stdout=subprocess.PIPE) as silent:
        assert silent.stdout is not None
        silent.stdout.read(10)
        assert adb.shell("echo fine").stdout == b"fine\n"
        silent.kill()


def test_a_shell_dies_with_its_connection_but_a_daemon_of_its_own_lives_on(adb: Adb) -> None:
    adb.shell(f"rm -f {TMP}/alive")
    script = (
        f"setsid sh -c 'trap \"\" HUP; while sleep 0.05; do echo >> {TMP}/alive; done' >/dev/null 2>&1 </dev/null &"
    )
    talker = "while echo up; do sleep 0.05; done; : talker"
    with subprocess.Popen(adb.argv("shell", f"{script} {talker}"), stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"up\n"
        assert adb.shell("pgrep -f '[t]alker'").returncode == 0
        client.kill()
    _until(lambda: adb.shell("pgrep -f '[t]alker'").returncode == 1, "the shell's end")
    before = int(adb.shell(f"wc -l < {TMP}/alive || echo 0").stdout)
    _until(lambda: int(adb.shell(f"wc -l < {TMP}/alive").stdout) > before, "a sign of life of the daemon")
    assert adb.shell("pkill -f '[t]rap'").returncode == 0


def _until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.02)


def test_getprop_tells_what_the_profile_says(adb: Adb) -> None:
    listed = adb("shell", "getprop").stdout.decode().splitlines()
    assert "[ro.product.model]: [Fennel F24 Pro]" in listed
    assert "[ro.build.version.sdk]: [34]" in listed
    assert adb("shell", "getprop", "ro.board.platform").stdout == b"pineapple\n"
    assert adb("shell", "getprop", "no.such.key").stdout == b"\n"
    assert adb("shell", "getprop", "no.such.key", "instead").stdout == b"instead\n"


def test_adb_lists_both_phones_with_their_models(phones: list[Adb]) -> None:
    endpoint = phones[0].endpoint
    lines = phones[0]("devices", "-l").stdout.decode().splitlines()
    listed = {line.split()[0]: line for line in lines[1:] if line}
    assert set(listed) == {phone.endpoint.transport_serial for phone in phones}
    assert "device product:f24pro model:Fennel_F24_Pro device:f24pro" in listed[endpoint.transport_serial]


def test_the_phone_looks_like_its_profile_and_not_like_this_computer(phones: list[Adb]) -> None:
    high, low = phones
    assert high.shell("cat /sys/devices/system/cpu/possible").stdout == b"0-7\n"
    assert high.shell("cat /sys/devices/system/cpu/cpu7/cpufreq/cpuinfo_max_freq").stdout == b"3302400\n"
    assert high.shell("cat /sys/class/thermal/thermal_zone5/type").stdout == b"skin-therm\n"
    assert b"MemTotal:       11640832 kB" in high.shell("cat /proc/meminfo").stdout
    assert b"CPU part\t: 0xd82" in high.shell("cat /proc/cpuinfo").stdout
    assert b"uid=2000(shell)" in low.shell("id").stdout
    assert low.shell("hostname").stdout == b"a5\n"
    assert low.shell("echo $PATH").stdout == b"/system/bin:/vendor/bin\n"
    ids = {phone.shell("cat /proc/sys/kernel/random/boot_id").stdout for phone in phones}
    assert len(ids) == 2
    assert Path("/proc/sys/kernel/random/boot_id").read_bytes() not in ids


def test_what_the_profile_denies_cannot_be_read(phones: list[Adb]) -> None:
    low = phones[1]
    for path in ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "/sys/class/thermal/thermal_zone2/temp"):
        result = low.shell(f"cat {path}")
        assert result.returncode == 1
        assert b"Permission denied" in result.stderr
    assert low.shell("chmod 644 /sys/class/thermal/thermal_zone2/temp").returncode != 0


def test_nothing_outside_data_can_be_written(adb: Adb) -> None:
    for path in ("/x", "/usr/x", "/system/bin/x", "/vendor/x", "/sys/x", "/proc/sys/kernel/hostname"):
        result = adb.shell(f"echo y > {path}")
        assert result.returncode != 0, path
    assert adb.shell("echo y > /sdcard/x && cat /data/media/0/x").stdout == b"y\n"


def test_processes_of_one_phone_do_not_see_the_others(phones: list[Adb]) -> None:
    one, other = phones
    with subprocess.Popen(one.argv("shell", "echo up; sleep 654"), stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        assert one.shell("pgrep -f 'sleep [6]54'").returncode == 0
        assert other.shell("pgrep -f 'sleep [6]54'").returncode == 1
        assert len(other.shell("ls -d /proc/[0-9]*").stdout.splitlines()) < 10
        running.kill()


def test_the_phone_has_no_network(adb: Adb, phones: list[Adb]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as outside:
        code = f"import socket; socket.create_connection(('127.0.0.1', {outside.getsockname()[1]}), 2)"
        assert b"ConnectionRefusedError" in adb("shell", f'python3 -c "{code}"').stderr


def test_the_real_engine_can_be_imported_on_the_phone(adb: Adb) -> None:
    code = "import MNN; print(MNN.expr.const([1.5, 2.0], [2]).read().sum())"
    result = adb.shell(f'python3 -c "{code}"')
    assert result.returncode == 0, result.stderr
    assert b"3.5" in result.stdout.splitlines()


def test_python_on_the_phone_uses_its_own_paths_only(adb: Adb) -> None:
    result = adb.shell("python3 -c 'import sys; print(*sys.path, sep=\"\\n\")'")
    paths = [path for path in result.stdout.decode().splitlines() if path]
    assert paths
    assert all(path.startswith(("/system/", "/usr/")) for path in paths), paths


def test_the_phone_takes_a_second_connection_after_the_first_was_cut(adb: Adb) -> None:
    serial = adb.endpoint.transport_serial
    assert b"disconnected" in adb("disconnect", serial).stdout
    assert adb.shell("true").returncode == 1
    assert b"connected to" in adb("connect", serial).stdout
    assert adb.shell("echo again").stdout == b"again\n"


def test_garbage_on_the_port_does_not_disturb_the_phone(adb: Adb) -> None:
    host, _, port = adb.endpoint.transport_serial.partition(":")
    for garbage in (b"GET / HTTP/1.0\r\n\r\n" * 10, os.urandom(200), b"CNXN"):
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(garbage)
    assert adb.shell("echo fine").stdout == b"fine\n"
