"""What virtual phones do by themselves, through the real adb: heat, memory, crashes, sleep, services, storage.

No test here times anything: the physics are proved as functions of time in the unit tests.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.core.adbprogram import find_adb
from harness.core.provider import Endpoint
from harness.core.resources import cache_dir
from harness.phone.getprop import parse_getprop
from harness.virtual.profile import load_profile

CAP = "/sys/devices/system/cpu/cpufreq/policy6/scaling_max_freq"
ZONE = "/sys/class/thermal/thermal_zone0/temp"
PHONES = ("low-hot", "exynos", "tensor", "kirin")

# Counts for ever; each line says how far it is, and what share of a core it got since the last line.
BUSY = """
import time
n = 0
wall, cpu = time.monotonic(), time.process_time()
while True:
    for _ in range(20000):
        n += 1
    now = time.monotonic()
    if now - wall >= 0.25:
        cap = open("/sys/devices/system/cpu/cpufreq/policy6/scaling_max_freq").read().strip()
        print(n, (time.process_time() - cpu) / (now - wall), cap, flush=True)
        wall, cpu = now, time.process_time()
"""
# Takes 10 MB at a time, and says when its memory has passed the limit.
HUNGRY = """
import sys, time
held = []
for _ in range(60):
    block = bytearray(10 << 20)
    block[::4096] = b"x" * len(block[::4096])
    held.append(block)
    time.sleep(0.02)
time.sleep(30)
print("alive")
"""


@dataclass(frozen=True)
class Phone:
    """The adb binary, aimed at one phone, and the phone's ``/data`` on this computer."""

    endpoint: Endpoint
    data: Path

    def argv(self, *words: str) -> list[str]:
        server = ["-H", self.endpoint.adb_host, "-P", str(self.endpoint.adb_port)]
        return [str(find_adb()), *server, "-s", self.endpoint.transport_serial, *words]

    def shell(self, command: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(self.argv("shell", command), input=stdin, capture_output=True, timeout=60, check=False)

    def says(self, command: str) -> str:
        result = self.shell(command)
        assert result.returncode == 0, result
        return result.stdout.decode()

    def number(self, path: str) -> int:
        return int(self.says(f"cat {path}"))

    def put_script(self, name: str, text: str) -> str:
        path = f"/data/local/tmp/{name}"
        assert self.shell(f"cat > {path}", stdin=text.encode()).returncode == 0
        return path


@pytest.fixture(scope="module")
def phones(virtual_phones: list[Endpoint]) -> dict[str, Phone]:
    return {
        name: Phone(endpoint, cache_dir("virtual") / endpoint.name / "data")
        for name, endpoint in zip(PHONES, virtual_phones, strict=True)
    }


@pytest.fixture
def hot(phones: dict[str, Phone]) -> Phone:
    return phones["low-hot"]


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.05)


