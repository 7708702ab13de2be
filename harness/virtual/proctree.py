"""The processes of one phone as the PC's ``/proc`` shows them.

The phone's process 1 is the first child of the sandbox's own process; it adopts orphans, so whatever runs in the phone
lies below it. The phone's own daemons (process 1 and the ``adbd`` below it) are never stopped or killed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024
_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


@dataclass(frozen=True)
class Process:
    """One process. ``pid`` is the PC's number, ``cpu_s`` includes what its ended and awaited children used."""

    pid: int
    comm: str
    state: str
    threads: int
    tty: int
    cpu_s: float
    rss_kb: int
    is_daemon: bool


@dataclass(frozen=True)
class Snapshot:
    """All processes, parents before their children."""

    processes: tuple[Process, ...] = field(default=())

    @property
    def guests(self) -> tuple[Process, ...]:
        """What was started in the phone, without its daemons and the dead."""
        return tuple(one for one in self.processes if not one.is_daemon and one.state not in "ZX")

    @property
    def cpu_s(self) -> float:
        """CPU time of everything that ever ran in the phone, as far as somebody waited for its end."""
        return sum(one.cpu_s for one in self.processes)

    @property
    def guest_rss_kb(self) -> int:
        """Resident memory of the guests."""
        return sum(one.rss_kb for one in self.guests)


class ProcessTree:
    """Reads the tree below one sandbox process."""

    def __init__(self, sandbox_pid: int) -> None:
        self._sandbox = sandbox_pid
        self._init: int | None = None
        self._idle_fds: dict[int, int] = {}

    def close(self) -> None:
        """Give the descriptors back."""
        for fd in self._idle_fds.values():
            os.close(fd)
        self._idle_fds.clear()

    @property
    def init(self) -> int | None:
        """The phone's process 1, once it is there."""
        if self._init is None:
            self._init = next(iter(children(self._sandbox)), None)
        return self._init

    def is_idle(self) -> bool:
        """Return whether nothing runs but the daemons. Costs two reads of open files."""
        init = self.init
        if init is None:
            return True
        below = self._children_of_daemon(init)
        if len(below) != 1:
            return not below
        return not self._children_of_daemon(below[0])

    def has_shells(self) -> bool:
        """Return whether anything that adbd started is still its child: an open shell."""
        init = self.init
        return init is not None and any(
            self._children_of_daemon(one.pid)
            for one in map(read_process, self._children_of_daemon(init))
            if one is not None and one.comm == "adbd"
        )

    def _children_of_daemon(self, pid: int) -> list[int]:
        fd = self._idle_fds.get(pid)
        try:
            if fd is None:
                fd = os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY | os.O_CLOEXEC)
                if len(self._idle_fds) > 4:  # adbd was started again: its forerunner's descriptor is of no use
                    self.close()
                self._idle_fds[pid] = fd
            return [int(word) for word in os.pread(fd, 65536, 0).split()]
        except _GONE:
            if fd is not None and pid in self._idle_fds:
                os.close(self._idle_fds.pop(pid))
            return []

    def snapshot(self) -> Snapshot:
        """Read everything now."""
        init = self.init
        return Snapshot(tuple(_walk(init, depth=0)) if init is not None else ())


def _walk(pid: int, depth: int) -> Iterator[Process]:
    process = read_process(pid, depth)
    if process is None:
        return
    yield process
    for child in children(pid, process.threads):
        yield from _walk(child, depth + 1)


def children(pid: int, threads: int = 1) -> list[int]:
    """Return the children of a process; those that its further threads started too."""
    found: list[int] = []
    tasks = [str(pid)]
    if threads > 1:
        with contextlib.suppress(*_GONE):
            tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    for task in tasks:
        with contextlib.suppress(*_GONE):
            found += [int(word) for word in _read(f"/proc/{pid}/task/{task}/children").split()]
    return found


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 65536)
    finally:
        os.close(fd)


def read_process(pid: int, depth: int = 2) -> Process | None:
    """Return one process, ``None`` if it is gone. ``depth`` is its distance from process 1."""
    try:
        stat = _read(f"/proc/{pid}/stat")
    except _GONE:
        return None
    comm, fields = parse_stat(stat)
    return Process(
        pid=pid,
        comm=comm,
        state=fields[0],
        threads=int(fields[17]),
        tty=int(fields[4]),
        cpu_s=sum(int(number) for number in fields[11:15]) / _TICKS,
        rss_kb=int(fields[21]) * _PAGE_KB,
        is_daemon=depth == 0 or (depth == 1 and comm == "adbd"),
    )


def parse_stat(stat: bytes) -> tuple[str, list[str]]:
    """Split ``/proc/PID/stat`` into the name, which may hold anything, and the fields after it, state first."""
    head, _, tail = stat.rpartition(b")")
    return head.partition(b"(")[2].decode("utf-8", "replace"), tail.decode("ascii", "replace").split()


def status_numbers(pid: int) -> dict[str, list[str]]:
    """Return ``/proc/PID/status`` as words by key; empty if the process is gone."""
    try:
        text = _read(f"/proc/{pid}/status").decode("utf-8", "replace")
    except _GONE:
        return {}
    return {key: value.split() for key, _, value in (line.partition(":") for line in text.split("\n"))}


def program_name(pid: int) -> str | None:
    """Return the first word of a process's command line."""
    try:
        return _read(f"/proc/{pid}/cmdline").split(b"\0")[0].decode("utf-8", "replace") or None
    except _GONE:
        return None
