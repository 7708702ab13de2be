"""Where workers come from: copies of one process that has imported what a worker needs.

64 processes that each import it take a minute of this computer's time and hold all of it 64 times; copies begin at once
and share what they do not change. pytest-xdist starts :mod:`harness.plugin.forked` in a Python's place: that hands its
pipes over and stands in for the copy, so that whoever waits for it or ends it does so to the worker.

``python -m harness.plugin.forkserver FD`` serves the listening socket FD until its stdin ends. It has one thread: the
kernel ties the copies to the thread that made them.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from harness.core.procs import die_with_parent

# What a worker imports when it measures its first cell.
_NEEDED = (
    "xdist.remote",
    "harness.plugin.bound",
    "harness.plugin.progress",
    "harness.plugin.worker",
    "harness.plugin.verdicts",
)
# Two seconds of processor time a worker, where hypothesis is installed.
_LATE = {"_hypothesis_pytestplugin": "hypothesis.internal.observability"}
_BACKLOG = 128
_PIPES = 3


class ForkServer:
    """The server as the controller has it."""

    def __init__(self) -> None:
        """Start it; workers may be asked for at once, they begin when it is ready."""
        self._folder = tempfile.TemporaryDirectory(prefix="mnn-farm-")  # for nobody else's eyes
        self._path = Path(self._folder.name) / "workers"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(self._path))
            listener.listen(_BACKLOG)
            argv = [sys.executable, "-m", "harness.plugin.forkserver", str(listener.fileno())]
            self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])

    @property
    def spec(self) -> str:
        """What pytest-xdist is to be told of a worker, for ``--tx``."""
        stub = Path(__file__).with_name("forked.py")
        return f"popen//python={shlex.join([sys.executable, '-I', '-S', str(stub), str(self._path)])}"

    def stop(self) -> None:
        """End it, and what is left of its workers."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()


class _Server:
    """Makes a copy of this process for each that asks, and tells it how the copy ended."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._asked_by: dict[int, socket.socket] = {}
        self._wake, self._woken = socket.socketpair()

    def serve(self) -> Callable[[], None] | None:
        """Serve until stdin ends; in a copy return at once, with what it is to do."""
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._woken.fileno())
        while True:
            listener, woken = self._listener.fileno(), self._wake.fileno()
            ready, _, _ = select.select([listener, woken, 0], [], [])
            if woken in ready:
                self._wake.recv(4096)
                self._tell_ended()
            if listener in ready:
                work = self._copy()
                if work is not None:
                    return work
            if 0 in ready and not os.read(0, 4096):
                return None

    def _copy(self) -> Callable[[], None] | None:
        connection, _ = self._listener.accept()
        _, pipes, _, _ = socket.recv_fds(connection, 1, _PIPES)
        if len(pipes) != _PIPES:  # it was ended before it could ask
            connection.close()
            return None
        pid = os.fork()
        if pid == 0:
            self._let_go()
            connection.close()
            return lambda: _become_worker(pipes)
        for pipe in pipes:
            os.close(pipe)
        self._asked_by[pid] = connection
        with contextlib.suppress(OSError):  # it is gone: the worker's pipes have ended, and so will it
            connection.sendall(b"%d\n" % pid)
        return None

    def _tell_ended(self) -> None:
        while self._asked_by:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with self._asked_by.pop(pid) as connection, contextlib.suppress(OSError):
                connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))

    def _let_go(self) -> None:
        """Be no server any more."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for one in (self._listener, self._wake, self._woken, *self._asked_by.values()):
            one.close()


def _become_worker(pipes: list[int]) -> NoReturn:
    """Do what execnet wants of a Python that it starts: run the line of source that comes on stdin, and end.

    Nothing is taken apart at the end: that would write to all that is shared, and so copy it first.
    """
    die_with_parent()
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  the process's own, for as long as it lives
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    status = 0
    try:
        exec(eval(sys.stdin.readline()), main.__dict__)  # noqa: S102, S307  from our own controller, over a pipe
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  as a Python of its own would end
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more, or it was closed
            stream.flush()
    os._exit(status)


class _Late:
    """Imports, while pytest's import hook is in place, what plugins of others import at the end of every worker."""

    def pytest_cmdline_main(self) -> None:
        """Called once all plugins are loaded."""
        for plugin, module in _LATE.items():
            if plugin in sys.modules:
                import_module(module)


def _import_all() -> None:
    """Import what workers need: first what pytest itself does at its start, by letting it start."""
    import pytest

    with (
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stderr(nowhere),
        contextlib.redirect_stdout(nowhere),
    ):
        pytest.main(["--version", "--version"], plugins=[_Late()])
    for name in _NEEDED:
        import_module(name)
    gc.collect()
    gc.freeze()  # else the copies' collectors write to all objects, and each gets its own


def main() -> None:
    """Serve; in a copy, be a worker."""
    die_with_parent()
    # A terminal's Ctrl-C, and whoever ends a whole group, mean the controller and the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _import_all()
    work = _Server(socket.socket(fileno=int(sys.argv[1]))).serve()
    if work is not None:
        work()


if __name__ == "__main__":
    main()
