"""Every fault through the real adb binary: inject, what adb shows, heal, works again."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.core.adbprogram import find_adb
from harness.core.errors import ConfigError, HostError
from harness.core.provider import Endpoint
from harness.core.resources import cache_dir
from harness.virtual.control import PhoneControl

TMP = "/data/local/tmp"
PHONES = ("high",)
Result = subprocess.CompletedProcess[bytes]


@dataclass(frozen=True)
class Phone:
    """A phone as adb and as its control socket have it."""

    adb: Path
    endpoint: Endpoint
    control: PhoneControl

    @property
    def serial(self) -> str:
        return self.endpoint.transport_serial

    def argv(self, *words: str) -> list[str]:
        return [str(self.adb), "-P", str(self.endpoint.adb_port), *words]

    def __call__(self, *words: str, timeout: float = 20) -> Result:
        argv = self.argv("-s", self.serial, *words)
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False)

    def shell(self, command: str, timeout: float = 20) -> Result:
        return self("shell", command, timeout=timeout)

    def push(self, file: Path, timeout: float = 20) -> Result:
        return self("push", str(file), f"{TMP}/{file.name}", timeout=timeout)

    def listed(self) -> str | None:
        """What `adb devices` says of it."""
        done = subprocess.run(self.argv("devices"), capture_output=True, timeout=20, check=True, text=True)
        states = dict(line.split("\t") for line in done.stdout.splitlines()[1:] if line)
        return states.get(self.serial)

    def boot_id(self) -> bytes:
        return self.shell("cat /proc/sys/kernel/random/boot_id").stdout

    def works(self) -> bool:
        result = self.shell(f"echo out; echo kept > {TMP}/works; exit 3")
        return self.listed() == "device" and (result.returncode, result.stdout) == (3, b"out\n")


@pytest.fixture(scope="module")
def virtual(virtual_phones: list[Endpoint]) -> Phone:
    [endpoint] = virtual_phones
    return Phone(find_adb(), endpoint, PhoneControl(endpoint.name))


@pytest.fixture
def phone(virtual: Phone) -> Iterator[Phone]:
    """The phone, healed afterwards whatever happened, and found to work again."""
    yield virtual
    info = virtual.control.heal()
    assert (info.on, info.faults) == (True, ())
    assert virtual.works()


@pytest.fixture(scope="module")
def blob(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("blob") / "blob"
    path.write_bytes(os.urandom(3_000_000))
    return path


def until(condition: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.02)


def test_an_offline_phone_is_listed_as_offline(phone: Phone) -> None:
    phone.control.inject("offline")
    until(lambda: phone.listed() == "offline", "offline")
    assert b"device offline" in phone.shell("true").stderr


def test_a_phone_that_does_not_know_the_key_is_unauthorized_until_it_is_accepted(phone: Phone) -> None:
    phone.control.inject("unauthorized")
    until(lambda: phone.listed() == "unauthorized", "unauthorized")
    assert b"device unauthorized" in phone.shell("true").stderr
    subprocess.run(phone.argv("disconnect", phone.serial), capture_output=True, timeout=20, check=True)
    connect = subprocess.run(phone.argv("connect", phone.serial), capture_output=True, timeout=20, check=False)
    assert connect.stdout == f"failed to authenticate to {phone.serial}\n".encode()
    phone.control.heal()
    until(lambda: phone.listed() == "device", "the accepted phone")


def test_a_phone_whose_cable_is_pulled_is_gone(phone: Phone) -> None:
    phone.control.inject("cut")
    assert phone.listed() is None
    result = phone.shell("true")
    assert result.returncode == 1
    assert f"device '{phone.serial}' not found".encode() in result.stderr


def test_a_cable_that_is_pulled_for_a_moment_is_back_by_itself(phone: Phone) -> None:
    boot_id = phone.boot_id()
    phone.control.inject("cut=0.3")
    assert phone.listed() is None
    until(lambda: phone.listed() == "device", "the phone")
    assert phone.boot_id() == boot_id
    assert phone.control.info().faults == ()


def test_a_push_that_is_cut_at_a_byte_fails_and_leaves_no_partial_file(phone: Phone, blob: Path) -> None:
    phone.control.inject("cut-push=2000000")
    result = phone.push(blob)
    assert result.returncode == 1
    assert b"adb: error:" in result.stderr
    until(lambda: phone.listed() is None, "the end of the connection")
    assert phone.control.info().faults == ("cut",)
    phone.control.heal()
    assert phone.shell(f"ls {TMP}/{blob.name}").returncode != 0
    assert phone.push(blob).returncode == 0


def test_a_push_smaller_than_the_byte_is_not_cut(phone: Phone, blob: Path) -> None:
    phone.control.inject("cut-push=4000000")
    assert phone.push(blob).returncode == 0
    assert phone.listed() == "device"


def test_a_run_that_is_cut_ends_for_adb_but_goes_on_if_it_is_detached(phone: Phone) -> None:
    phone.control.inject("cut-run=0.4")
    script = f"setsid sh -c 'trap \"\" HUP; sleep 0.8; echo finished > {TMP}/detached' >/dev/null 2>&1 </dev/null &"
    result = phone.shell(f"{script} echo begun; sleep 30")
    assert result.returncode != 0
    assert result.stdout == b"begun\n"
    until(lambda: phone.listed() is None, "the end of the connection")
    phone.control.heal()
    until(lambda: phone.shell(f"cat {TMP}/detached").stdout == b"finished\n", "the detached program's file")


@pytest.mark.parametrize("how", ["fault", "adb reboot"])
def test_a_reboot_mid_run_ends_all_processes_and_brings_a_new_boot_id(phone: Phone, how: str) -> None:
    boot_id = phone.boot_id()
    phone.shell(f"echo kept > {TMP}/kept; setsid sleep 987 >/dev/null 2>&1 </dev/null &")
    with subprocess.Popen(phone.argv("-s", phone.serial, "shell", "echo up; sleep 30"), stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        if how == "fault":
            phone.control.inject("reboot=0.3")
            assert phone.listed() in (None, "offline"), "adb may not have noticed yet that nobody answers"
        else:
            assert phone("reboot").returncode == 0
        assert run.wait(10) != 0
    until(lambda: phone.listed() == "device" and phone.boot_id() not in (boot_id, b""), "the phone")
    assert phone.shell("pgrep -f 'sleep [9]87'").returncode == 1
    assert phone.shell(f"cat {TMP}/kept").stdout == b"kept\n"


def test_a_full_disk_refuses_pushes_and_programs_alike_and_loses_nothing(phone: Phone, blob: Path) -> None:
    phone.shell(f"echo before > {TMP}/before; echo grows > {TMP}/grows")
    phone.control.inject("full-disk")
    result = phone.push(blob)
    assert result.returncode == 1
    assert b"No space left on device" in result.stderr
    for command in (f"echo x > {TMP}/new", f"echo x >> {TMP}/grows", "echo x > /sdcard/new"):
        assert b"No space left on device" in phone.shell(command).stderr, command
    assert phone.shell(f"cat {TMP}/before").stdout == b"before\n"
    phone.control.heal()
    assert phone.shell(f"cat {TMP}/grows").stdout == b"grows\n"
    assert phone.push(blob).returncode == 0


def test_a_disk_with_little_room_takes_what_fits(phone: Phone, blob: Path) -> None:
    phone.control.inject("full-disk=200000")
    assert phone.shell(f"head -c 100000 /dev/urandom > {TMP}/fits").returncode == 0
    assert b"No space left on device" in phone.push(blob).stderr


def test_a_read_only_data_partition_says_so(phone: Phone, blob: Path) -> None:
    phone.control.inject("read-only")
    assert b"couldn't create file: Read-only file system" in phone.push(blob).stderr
    for place in (f"{TMP}/new", "/sdcard/new"):
        assert b"Read-only file system" in phone.shell(f"echo x > {place}").stderr


def test_a_noexec_data_partition_keeps_files_and_starts_none(phone: Phone) -> None:
    phone.shell(f"printf '#!/system/bin/sh\\necho ran\\n' > {TMP}/program; chmod 755 {TMP}/program")
    assert phone.shell(f"{TMP}/program").stdout == b"ran\n"
    phone.control.inject("noexec")
    refused = phone.shell(f"{TMP}/program")
    assert refused.returncode == 126
    assert b"Permission denied" in refused.stderr
    assert phone.shell(f"echo x > {TMP}/new").returncode == 0
    phone.control.heal()
    assert phone.shell(f"{TMP}/program").stdout == b"ran\n"


def test_a_slow_link_carries_no_more_than_it_was_told(phone: Phone, blob: Path) -> None:
    phone.control.inject("slow=4000000")
    begin = time.monotonic()
    assert phone.push(blob).returncode == 0
    took_s = time.monotonic() - begin
    assert took_s > 3_000_000 / 4_000_000 * 0.9
    assert phone.shell(f"wc -c < {TMP}/{blob.name}").stdout == b"3000000\n"


def test_a_stalled_link_looks_well_and_moves_nothing_until_it_is_healed(phone: Phone) -> None:
    phone.control.inject("stalled")
    assert phone.listed() == "device"
    with subprocess.Popen(phone.argv("-s", phone.serial, "shell", "echo late"), stdout=subprocess.PIPE) as waiting:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(0.5)
        phone.control.heal()
        assert waiting.communicate(timeout=10)[0] == b"late\n"


def test_a_lost_exit_code_is_not_taken_for_success(phone: Phone) -> None:
    phone.control.inject("exit-lost")
    result = phone.shell("echo text; exit 0")
    assert (result.returncode, result.stdout) == (255, b"text\n")


def test_garbage_before_the_output_is_no_utf8(phone: Phone) -> None:
    phone.control.inject("garbage=40")
    output = phone.shell("echo text").stdout
    assert len(output) == 45
    assert output.endswith(b"text\n")
    with pytest.raises(UnicodeDecodeError):
        output.decode()


def test_truncated_output_ends_early_with_the_exit_code_of_success(phone: Phone) -> None:
    phone.control.inject("truncated=1000")
    result = phone.shell("yes | head -c 100000")
    assert (result.returncode, len(result.stdout)) == (0, 1000)


def test_a_clock_that_jumped_is_off_by_that_much_in_date(phone: Phone) -> None:
    phone.control.inject("clock-jumped=-86400")
    assert abs(time.time() - 86400 - int(phone.shell("date +%s").stdout)) < 5
    phone.control.heal()
    assert abs(time.time() - int(phone.shell("date +%s").stdout)) < 5


def test_on_a_phone_asleep_what_ran_stands_still_and_goes_on_when_it_wakes(phone: Phone) -> None:
    loop = f"while sleep 0.05; do echo >> {TMP}/ticks; done"
    phone.shell(f"setsid sh -c '{loop}' >/dev/null 2>&1 </dev/null &")

    file = cache_dir("virtual") / phone.endpoint.name / "data/local/tmp/ticks"  # a shell would be stopped too

    def ticks() -> int:
        return file.stat().st_size if file.exists() else 0

    until(lambda: ticks() > 0, "a first tick")
    phone.control.inject("asleep")

    def stands_still() -> bool:
        seen = ticks()
        time.sleep(0.3)
        return ticks() == seen

    until(stands_still, "the stop")
    before = ticks()
    assert phone.listed() == "device"
    phone.control.heal()
    until(lambda: ticks() > before, "a tick after waking")
    assert phone.shell("pkill -f '[t]icks'").returncode == 0


def test_a_phone_that_sleeps_alone_stands_still_only_while_nobody_is_on_adb(phone: Phone) -> None:
    file = cache_dir("virtual") / phone.endpoint.name / "data/local/tmp/alone"
    loop = f"while sleep 0.02; do echo >> {TMP}/alone; done"
    phone.control.inject("sleeps-alone=0.1")
    phone.shell(f"touch {TMP}/alone; setsid sh -c '{loop}' >/dev/null 2>&1 </dev/null &")

    def stands_still() -> bool:
        seen = file.stat().st_size
        time.sleep(0.2)
        return file.stat().st_size == seen

    until(stands_still, "the stop")
    before = file.stat().st_size
    phone.shell(f"until [ $(stat -c %s {TMP}/alone) -gt {before} ]; do sleep 0.02; done")
    assert file.stat().st_size > before, "an open shell wakes it"
    phone.control.heal()
    assert phone.shell("pkill -f '[a]lone'").returncode == 0


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core is all there is")
def test_a_phone_that_loses_affinity_gives_all_cores_back(phone: Phone) -> None:
    wait = "import os, time\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nprint('asked', flush=True)\n"
    wait += "while len(os.sched_getaffinity(0)) == 1: time.sleep(0.01)"
    phone.control.inject("affinity-lost")
    assert phone.shell(f'python3 -c "{wait}"').stdout == b"asked\n"


def test_on_a_phone_where_detached_programs_die_nothing_outlives_the_connection(phone: Phone) -> None:
    def runs() -> bool:
        return phone.shell("pgrep -f '[s]leep 61'").returncode == 0

    phone.shell("setsid sleep 61 >/dev/null 2>&1 </dev/null &")
    assert runs()
    phone.control.inject("cut")
    phone.control.heal()
    assert runs(), "a usual phone keeps it"
    phone.control.inject("detached-die")
    phone.control.inject("cut")
    phone.control.heal()
    until(lambda: not runs(), "the end of what the shell had started")  # adbd kills it when it notices


def test_a_restarted_adbd_drops_connections_but_not_the_phone(phone: Phone) -> None:
    boot_id = phone.boot_id()
    old = phone.shell("pgrep adbd").stdout
    phone.shell("setsid sleep 876 >/dev/null 2>&1 </dev/null &")
    with subprocess.Popen(phone.argv("-s", phone.serial, "shell", "echo up; sleep 30"), stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        phone.control.inject("adbd-restarted")
        assert run.wait(10) != 0
    until(lambda: phone.boot_id() == boot_id, "the same phone")
    assert phone.shell("pgrep adbd").stdout not in (old, b"")
    assert phone.shell("pkill -f 'sleep [8]76'").returncode == 0


def test_a_killed_adbd_is_started_again_by_init(phone: Phone) -> None:
    boot_id = phone.boot_id()
    phone.shell("kill -9 $(pgrep adbd)")
    phone.control.heal()
    assert phone.boot_id() == boot_id


def test_a_thermal_shutdown_switches_off_and_the_next_boot_tells_why(phone: Phone) -> None:
    boot_id = phone.boot_id()
    with subprocess.Popen(phone.argv("-s", phone.serial, "shell", "echo up; sleep 30"), stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        phone.control.inject("thermal-shutdown")
        assert run.wait(10) != 0
    assert phone.listed() is None
    assert not phone.control.info().on
    with pytest.raises(HostError, match="switched off"):
        phone.control.inject("slow")
    phone.control.heal()
    assert phone.boot_id() not in (boot_id, b"")
    assert phone.shell("getprop sys.boot.reason").stdout == b"shutdown,thermal\n"


def test_a_corrupted_file_keeps_size_and_time_but_not_its_content(phone: Phone, blob: Path) -> None:
    assert phone.push(blob).returncode == 0
    before = phone.shell(f"stat -c '%s %Y' {TMP}/{blob.name}").stdout
    phone.control.inject("corrupt")  # the largest file there
    assert phone.shell(f"stat -c '%s %Y' {TMP}/{blob.name}").stdout == before
    pulled = phone("exec-out", f"cat {TMP}/{blob.name}").stdout
    original = blob.read_bytes()
    assert [place for place in range(len(original)) if original[place] != pulled[place]] == [len(original) // 2]
    phone.control.inject(f"corrupt={TMP}/{blob.name}")  # a second time is back again
    assert phone("exec-out", f"cat {TMP}/{blob.name}").stdout == original
    with pytest.raises(HostError, match="No such file"):
        phone.control.inject(f"corrupt={TMP}/missing")


def test_a_phone_replaced_by_another_of_the_same_serial_number_is_another(phone: Phone) -> None:
    serial, model = (phone.shell(f"getprop {key}").stdout for key in ("ro.serialno", "ro.product.model"))
    phone.shell(f"echo mine > {TMP}/mine")
    phone.control.inject("replaced=low")
    assert phone.shell("getprop ro.serialno").stdout == serial
    assert phone.shell("getprop ro.product.model").stdout not in (model, b"")
    assert phone.shell(f"ls {TMP}/mine").returncode != 0
    phone.control.heal()
    assert phone.shell("getprop ro.product.model").stdout == model
    assert phone.shell(f"cat {TMP}/mine").stdout == b"mine\n"


def test_lmkd_kills_the_largest_process_with_signal_9_and_logs_it(phone: Phone) -> None:
    with pytest.raises(HostError, match="start a run first"):
        phone.control.inject("lmkd-kill")
    code = "import time; data = bytes(60_000_000); print(1, flush=True); time.sleep(30)"
    argv = phone.argv("-s", phone.serial, "shell", f"python3 -c '{code}'; echo $?")
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"1\n"
        phone.control.inject("lmkd-kill")
        assert run.stdout.readline() == b"137\n"
    logged = phone.shell("logcat -d -b all -s lowmemorykiller").stdout
    assert b"Kill '" in logged


def test_two_faults_at_once_are_healed_together(phone: Phone) -> None:
    phone.control.inject("garbage=10")
    phone.control.inject("read-only")
    assert phone.control.info().faults == ("garbage=10", "read-only")
    assert b"Read-only" in phone.shell(f"echo x > {TMP}/new").stderr


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("ofline", "no fault is called 'ofline'"),
        ("cut-push", "say cut-push=BYTES"),
        ("slow=fast", "'fast' is no number of bytes"),
        ("offline=1", "takes no argument"),
        ("corrupt=blob", "is no absolute path"),
        ("replaced=nobody", "no virtual phone is described as 'nobody'"),
    ],
)
def test_a_wrong_fault_is_one_sentence_and_changes_nothing(phone: Phone, fault: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        phone.control.inject(fault)
    assert phone.works()


def test_a_phone_that_is_not_up_is_named_with_those_that_are(phone: Phone) -> None:
    with pytest.raises(ConfigError, match="no virtual phone called 'virtual-low-9' is up: those that are: virtual-hi"):
        PhoneControl("virtual-low-9").info()