def test_a_busy_phone_warms_throttles_slows_its_processes_and_cools(phones: dict[str, Phone], hot: Phone) -> None:
    highest, idle_raw, other_raw = hot.number(CAP), hot.number(ZONE), phones["exynos"].number(ZONE)
    script = hot.put_script("busy.py", BUSY)
    with subprocess.Popen(hot.argv("shell", f"python3 {script}"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        before: list[float] = []
        after: list[float] = []
        try:
            for line in process.stdout:
                _count, share, cap = line.split()
                (before if int(cap) == highest else after).append(float(share))
                if len(after) == 8:
                    break
            low = hot.number(CAP)
            assert hot.number(ZONE) > idle_raw + 1000
            assert hot.number("/sys/class/thermal/cooling_device1/cur_state") == 1
            assert "CoolingDevice{mValue=1, mType=2, mName=thermal-cpufreq-1}" in hot.says("dumpsys thermalservice")
        finally:
            process.kill()
    assert low in load_profile("low-hot").cpu.clusters[-1].table_khz
    assert low <= highest / 2
    # The first line after the step is of both worlds.
    slowed = sum(after[1:]) / len(after[1:])
    assert slowed <= 1.1 * low / highest
    assert slowed < 0.8 * max(before)
    wait_until(lambda: hot.number(CAP) == highest, "the full clock")
    # Whose load it was: the other phone stayed cool.
    assert phones["exynos"].number(ZONE) == other_raw


def test_a_reader_that_keeps_a_sensor_open_sees_it_change(hot: Phone) -> None:
    script = hot.put_script(
        "sensor.py",
        f"import os, time\nfd = os.open('{ZONE}', os.O_RDONLY)\nfirst = int(os.pread(fd, 64, 0))\n"
        "end = time.monotonic() + 20\nwhile int(os.pread(fd, 64, 0)) < first + 2000 and time.monotonic() < end: pass\n"
        "print(int(os.pread(fd, 64, 0)) - first)\n",
    )
    assert int(hot.says(f"python3 {script}")) >= 2000


def test_a_process_over_the_limit_is_killed_and_lmkd_says_so(hot: Phone) -> None:
    hot.shell("logcat -c")
    script = hot.put_script("hungry.py", HUNGRY)
    result = hot.shell(f"python3 {script} & echo $!; wait $!; echo $?")
    pid, code = result.stdout.split()
    assert code == b"137"
    lines = hot.says("logcat -d").splitlines()
    kills = [line for line in lines if "lowmemorykiller" in line]
    assert len(kills) == 1
    found = re.search(r" I lowmemorykiller: Kill '(.+)' \((\d+)\), uid 2000, .* to free (\d+)kB rss", kills[0])
    assert found is not None
    assert found[2].encode() == pid
    assert "python" in found[1]
    # At most what was taken within the polling lag, doubled for a busy computer, above the limit.
    limit = load_profile("low-hot").memory.limit_kb
    assert limit / 2 < int(found[3]) < limit + 120_000


def test_available_memory_follows_what_the_phone_runs(hot: Phone) -> None:
    script = hot.put_script(
        "holder.py",
        "import sys\nblock = bytearray(60 << 20)\nblock[::4096] = b'x' * len(block[::4096])\n"
        "print('held', flush=True)\nsys.stdin.read()\n",
    )

    def available() -> int:
        return int(hot.says("grep MemAvailable /proc/meminfo").split()[1])

    before = available()
    command = hot.argv("shell", f"python3 {script}")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        wait_until(lambda: available() < before - 55_000, "less available memory")
        pid = hot.says("pgrep -f holder.py").split()[0]
        assert f"** MEMINFO in pid {pid} [" in hot.says(f"dumpsys meminfo {pid}")
        process.communicate("")
    wait_until(lambda: available() > before - 30_000, "the memory back")


@pytest.mark.parametrize(
    ("code", "number", "name", "where"),
    [
        ("import ctypes; ctypes.string_at(16)", 11, "SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x", True),
        ("import os; os.abort()", 6, "SIGABRT), code -6 (SI_TKILL", False),
        ("import os; os.kill(os.getpid(), 4)", 4, "SIGILL), code 0 (SI_USER", False),
    ],
)
def test_a_crash_leaves_a_block_and_a_tombstone_before_its_parent_knows(
    phones: dict[str, Phone], code: str, number: int, name: str, where: bool
) -> None:
    phone = phones["tensor"]
    phone.shell("logcat -c -b crash,main")
    result = phone.shell(f"python3 -c '{code}' & echo $!; wait $!; echo $?; logcat -d -b crash,main")
    pid, status, log = result.stdout.decode().split("\n", 2)
    assert int(status) == 128 + number
    assert re.search(rf" +{pid} +{pid} F libc    : Fatal signal {number} \({re.escape(name)}", log)
    block = [line.split(" F DEBUG   : ", 1)[1] for line in log.splitlines() if " F DEBUG   : " in line]
    assert f"pid: {pid}, tid: {pid}, name: python" in "\n".join(block)
    assert [line for line in block if line.startswith(f"signal {number} ({name}")]
    assert [line for line in block if line.startswith("Executable: /") and "python3" in line]
    assert [line for line in block if line.startswith("Cmdline: ") and line.endswith(code)]
    assert bool([line for line in block if line == "Cause: null pointer dereference"]) is where
    assert [line for line in block if line.startswith("      #00 pc ")]
    written = re.search(r"tombstoned: Tombstone written to: (tombstone_\d\d)", log)
    assert written is not None
    assert phone.shell("ls /data/tombstones").stderr.endswith(b"Permission denied\n")


def test_a_signal_that_a_program_handles_is_no_crash(phones: dict[str, Phone]) -> None:
    phone = phones["tensor"]
    phone.shell("logcat -c -b crash")
    code = "import os, signal; signal.signal(11, lambda *_: print(11)); os.kill(os.getpid(), 11)"
    assert phone.says(f"python3 -c '{code}'") == "11\n"
    assert phone.says("sh -c 'trap \"echo kept\" ABRT; kill -ABRT $$'") == "kept\n"
    assert "Fatal" not in phone.says("logcat -d -b crash")


def test_a_thread_that_crashes_is_named(phones: dict[str, Phone]) -> None:
    phone = phones["tensor"]
    phone.shell("logcat -c -b crash")
    code = "import ctypes, threading; threading.Thread(target=ctypes.string_at, args=(16,)).start()"
    assert phone.shell(f"python3 -c '{code}'").returncode == 139
    found = re.search(r"pid: (\d+), tid: (\d+), name: ", phone.says("logcat -d -b crash"))
    assert found is not None
    assert int(found[2]) > int(found[1])


def test_stopping_and_continuing_still_works(phones: dict[str, Phone]) -> None:
    phone = phones["tensor"]
    said = phone.says(
        "sleep 0.2 & p=$!; kill -STOP $p; sleep 0.3; grep State /proc/$p/status; kill -CONT $p; wait $p; echo $?"
    )
    state, code = said.splitlines()  # "t": whoever watches for crashes holds it as well
    assert state.split()[1] in ("T", "t")
    assert code == "0"


def test_a_phone_on_its_cable_runs_on_with_its_screen_off(phones: dict[str, Phone]) -> None:
    phone = phones["exynos"]
    script = phone.put_script("tick.py", "import time\nwhile True: print(1, flush=True); time.sleep(0.02)\n")
    phone.shell(f"setsid python3 {script} </dev/null >/data/local/tmp/ticks 2>&1 & echo $! > /data/local/tmp/pid")

    def ticks() -> int:
        return int(phone.says("cat /data/local/tmp/ticks | wc -c"))

    wait_until(lambda: ticks() > 0, "the first tick")
    phone.says("input keyevent 223")
    assert "mWakefulness=Dozing" in phone.says("dumpsys power")
    asleep = ticks()
    wait_until(lambda: ticks() > asleep, "a tick with the screen off")
    phone.says("input keyevent 224")
    assert "mWakefulness=Awake" in phone.says("dumpsys power")
    phone.says("kill $(cat /data/local/tmp/pid)")


@pytest.mark.parametrize("name", PHONES)
def test_services_answer_in_the_phone(phones: dict[str, Phone], name: str) -> None:
    phone, profile = phones[name], load_profile(name)
    assert parse_getprop(phone.says("getprop").encode())["ro.product.model"] == profile.build.model
    assert f"  level: {profile.battery.level}\n" in phone.says("dumpsys battery")
    assert f"GLES: {profile.gpu.vendor}, {profile.gpu.renderer}, " in phone.says("dumpsys SurfaceFlinger")
    assert phone.says("wm size") == f"Physical size: {profile.gpu.width}x{profile.gpu.height}\n"
    assert phone.says("df /data").splitlines()[1].split()[1] == str(profile.data_kb)
    thermal = phone.shell("dumpsys thermalservice")
    if profile.build.sdk < 29:
        assert b"Can't find service: thermalservice" in thermal.stdout + thermal.stderr
    else:
        assert b"HAL Ready: true" in thermal.stdout


def test_settings_outlive_the_shell_and_reach_all_commands(phones: dict[str, Phone]) -> None:
    phone = phones["kirin"]
    phone.says("settings put system screen_brightness 17")
    assert phone.says("settings get system screen_brightness") == "17\n"
    phone.says("dumpsys battery set level 5; cmd battery set status 3")
    assert "  (UPDATES STOPPED -- use 'reset' to restart)\n" in phone.says("dumpsys battery")
    phone.says("dumpsys battery reset")
    assert "UPDATES STOPPED" not in phone.says("dumpsys battery")


def test_nothing_on_the_shared_storage_can_be_run(phones: dict[str, Phone]) -> None:
    phone = phones["tensor"]
    phone.says("printf '#!/system/bin/sh\\necho ran\\n' > /sdcard/tool; chmod 755 /sdcard/tool")
    result = phone.shell("/sdcard/tool")
    assert (result.returncode, result.stdout) == (126, b"")
    assert b"Permission denied" in result.stderr
    assert phone.says("cp /sdcard/tool /data/local/tmp/tool; /data/local/tmp/tool") == "ran\n"
    assert phone.says("grep CapEff /proc/self/status").split() == ["CapEff:", "0" * 16]


def test_what_a_user_build_denies_is_denied(phones: dict[str, Phone]) -> None:
    for name, path in (
        ("tensor", "/sys/class/power_supply/battery/current_now"),
        ("exynos", "/sys/class/thermal/thermal_zone3/temp"),
    ):
        assert phones[name].shell(f"cat {path}").stderr.endswith(b"Permission denied\n")
