from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.payload.probe_events import End, Output, RunLog, Sample, Start, parse_event

RunProbe = Callable[..., RunLog]


def ended(log: RunLog) -> End:
    assert log.end is not None
    return log.end


def nap(length_s: int) -> str:
    """A length of `sleep` that no other test and no other test run uses, so that `alive` finds only our own."""
    return f"{length_s}.{os.getpid()}"


def alive(*seconds: str) -> list[str]:
    """Return those lengths of `sleep`, for which a process lives."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it ended just now
            continue
        found += [length for length in seconds if words[:2] == [b"sleep", length.encode()]]
    return found


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen in {seconds} s"
        time.sleep(0.01)


@pytest.mark.parametrize("code", [0, 7, 127, 255])
def test_the_exit_code_of_the_command_is_told(run_probe: RunProbe, code: int) -> None:
    end = ended(run_probe("sh", "-c", f"exit {code}"))
    assert (end.why, end.exit_code, end.signal, end.errno) == ("exit", code, None, None)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT, signal.SIGPIPE])
def test_a_command_killed_by_a_signal_tells_which(run_probe: RunProbe, number: signal.Signals) -> None:
    end = ended(run_probe("sh", "-c", f"ulimit -c 0; kill -{number.name[3:]} $$"))
    assert (end.why, end.exit_code, end.signal) == ("exit", None, number)


@pytest.mark.parametrize(
    ("make", "errno"),
    [
        (None, "ENOENT"),
        (lambda path: path.write_text("text"), "EACCES"),
        (lambda path: (path.write_bytes(b"\x7fELF"), path.chmod(0o755)), "ENOEXEC"),
    ],
)
def test_a_program_that_cannot_be_started_is_told_apart_from_one_that_exits_127(
    run_probe: RunProbe, tmp_path: Path, make: Callable[[Path], object] | None, errno: str
) -> None:
    program = tmp_path / "program"
    if make is not None:
        make(program)
    log = run_probe(str(program))
    end = ended(log)
    assert (end.why, end.errno, end.exit_code, end.signal) == ("spawn_failed", errno, None, None)
    assert end.maxrss_bytes is None
    assert log.start is not None
    assert log.start.argv == (str(program),)


def test_start_and_sensors_come_first_and_carry_what_was_asked(run_probe: RunProbe) -> None:
    log = run_probe("sh", "-c", ":", "é\n", options=("--interval-ms", "50", "--deadline-ms", "9000"))
    assert log.start is not None
    assert log.start.argv == ("sh", "-c", ":", "é\n")
    assert (log.start.seq, log.start.interval_ms, log.start.deadline_ms) == (0, 50, 9000)
    assert log.start.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert log.sensors is not None
    assert log.sensors.seq == 1


def test_a_megabyte_of_every_byte_comes_back_unchanged(run_probe: RunProbe) -> None:
    script = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 4096)"
    log = run_probe(sys.executable, "-S", "-c", script)
    assert log.stdout == bytes(range(256)) * 4096
    assert log.stderr == b""
    assert max(len(chunk.data) for chunk in log.outputs) <= 16384


def test_stderr_is_kept_apart_from_stdout(run_probe: RunProbe) -> None:
    log = run_probe("sh", "-c", "printf out; printf err >&2; printf put")
    assert (log.stdout, log.stderr) == (b"output", b"err")


def test_stdin_is_empty_and_the_environment_and_folder_are_as_told(run_probe: RunProbe, tmp_path: Path) -> None:
    script = 'cat; printf "%s %s %s" "$ONE" "$TWO" "$(pwd -P)"'
    options = ("--env", "ONE=1 =", "--env", "TWO=", "--cwd", str(tmp_path))
    assert run_probe("sh", "-c", script, options=options).stdout == f"1 =  {tmp_path.resolve()}".encode()


def test_the_command_starts_with_default_signals_and_leads_its_own_session(
    run_probe: RunProbe, signals_not_default: Any
) -> None:
    log = run_probe("cat", "/proc/self/status", "/proc/self/stat")
    *status, stat = log.stdout.decode().splitlines()
    assert signals_not_default(status) == (0, 0)
    group, session = stat.rpartition(")")[2].split()[2:4]
    assert group == session == stat.split()[0]


def test_stamps_never_go_back_and_numbers_have_no_gap(run_probe: RunProbe, tmp_path: Path) -> None:
    run_probe("sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep 0.02; done", options=("--interval-ms", "10"))
    events = [parse_event(line) for line in (tmp_path / "run" / "events.jsonl").read_bytes().splitlines()]
    assert [event.seq for event in events] == list(range(len(events)))
    assert [event.mono_ns for event in events] == sorted(event.mono_ns for event in events)
    assert [event.boot_ns for event in events] == sorted(event.boot_ns for event in events)
    assert isinstance(events[0], Start)
    assert isinstance(events[-1], End)
    assert events[-1].samples == sum(isinstance(event, Sample) for event in events) >= 5


def test_a_chunk_is_stamped_when_it_comes_not_when_the_run_ends(run_probe: RunProbe) -> None:
    log = run_probe("sh", "-c", "echo a; sleep 0.3; echo b")
    first, second = log.outputs
    assert (first.data, second.data) == (b"a\n", b"b\n")
    assert second.mono_ns - first.mono_ns > 250_000_000


def test_the_kernels_peak_is_that_of_the_child_alone(run_probe: RunProbe) -> None:
    script = (
        "block = bytearray(b'x') * (64 << 20)\n"
        "del block\n"
        "print(*[line for line in open('/proc/self/status') if line.startswith('VmHWM')])"
    )
    log = run_probe(sys.executable, "-S", "-c", script)
    own_bytes = int(log.stdout.split()[1]) * 1024
    peak = ended(log).maxrss_bytes
    assert own_bytes > 64 << 20
    assert peak is not None
    assert abs(peak - own_bytes) < max(1 << 20, own_bytes // 100)


def test_the_probes_own_memory_does_not_hide_a_small_child(run_probe: RunProbe, probe: Path) -> None:
    peak = ended(run_probe(str(probe), "version")).maxrss_bytes
    assert peak is None or peak < 4 << 20


def test_samples_sum_memory_threads_and_time_over_descendants(run_probe: RunProbe) -> None:
    script = (
        "import os, threading, time\n"
        "child = os.fork()\n"
        "if child == 0: os.setsid()\n"
        "block = bytearray(b'x') * (32 << 20)\n"
        "end = time.process_time() + 0.2\n"
        "threading.Thread(target=time.sleep, args=(0.9,)).start()\n"
        "while time.process_time() < end: pass\n"
        "time.sleep(0.6)\n"
        "if child: os.waitpid(child, 0)"
    )
    log = run_probe(sys.executable, "-S", "-c", script, options=("--interval-ms", "50"))
    full = max(log.samples, key=lambda sample: (sample.threads or 0, sample.rss_bytes or 0))
    assert full.processes == 2
    assert full.threads == 4
    assert full.rss_bytes is not None
    assert full.hwm_bytes is not None
    assert 64 << 20 < full.rss_bytes <= full.hwm_bytes < 200 << 20
    assert full.anon_bytes is not None
    assert full.anon_bytes > 64 << 20
    assert 350 <= log.samples[-1].utime_ms + log.samples[-1].stime_ms <= 1500
    assert log.samples[-1].rss_bytes is None, "the last sample sees a dead process: unknown, not 0"
    end = ended(log)
    assert end.utime_ms is not None
    assert end.stime_ms is not None
    assert end.utime_ms + end.stime_ms >= 350


def test_at_the_deadline_the_deaf_and_the_escaped_are_killed_too(run_probe: RunProbe) -> None:
    inner = f"trap '' TERM; while :; do sleep {nap(7301)}; done"
    script = (
        f"trap '' TERM; setsid sleep {nap(7302)} & (setsid sh -c \"{inner}\" &); printf ready; "
        f"while :; do sleep {nap(7303)}; done"
    )
    started = time.monotonic()
    log = run_probe("sh", "-c", script, options=("--deadline-ms", "300"))
    elapsed_s = time.monotonic() - started
    end = ended(log)
    assert (end.why, end.exit_code, end.signal, end.survivors) == ("deadline", None, signal.SIGKILL, 0)
    assert log.stdout == b"ready"
    assert 0.8 <= elapsed_s < 5
    assert alive(nap(7301), nap(7302), nap(7303)) == []


def test_a_command_that_obeys_sigterm_at_the_deadline_may_say_goodbye(run_probe: RunProbe) -> None:
    script = f"trap 'printf bye; exit 5' TERM; sleep {nap(7304)} & wait"
    log = run_probe("sh", "-c", script, options=("--deadline-ms", "200"))
    assert (ended(log).why, ended(log).exit_code, log.stdout) == ("deadline", 5, b"bye")
    assert alive(nap(7304)) == []


def test_a_grandchild_that_holds_the_pipe_does_not_hold_the_end(run_probe: RunProbe) -> None:
    started = time.monotonic()
    log = run_probe("sh", "-c", f"echo said; (setsid sleep {nap(7305)} &); sleep {nap(7306)} & exit 3")
    assert time.monotonic() - started < 5
    assert (ended(log).why, ended(log).exit_code, ended(log).survivors) == ("exit", 3, 0)
    assert log.stdout == b"said\n"
    assert alive(nap(7305), nap(7306)) == []


def read_log(folder: Path) -> RunLog:
    return RunLog.read((folder / "events.jsonl").read_bytes())


def begin(probe: Path, folder: Path, *command: str, **popen: object) -> subprocess.Popen[bytes]:
    argv = [str(probe), "run", "--dir", str(folder), "--interval-ms", "10000", "--", *command]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, **popen)  # type: ignore[call-overload,no-any-return]


def test_when_nobody_reads_any_more_a_silent_run_ends(probe: Path, tmp_path: Path) -> None:
    for attempt in range(20):  # whichever write or wait of the probe is the first to meet it
        process = begin(probe, tmp_path / str(attempt), "sleep", nap(7307))
        assert process.stdout is not None
        assert b"start" in process.stdout.readline()
        process.stdout.close()
        assert process.wait(5) == 0
        end = ended(read_log(tmp_path / str(attempt)))
        assert (end.why, end.signal) == ("hangup", signal.SIGTERM)
    assert alive(nap(7307)) == []


def test_stdout_may_be_a_socket_as_under_adbd_and_its_loss_is_seen(probe: Path, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    script = f"head -c 300000 /dev/zero; exec sleep {nap(7311)}"
    argv = [str(probe), "run", "--dir", str(tmp_path / "run"), "--interval-ms", "10000", "--", "sh", "-c", script]
    with ours, theirs:
        process = subprocess.Popen(argv, stdout=theirs)
        theirs.close()
        ours.settimeout(10)
        told = b""
        while told.count(b"\\u0000") < 300_000:
            told += ours.recv(1 << 20)
    assert process.wait(10) == 0
    log = read_log(tmp_path / "run")
    assert (tmp_path / "run" / "events.jsonl").read_bytes().startswith(told)
    assert log.stdout == bytes(300_000)
    assert ended(log).why == "hangup"
    assert alive(nap(7311)) == []


@pytest.mark.parametrize(
    ("number", "why"), [(signal.SIGHUP, "hangup"), (signal.SIGTERM, "stopped"), (signal.SIGINT, "stopped")]
)
def test_a_signal_to_the_probe_ends_the_run_and_says_so(
    probe: Path, tmp_path: Path, number: signal.Signals, why: str
) -> None:
    sleep_s = nap(7320 + number)
    process = begin(probe, tmp_path / "run", "sleep", sleep_s)
    assert process.stdout is not None
    assert b"start" in process.stdout.readline()
    process.send_signal(number)
    rest = process.stdout.read()
    process.stdout.close()
    assert process.wait(10) == 0
    end = parse_event(rest.splitlines()[-1])
    assert isinstance(end, End)
    assert (end.why, end.signal) == (why, signal.SIGTERM)
    assert ended(read_log(tmp_path / "run")) == end
    assert alive(sleep_s) == []


def test_when_the_probe_is_killed_its_command_dies_with_it(probe: Path, tmp_path: Path) -> None:
    process = begin(probe, tmp_path / "run", "sleep", nap(7309))
    assert process.stdout is not None
    assert b"start" in process.stdout.readline()
    process.kill()
    process.wait(10)
    process.stdout.close()
    wait_until(lambda: alive(nap(7309)) == [], "the end of the command")


def test_a_reader_that_pauses_loses_nothing_and_a_deadline_holds_meanwhile(probe: Path, tmp_path: Path) -> None:
    script = "while :; do echo 0123456789012345678901234567890123456789; done"
    argv = [str(probe), "run", "--dir", str(tmp_path / "run"), "--deadline-ms", "700", "--", "sh", "-c", script]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert process.stdout is not None
    file = tmp_path / "run" / "events.jsonl"
    wait_until(lambda: file.is_file() and b'"end"' in file.read_bytes()[-600:], "the end at the deadline")
    told = process.stdout.read()
    process.stdout.close()
    assert process.wait(10) == 0
    assert told == file.read_bytes()
    assert ended(read_log(tmp_path / "run")).why == "deadline"


def test_a_full_disk_takes_the_file_but_not_the_run(probe: Path, tmp_path: Path) -> None:
    zeros = "dd if=/dev/zero count=1 2>/dev/null bs"  # one write, not over PIPE_BUF: one chunk
    script = f"{zeros}=3000; sleep 0.1; {zeros}=4000; sleep 0.1; printf x"
    argv = [str(probe), "run", "--dir", str(tmp_path / "run"), "--interval-ms", "10000", "--", "sh", "-c", script]

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (32768, 32768))

    done = subprocess.run(argv, capture_output=True, timeout=30, preexec_fn=small_files, check=True)
    log = RunLog.read(done.stdout)
    assert log.stdout == bytes(7000) + b"x"
    assert (ended(log).why, ended(log).exit_code, ended(log).file_error) == ("exit", 0, "EFBIG")
    kept = read_log(tmp_path / "run")
    assert kept.torn == b"", "a line that did not fit is taken back whole"
    assert kept.stdout == bytes(3000) + b"x"
    assert ended(kept) == ended(log)


def test_sensors_of_another_tree_are_sampled_in_the_order_told(
    run_probe: RunProbe, tmp_path: Path, sensor_tree: Path
) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal: 8 kB\nMemFree: 1 kB\nMemAvailable:   3 kB\n")
    options = ("--sysfs", str(sensor_tree), "--procfs", str(tmp_path / "proc"), "--interval-ms", "100")
    log = run_probe("sleep", "0.35", options=options)
    assert log.sensors is not None
    assert log.sensors.cpus == (0, 4, 5, 6, 7)
    assert [(zone.zone, zone.type) for zone in log.sensors.zones] == [(0, "cpu-0-0"), (7, "skin"), (10, "")]
    assert [denied.errno for denied in log.sensors.denied] == ["EISDIR"]
    first, second, *_, last = log.samples
    assert first.cur_khz == last.cur_khz == (1_200_000, 2_000_000, 2_000_000, None, 2_400_000)
    assert first.cap_khz == (1_800_000, 2_300_000, 2_300_000, None, 2_800_000)
    assert first.milli_c == last.milli_c == (-40_000, 31, None)
    assert second.milli_c == (None, None, None), "zones are read once a second; between, they are unknown"
    assert {sample.mem_available_bytes for sample in log.samples} == {3072}
    assert log.min_available_bytes == 3072
    assert log.max_milli_c() == {"cpu-0-0": -40_000, "skin": 31}


def test_a_clock_that_falls_during_the_run_is_seen(probe: Path, tmp_path: Path, sensor_tree: Path) -> None:
    argv = [str(probe), "run", "--dir", str(tmp_path / "run"), "--interval-ms", "20", "--sysfs", str(sensor_tree)]
    process = subprocess.Popen([*argv, "--", "sleep", nap(7310)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    cap = sensor_tree / "devices/system/cpu/cpu0/cpufreq/scaling_max_freq"
    caps = []
    for line in process.stdout:
        event = parse_event(line)
        if isinstance(event, Sample):
            caps.append(event.cap_khz[0])
            with cap.open("r+") as file:  # in place, as the kernel does
                file.write("0600000\n")
            if event.cap_khz[0] == 600_000:
                process.terminate()
    process.stdout.close()
    assert process.wait(10) == 0
    assert caps[0] == 1_800_000
    assert caps[-1] == 600_000


def test_a_folder_that_holds_a_run_is_refused_and_left_alone(probe: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "events.jsonl").write_text("old")
    argv = [str(probe), "run", "--dir", str(tmp_path / "run"), "--", "touch", str(tmp_path / "ran")]
    done = subprocess.run(argv, capture_output=True, timeout=10)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"is there already" in done.stderr
    assert (tmp_path / "run" / "events.jsonl").read_text() == "old"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 2, "got nothing"),
        (["dance"], 2, "got dance"),
        (["version", "x"], 2, "got x"),
        (["facts", "--what"], 2, "got --what"),
        (["facts", "--sysfs"], 2, "--sysfs needs a value"),
        (["hash"], 2, "needs files"),
        (["hash", "--tree", "a", "b"], 2, "got b"),
        (["run", "--", "true"], 2, "needs --dir"),
        (["run", "--dir", "d"], 2, "needs a command"),
        (["run", "--dir", "d", "true"], 2, "wants -- before the command"),
        (["run", "--dir", "d", "--deadline-ms", "soon", "--", "true"], 2, "--deadline-ms takes whole milliseconds"),
        (["run", "--dir", "d", "--interval-ms", "0", "--", "true"], 2, "--interval-ms takes whole milliseconds"),
        (["run", "--dir", "d", "--env", "=x", "--", "true"], 2, "NAME=VALUE"),
        (["run", "--dir", "d", "--cwd", "/nowhere", "--", "true"], 1, "cannot enter --cwd /nowhere (ENOENT)"),
        (["run", "--dir", "/proc/nowhere", "--", "true"], 1, "cannot make"),
    ],
)
def test_wrong_usage_gets_one_sentence(
    probe: Path, tmp_path: Path, arguments: list[str], status: int, said: str
) -> None:
    done = subprocess.run([str(probe), *arguments], capture_output=True, timeout=10, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (status, b"")
    assert said in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_every_line_is_json_by_itself(run_probe: RunProbe, tmp_path: Path) -> None:
    run_probe("sh", "-c", r"printf '\000\033\177\200\377\042\134'", options=("--env", "X=\udcff"))
    lines = (tmp_path / "run" / "events.jsonl").read_bytes().splitlines()
    outputs = [event for event in map(parse_event, lines) if isinstance(event, Output)]
    assert b"".join(output.data for output in outputs) == b'\x00\x1b\x7f\x80\xff"\\'
    assert all(isinstance(json.loads(line.decode("ascii")), dict) for line in lines)


def test_a_run_on_chosen_cores_tells_where_it_may_run_and_where_it_ran(run_probe: RunProbe) -> None:
    core = max(os.sched_getaffinity(0))
    log = run_probe("sleep", "0.1", options=("--cpus", str(core), "--interval-ms", "10"))
    assert {sample.cpus_allowed for sample in log.samples[:-1]} == {str(core)}
    assert {sample.cpu for sample in log.samples[:-1]} == {core}
    assert (log.samples[-1].cpu, log.samples[-1].cpus_allowed) == (None, None), "the last sample is of the dead"


def test_threads_that_moved_to_other_cores_are_seen(run_probe: RunProbe) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("this computer has one core")
    script = (
        "import os, sys, threading, time\n"
        "asked, other = map(int, sys.argv[1:])\n"
        "told, ready = os.pipe()\n"
        "def stray(): os.sched_setaffinity(0, {other}); os.write(ready, b'.'); time.sleep(60)\n"
        "if os.fork() == 0:\n"
        "    for _ in range(3): threading.Thread(target=stray).start()\n"
        "    time.sleep(60)\n"
        "for _ in range(3): os.read(told, 1)\n"  # and it ends: the last sample sees what it leaves behind
    )
    argv = [sys.executable, "-S", "-c", script, str(cores[0]), str(cores[1])]
    first, *between, last = run_probe(*argv, options=("--cpus", str(cores[0]), "--interval-ms", "10")).samples
    assert first.threads_allowed == (str(cores[0]),)
    assert {sample.threads_allowed for sample in between} == {None}, "told once a second"
    assert last.threads_allowed == (str(cores[0]), str(cores[1]))


def test_a_run_as_the_phone_likes_says_nothing_of_cores(run_probe: RunProbe) -> None:
    samples = run_probe("true").samples
    assert {(sample.cpus_allowed, sample.threads_allowed) for sample in samples} == {(None, None)}


def test_cores_that_do_not_exist_are_a_failed_start(run_probe: RunProbe) -> None:
    end = ended(run_probe("true", options=("--cpus", "511")))
    assert (end.why, end.errno) == ("spawn_failed", "EINVAL")


@pytest.mark.parametrize("list_", ["", "all", "0,x", "-"])
def test_a_list_of_cores_that_is_none_is_misuse(probe: Path, tmp_path: Path, list_: str) -> None:
    argv = [str(probe), "run", "--dir", str(tmp_path / "run"), "--cpus", list_, "--", "true"]
    done = subprocess.run(argv, capture_output=True, timeout=15)
    assert done.returncode == 2
    assert f"--cpus takes a list of cores such as 0,4-7; got {list_}".encode() in done.stderr
