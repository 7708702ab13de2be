"""Virtual phones come and go: names, persistence, both sandboxes, and nothing left behind however they end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from harness.core.adbprogram import find_adb
from harness.core.errors import ConfigError, HostError
from harness.core.provider import Endpoint, load_provider
from harness.virtual.provider import VirtualPhones
from harness.virtual.sandbox import Kind, find_sandbox

_HOLDER = """
import sys
from harness.virtual.provider import VirtualPhones
endpoint = VirtualPhones().start(["high"])[0]
print(endpoint.adb_port, endpoint.transport_serial, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    try:
        find_sandbox()
        find_adb()
    except HostError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def shell(endpoint: Endpoint, *command: str) -> subprocess.CompletedProcess[bytes]:
    argv = [find_adb(), "-P", str(endpoint.adb_port), "-s", endpoint.transport_serial, "shell", *command]
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)


@contextmanager
def running(*words: str) -> Iterator[list[Endpoint]]:
    provider = VirtualPhones()
    try:
        yield provider.start(words)
    finally:
        provider.stop()


def family(pid: int) -> list[psutil.Process]:
    """Everything below ``pid``: supervisor, adb server, sandboxes and what runs in them."""
    return psutil.Process(pid).children(recursive=True)


def supervisor_of(pid: int) -> psutil.Process:
    found = [child for child in psutil.Process(pid).children() if "harness.virtual.supervisor" in child.cmdline()]
    assert len(found) == 1
    return found[0]


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.01)


def gone(processes: list[psutil.Process]) -> bool:
    return not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


