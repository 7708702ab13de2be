"""The phone's process 1 as crash handler: it notices every signal death in the phone before the parent does.

It watches adbd and all that comes from it by ``ptrace`` (``PTRACE_SEIZE``, which stops nothing by itself), so it sees
each signal as it is about to be delivered, with address and registers. One that will end a process is written to the
log and to a tombstone, then delivered. Programs run at full speed; each fork, signal and end costs some 50 µs. What a
phone of this kind cannot do is run a debugger. Real phones write no block for a static program; this one does, since
there is nobody else to tell of it.

Where the kernel does not allow it (``seccomp``, ``yama``) there are no crash blocks, and the phone's log says so once.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

from . import ptrace
from .crashtext import Crash, Frame, Phone, block, fatal_line
from .logring import LogRing

FATAL = (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP)
TOMBSTONES = Path("/data/tombstones")
_MOST = 32
_LOGS = Path("/dev/log")
_SPEC = Path("/mnt/vendor/now/spec.json")
_STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_TOMBSTONED_PID, _CRASH_DUMP_GAP = 553, 7


def watch(child: int) -> bool:
    """Begin to watch ``child``, which must be a child of ours; return whether the kernel allows it."""
    try:
        ptrace.seize(child)
    except OSError as error:
        with contextlib.suppress(OSError):
            _log().append("crash_dump", "W", 1, 1, f"cannot watch processes: {error.strerror}")
        return False
    return True


def wait_for(child: int) -> int:
    """Reap and handle crashes until ``child`` ends; return its wait status."""
    while True:
        pid, status = os.waitpid(-1, ptrace.WALL)
        if os.WIFSTOPPED(status):
            with contextlib.suppress(ProcessLookupError):  # killed while it stood still
                _handle_stop(pid, os.WSTOPSIG(status), status >> 16)
        elif pid == child:
            return status


def _handle_stop(pid: int, number: int, event: int) -> None:
    if event == ptrace.EVENT_STOP and number in _STOPS:
        ptrace.stay_stopped(pid)
    elif event:
        ptrace.go_on(pid)
    else:
        if number in FATAL:
            try:
                report(pid, number)
            except (OSError, ValueError, KeyError, IndexError) as error:
                sys.stderr.write(f"debuggerd: no report of {pid}: {error}\n")
        ptrace.go_on(pid, number)


def report(tid: int, number: int) -> None:
    """Write log and tombstone if the signal that ``tid`` is about to get will end it.

    Raises:
        OSError: it is gone, or nothing can be written.
    """
    status = _status(tid)
    info = ptrace.signal_info(tid)
    bit = 1 << (number - 1)
    # The kernel forces its own faults on a process that ignores them, and not those that somebody sent.
    if int(status["SigCgt"], 16) & bit or (int(status["SigIgn"], 16) & bit and info.code <= 0):
        return
    spec = json.loads(_SPEC.read_bytes())
    phone = Phone(
        int(spec["sdk"]), str(spec["fingerprint"]), spec["abi"], os.uname().release, os.sysconf("SC_PAGE_SIZE")
    )
    crash = describe(tid, status, info)
    now = time.time()
    timestamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)) + f".{int(now % 1 * 1e9):09d}"
    lines = block(crash, phone, timestamp + time.strftime("%z", time.localtime(now)))
    log, dumper = _log(), crash.pid + _CRASH_DUMP_GAP
    log.append("libc", "F", crash.pid, crash.tid, fatal_line(crash), buffer="crash")
    log.append("DEBUG", "F", dumper, dumper, "\n".join(lines), buffer="crash")
    name = write_tombstone(lines)
    log.append("tombstoned", "E", _TOMBSTONED_PID, _TOMBSTONED_PID, f"Tombstone written to: {name}")


def describe(tid: int, status: dict[str, str], info: ptrace.SignalInfo) -> Crash:
    """Put together what is known of a process that is about to die."""
    pid = int(status["Tgid"])
    words = [word.decode("utf-8", "replace") for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
    words = words[:-1] if words[-1:] == [""] else words
    executable = str(Path(f"/proc/{pid}/exe").readlink())
    registers = ptrace.registers(tid)
    counter = registers.get("rip", registers.get("pc"))
    return Crash(
        pid=pid,
        tid=tid,
        uid=int(status["Uid"].split()[0]),
        name=status["Name"],
        process=words[0] if words else executable,
        command=" ".join(words) or "<unknown>",
        executable=executable,
        signal=info.number,
        code=info.code,
        address=info.address,
        sender_pid=info.pid,
        sender_uid=info.uid,
        uptime_s=max(0, int(time.clock_gettime(time.CLOCK_BOOTTIME) - _started_s(pid))),
        registers=registers,
        frame=None if counter is None else frame_at(counter, Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")),
    )


def frame_at(counter: int, maps: str) -> Frame:
    """Find the file that a program counter lies in."""
    for line in maps.split("\n"):
        words = line.split(maxsplit=5)
        if len(words) < 5:
            continue
        start, end = (int(word, 16) for word in words[0].split("-"))
        if start <= counter < end:
            path = words[5] if len(words) == 6 else f"<anonymous:{start:016x}>"
            return Frame(counter - start + int(words[2], 16), path)
    return Frame(counter, "<unknown>")


def write_tombstone(lines: list[str], folder: Path = TOMBSTONES) -> str:
    """Write a tombstone, over the oldest when there are too many; return its name.

    The folder is closed to the shell, as on phones that people buy.
    """
    folder.mkdir(exist_ok=True)
    folder.chmod(0o700)
    try:
        ages = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
        names = [f"tombstone_{number:02d}" for number in range(_MOST)]
        name = min(names, key=lambda known: ages.get(known, 0))
        (folder / name).write_text("\n".join(lines) + "\n", "utf-8")
    finally:
        folder.chmod(0)
    return name


def _started_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _status(tid: int) -> dict[str, str]:
    text = Path(f"/proc/{tid}/status").read_text("utf-8", "replace")
    return {key: value.strip() for key, _, value in (line.partition(":") for line in text.split("\n"))}


def _log() -> LogRing:
    return LogRing(_LOGS)
