"""Child processes that cannot outlive the supervisor, however it ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from harness.core.procs import die_with_parent

_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Become the parent of what our children leave behind, so that :func:`end_all` can wait for it."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0)


def _end_with(parent: int) -> Callable[[], None]:
    def in_child() -> None:
        die_with_parent()
        if os.getppid() != parent:
            os._exit(1)

    return in_child


def spawn(
    argv: Sequence[str], *, fds: Sequence[int], log: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a program that inherits ``fds``, adds to ``log`` and is killed when this process ends.

    The kernel ties it to the calling thread, so call it from the main thread of a process without others.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=fds,
            env=dict(environment),
            start_new_session=True,
            preexec_fn=_end_with(os.getpid()),
        )


def end_all(processes: Iterable[subprocess.Popen[bytes]], seconds: float = 5.0) -> bool:
    """Kill ``processes`` and wait for them and all they leave to us; return whether nothing is left."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            pid, _status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            time.sleep(0.002)  # waitpid has no deadline of its own
    return False