def refuses(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize("kind", [kind.value for kind in Kind])
def test_both_sandboxes_show_the_same_phone(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_FARM_SANDBOX", kind)
    try:
        find_sandbox()
    except HostError as error:
        pytest.skip(str(error))
    with running("mid") as (endpoint,):
        assert shell(endpoint, "hostname; id -u; cat /sys/devices/system/cpu/online").stdout == b"note7\n2000\n0-7\n"
        assert shell(endpoint, "ps -A -o PID,CMD").stdout.split()[2:6] == [b"1", b"init", b"2", b"adbd"]
        assert shell(endpoint, "exit 7").returncode == 7
        assert b"MemTotal:        7702364 kB" in shell(endpoint, "cat /proc/meminfo").stdout
        assert shell(endpoint, "cat /sys/class/thermal/thermal_zone4/temp").stderr.endswith(b"Permission denied\n")
        for place in ("/", "/usr", "/system", "/sys/class"):
            assert b"Read-only file system" in shell(endpoint, f"touch {place}/x").stderr, place
        assert shell(endpoint, "echo 1 > /proc/sys/kernel/hostname").returncode != 0
        assert shell(endpoint, "grep CapEff /proc/self/status").stdout.split()[1] == b"0" * 16
        assert b"3.11" in shell(endpoint, "python3 -c 'print(3.11)'; echo y > /data/local/tmp/y").stdout
        assert shell(endpoint, "cat /proc/net/dev").stdout.count(b":") == 1  # loopback only
        argv = [find_adb(), "-P", str(endpoint.adb_port), "-s", endpoint.transport_serial, "shell", "-tt", "tty"]
        assert b"/dev/pts/" in subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60).stdout


def test_the_entry_point_leads_here_and_names_do_not_collide() -> None:
    provider = load_provider("virtual")
    try:
        endpoints = provider.start(["high", "high", "2"])
        assert [endpoint.name for endpoint in endpoints] == [
            "virtual-high-1", "virtual-high-2", "virtual-high-3", "virtual-mid-1",
        ]  # fmt: skip
        assert {endpoint.contention_group for endpoint in endpoints} == {"host-cpu"}
        assert len({endpoint.transport_serial for endpoint in endpoints}) == 4
        serials = {shell(endpoint, "getprop", "ro.serialno").stdout for endpoint in endpoints}
        assert len(serials) == 4
    finally:
        provider.stop()


def test_data_and_serial_persist_but_the_boot_id_is_new() -> None:
    with running("high") as (endpoint,):
        assert shell(endpoint, "echo kept > /data/local/tmp/file").returncode == 0
        serial = shell(endpoint, "getprop ro.serialno").stdout
        boot = shell(endpoint, "cat /proc/sys/kernel/random/boot_id").stdout
    with running("high") as (endpoint,):
        assert endpoint.name == "virtual-high-1"
        assert shell(endpoint, "cat /data/local/tmp/file").stdout == b"kept\n"
        assert shell(endpoint, "getprop ro.serialno").stdout == serial
        assert shell(endpoint, "cat /proc/sys/kernel/random/boot_id").stdout != boot


def test_a_phone_that_is_up_elsewhere_is_not_taken() -> None:
    with running("high") as (first,), running("high") as (second,):
        assert (first.name, second.name) == ("virtual-high-1", "virtual-high-2")
        assert first.adb_port != second.adb_port
        shell(first, "echo mine > /data/local/tmp/only-here")
        assert shell(second, "cat /data/local/tmp/only-here").returncode == 1


def test_stopping_leaves_no_process_port_or_temporary_file_and_is_harmless_twice(cache: Path) -> None:
    provider = VirtualPhones()
    (endpoint,) = provider.start(["low"])
    processes = family(os.getpid())
    assert len(processes) >= 5  # supervisor, adb, sandbox, init, adbd
    shell(endpoint, "setsid sleep 1000 >/dev/null 2>&1 </dev/null &")
    processes += family(os.getpid())
    provider.stop()
    provider.stop()
    assert gone(processes)
    assert refuses(endpoint.adb_port)
    assert refuses(int(endpoint.transport_serial.rpartition(":")[2]))
    left = {path.name for path in (cache / "virtual" / "virtual-low-1").iterdir()}
    assert left <= {"data", "log.txt"}
    assert str(cache) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.parametrize("kind", [kind.value for kind in Kind])
@pytest.mark.parametrize("victim", ["parent", "supervisor"])
def test_kill_9_leaves_nothing(victim: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_FARM_SANDBOX", kind)
    try:
        find_sandbox()
    except HostError as error:
        pytest.skip(str(error))
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            port, serial = holder.stdout.readline().split()
            endpoint = Endpoint("x", adb_port=int(port), transport_serial=serial)
            shell(endpoint, "setsid sh -c 'trap \"\" HUP TERM; sleep 1000' >/dev/null 2>&1 </dev/null &")
            wait_until(lambda: "sleep" in {process.name() for process in family(holder.pid)}, "the daemon")
            processes = family(holder.pid)
            os.kill(holder.pid if victim == "parent" else supervisor_of(holder.pid).pid, signal.SIGKILL)
            wait_until(lambda: gone(processes), "the end of every process", 5.0)
            assert refuses(int(port))
            assert refuses(int(serial.rpartition(":")[2]))
        finally:
            holder.kill()
    with running("high") as (endpoint,):  # and the name is free again
        assert endpoint.name == "virtual-high-1"


def test_nothing_of_ours_listens_where_adb_looks() -> None:
    with running("2") as endpoints:
        connections = [
            connection.laddr.port
            for process in family(os.getpid())
            for connection in process.net_connections()
            if connection.status == psutil.CONN_LISTEN
        ]
        assert endpoints[0].adb_port in connections
        assert all(port != 5037 and not 5555 <= port <= 5585 for port in connections)
        ports = {int(endpoint.transport_serial.rpartition(":")[2]) for endpoint in endpoints}
        assert ports <= set(connections)


def test_the_adb_server_uses_keys_of_its_own(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with running("low"):
        assert (cache / "virtual/adb/.android/adbkey").is_file()
    assert not (tmp_path / "home").exists()


def test_a_broken_sandbox_is_one_sentence_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_FARM_SANDBOX", "chroot")
    with pytest.raises(HostError, match=r"MNN_FARM_SANDBOX is 'chroot': set it to bubblewrap or unshare"):
        VirtualPhones().start(["high"])
    assert not [process for process in family(os.getpid()) if process.name() == "adb"]


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "file"))
    with pytest.raises(HostError, match="set MNN_FARM_CACHE to a folder of yours"):
        VirtualPhones().start(["high"])


def test_an_unknown_word_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="no virtual phone is described as 'hgih'"):
        VirtualPhones().start(["hgih"])
    assert family(os.getpid()) == []


def test_a_phone_described_with_opencl_has_the_file_and_the_others_do_not() -> None:
    with running("high-opencl", "high") as (described, plain):
        assert shell(described, "ls /vendor/lib64").stdout == b"libOpenCL.so\n"
        assert shell(plain, "ls /vendor/lib64").stdout == b""
        assert described.name == "virtual-high-opencl-1"
