"""Runs that go on without whoever started them, and how they are found, followed and ended."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness.payload.probe_events import End, RunLog, parse_event


def test_a_detached_run_says_that_it_started_and_returns(background: Any) -> None:
    gate = background.folder / "gate"
    os.mkfifo(gate)
    folder = background.start("sh", "-c", 'read line < "$0"; echo "$line"', str(gate))
    assert background.log(folder).end is None, "it returned while the command still waits"
    gate.write_bytes(b"go on\n")
    background.wait_until(lambda: background.log(folder).end is not None, "the end of the run")
    assert background.log(folder).stdout == b"go on\n"


def test_it_belongs_to_no_terminal_and_no_session_of_ours(background: Any) -> None:
    folder = background.start("sleep", "60")
    start = background.start_of(folder)
    told = background.process(start.probe_pid)
    assert told["session"] == told["group"] == str(start.probe_pid)
    assert told["terminal"] == "0"
    for fd in (0, 1, 2):
        assert Path(f"/proc/{start.probe_pid}/fd/{fd}").readlink() == Path("/dev/null")
    status = Path(f"/proc/{start.probe_pid}/status").read_text()
    ignored = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigIgn"))
    assert ignored & 1 << (signal.SIGHUP - 1)
    background.ask("stop", str(folder))


def test_the_command_itself_starts_with_default_signals(background: Any, signals_not_default: Any) -> None:
    folder = background.start("cat", "/proc/self/status")
    background.wait_until(lambda: background.log(folder).end is not None, "the end of the run")
    assert signals_not_default(background.log(folder).stdout.decode().splitlines()) == (0, 0)


def test_it_outlives_the_terminal_and_the_shell_that_started_it(background: Any) -> None:
    folder = background.folder / "run"
    argv = [str(background.probe), "run", "--detach", "--dir", str(folder), "--", "sleep", "60"]
    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and children inherit that
        # the shell stays for a moment, so that it is there to be hung up
        os.execvp("sh", ["sh", "-c", '"$@"; exec sleep 60', "sh", *argv])  # noqa: S606
    text = b""
    while b"\n" not in text:
        text += os.read(terminal, 4096)
    assert b'"start"' in text
    start = background.start_of(folder)
    background.remember(start.probe_pid)
    os.close(terminal)  # the kernel sends SIGHUP to the whole session of that terminal
    os.waitpid(child, 0)
    assert background.process(start.probe_pid)
    assert background.process(start.pid)
    end = parse_event(background.ask("stop", str(folder)).stdout)
    assert isinstance(end, End)
    assert end.why == "stopped"


def test_it_goes_on_whenever_whoever_started_it_is_gone(background: Any) -> None:
    ended = []
    for number in range(60):  # from before it says that it started until after
        folder = background.folder / f"run{number}"
        argv = [
            str(background.probe),
            "run",
            "--detach",
            "--dir",
            str(folder),
            "--interval-ms",
            "10",
            "--",
            "sleep",
            "0.1",
        ]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as asking:
            time.sleep(number * 0.00005)
            asking.kill()
        if (folder / "events.jsonl").exists():
            ended.append(folder)
    for folder in ended:
        background.wait_until(lambda folder=folder: background.log(folder).end is not None, "the end of the run")
        assert background.log(folder).end.why == "exit"
    assert ended


def test_a_refusal_of_a_detached_run_reaches_whoever_asked(background: Any) -> None:
    (background.folder / "run").mkdir()
    (background.folder / "run" / "events.jsonl").write_text("old")
    done = background.ask("run", "--detach", "--dir", str(background.folder / "run"), "--", "true")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"is there already" in done.stderr


def test_a_program_that_is_not_there_is_told_by_a_detached_run_too(background: Any) -> None:
    folder = background.start("/nowhere/at/all")
    background.wait_until(lambda: background.log(folder).end is not None, "the end of the run")
    assert (background.log(folder).end.why, background.log(folder).end.errno) == ("spawn_failed", "ENOENT")


def test_a_run_that_ended_is_streamed_whole_and_from_every_line_start(background: Any) -> None:
    folder = background.start("sh", "-c", "echo one; sleep 0.05; echo two >&2; exit 4")
    whole = background.ask("attach", str(folder)).stdout
    content = (folder / "events.jsonl").read_bytes()
    assert whole == content
    log = RunLog.read(whole)
    assert (log.stdout, log.stderr) == (b"one\n", b"two\n")
    assert log.end is not None
    assert log.end.exit_code == 4
    offset = 0
    for line in content.splitlines(keepends=True):
        assert background.ask("attach", str(folder), "--from", str(offset)).stdout == content[offset:]
        offset += len(line)


def test_a_live_run_is_followed_to_its_end(background: Any) -> None:
    gate = background.folder / "gate"
    os.mkfifo(gate)
    folder = background.start("sh", "-c", 'echo before; read line < "$0"; echo "$line"', str(gate))
    argv = [str(background.probe), "attach", str(folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        seen = b""
        while b"before" not in seen:
            seen += process.stdout.readline()
        assert process.poll() is None
        gate.write_bytes(b"after\n")
        seen += process.stdout.read()
    assert process.returncode == 0
    assert seen == (folder / "events.jsonl").read_bytes()
    assert RunLog.read(seen).stdout == b"before\nafter\n"


def test_after_the_connection_broke_the_rest_is_fetched_without_gap(background: Any) -> None:
    script = "import sys, time\nfor n in range(200): print(n, flush=True); time.sleep(0.002)"
    folder = background.start(sys.executable, "-S", "-c", script)
    got = b""
    for _ in range(100):
        argv = [str(background.probe), "attach", str(folder), "--from", str(len(got))]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            got += b"".join(process.stdout.readline() for _ in range(40))
            process.kill()
        if b'"ev":"end"' in got:
            break
    log = RunLog.read(got)
    assert got == (folder / "events.jsonl").read_bytes()
    assert log.stdout.split() == [str(n).encode() for n in range(200)]


def test_a_run_whose_probe_was_killed_is_streamed_and_said_to_have_no_end(background: Any) -> None:
    folder = background.start("sh", "-c", "echo said; exec sleep 60")
    background.wait_until(lambda: background.log(folder).stdout == b"said\n", "the output")
    argv = [str(background.probe), "attach", str(folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        os.kill(background.start_of(folder).probe_pid, signal.SIGKILL)
        out, err = process.communicate(timeout=10)
    assert process.returncode == 1
    assert RunLog.read(out).stdout == b"said\n"
    assert b"has no end: its probe was killed" in err
    assert b"its probe was killed" in background.ask("stop", str(folder)).stderr


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("attach",), 2, "attach needs the folder of a run"),
        (("attach", "a", "b"), 2, "attach takes DIR and --from OFFSET; got b"),
        (("attach", "run", "--from", "-1"), 2, "--from takes a byte offset; got -1"),
        (("attach", "run", "--from", "x"), 2, "--from takes a byte offset; got x"),
        (("attach", "nowhere"), 1, "there is no run in nowhere (ENOENT)"),
        (("attach", "run", "--from", "3"), 1, "offset 3 is not at the start of a line"),
        (("attach", "run", "--from", "999999"), 1, "offset 999999 is past the end of the events"),
        (("stop",), 2, "stop takes the folder of a run and nothing else"),
        (("stop", "nowhere"), 1, "there is no run in nowhere (ENOENT)"),
    ],
)
def test_what_cannot_be_attached_or_stopped_is_one_sentence(
    background: Any, words: tuple[str, ...], status: int, said: str
) -> None:
    background.start("true")
    done = background.ask(*words, cwd=background.folder)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (status, b"", 1)
    assert said in done.stderr.decode()


def test_stop_ends_exactly_that_run(background: Any) -> None:
    one, two = background.start("sleep", "60", name="one"), background.start("sleep", "60", name="two")
    end = parse_event(background.ask("stop", str(one)).stdout)
    assert isinstance(end, End)
    assert (end.why, end.signal) == ("stopped", signal.SIGTERM)
    assert background.log(one).end == end
    assert background.process(background.start_of(one).pid) == {}
    assert background.process(background.start_of(two).pid)
    assert background.log(two).end is None
    background.ask("stop", str(two))


def test_stop_of_a_run_that_ended_tells_how(background: Any) -> None:
    folder = background.start("sh", "-c", "exit 9")
    background.wait_until(lambda: background.log(folder).end is not None, "the end of the run")
    end = parse_event(background.ask("stop", str(folder)).stdout)
    assert isinstance(end, End)
    assert (end.why, end.exit_code) == ("exit", 9)


def test_stop_never_signals_a_process_that_only_has_the_number(background: Any) -> None:
    """The number in the events is that of another process, and a lock is held by yet another."""
    folder = background.start("sleep", "60")
    start = background.start_of(folder)
    content = (folder / "events.jsonl").read_bytes()
    with subprocess.Popen(["sleep", "60"]) as bystander:
        forged = background.folder / "forged"
        forged.mkdir()
        old, new = f'"probe_pid":{start.probe_pid}'.encode(), f'"probe_pid":{bystander.pid}'.encode()
        (forged / "events.jsonl").write_bytes(content.replace(old, new))
        with (forged / "events.jsonl").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            done = background.ask("stop", str(forged))
        assert (done.returncode, done.stdout) == (1, b"")
        assert b"cannot be reached" in done.stderr
        assert bystander.poll() is None
        bystander.kill()
    background.ask("stop", str(folder))
