"""What farm_runner says, and what it hears of the engine."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import select
import signal
from typing import Any

#: What MNN prints when it silently takes another backend (source/core/Schedule.cpp and the OpenCL runtime).
FALLBACK = re.compile(
    r"Can't Find type=\d+ backend|Don't support \d+|init error, fallback|Parsing OpenCL symbols error"
    r"|Can't create Runtime|Runtime not valid"
)
COMPLAINT = re.compile(r"error|fail|invalid|not found|can't|not enough|wrong", re.IGNORECASE)
SYNC = b"\x01farm_runner sync\x01"


class StageError(Exception):
    """Something went wrong while loading or generating; ``generation`` holds what had come out by then."""

    def __init__(self, stage: str, message: str, generation: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.stage = stage
        self.generation = generation


class Events:
    """Writes events to the stdout that the process was started with."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.stage = "config"

    def emit(self, event: str, **fields: Any) -> None:
        write_all(self.fd, (json.dumps({"event": event, **fields}, allow_nan=False) + "\n").encode())


class EngineOutput:
    """Sends all that the engine prints to stderr, and reads along.

    A child process copies, not a thread: the engine prints while it holds the interpreter, so that a thread could
    not empty the pipe and a talkative load would block for ever; and what was printed before a crash still arrives.
    """

    def __init__(self, events_fd: int) -> None:
        self._stderr = os.dup(2)
        from_engine, to_child = os.pipe()
        self._answers, to_parent = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            try:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                for fd in (events_fd, to_child, self._answers, 1):
                    os.close(fd)
                copy_along(from_engine, to_parent, self._stderr)
            finally:
                os._exit(0)
        for fd in (1, 2):
            os.dup2(to_child, fd)
        for fd in (from_engine, to_child, to_parent):
            os.close(fd)
        self._libc = ctypes.CDLL(None)
        # Line by line, or the last words before a crash stay in the C library's buffer.
        self._libc.setvbuf(ctypes.c_void_p.in_dll(self._libc, "stdout"), None, 1, 0)

    def heard(self) -> dict[str, Any]:
        """Return what was noticed until now: ``fallback`` (a line or ``""``) and the last ``complaints``."""
        self._libc.fflush(None)
        write_all(2, SYNC + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select([self._answers], [], [], 10)
            chunk = os.read(self._answers, 65536) if ready else b""
            if not chunk:
                return {"fallback": "", "complaints": []}
            answer += chunk
        return json.loads(answer)

    def close(self) -> None:
        """Give fd 1 and 2 back to stderr and wait until the last line is copied."""
        self._libc.fflush(None)
        for fd in (1, 2):
            os.dup2(self._stderr, fd)
        os.waitpid(self._child, 0)


def copy_along(source: int, answers: int, sink: int) -> None:
    """Copy lines from ``source`` to ``sink`` until it ends; answer each sync mark with what was noticed."""
    pending, fallback = b"", ""
    complaints: list[str] = []
    while True:
        chunk = os.read(source, 65536)
        *lines, pending = (pending + chunk).split(b"\n")
        if pending and (not chunk or len(pending) > 65536):
            lines, pending = [*lines, pending], b""
        for line in lines:
            text, asked, _ = line.partition(SYNC)
            if text or not asked:
                with contextlib.suppress(OSError):  # nobody reads stderr any more: go on, or the engine blocks
                    write_all(sink, text + b"\n")
                words = text.decode("utf-8", "replace").strip()
                if FALLBACK.search(words):
                    fallback = fallback or words
                if COMPLAINT.search(words):
                    complaints = [*complaints[-3:], words[:200]]
            if asked:
                write_all(answers, json.dumps({"fallback": fallback, "complaints": complaints}).encode() + b"\n")
        if not chunk:
            return


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def with_complaint(message: str, output: EngineOutput) -> str:
    complaints = output.heard()["complaints"]
    return f"{message}; the engine's last words: {' | '.join(complaints)}" if complaints else message
