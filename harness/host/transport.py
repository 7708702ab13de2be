"""A transport to this computer: commands are child processes, pushes are copies, below one folder of ours."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from harness.core.deadline import Deadline
from harness.core.errors import AdbFailedError, DeadlineError, TransferError
from harness.core.kept import Kept
from harness.core.lines import LineBuffer
from harness.core.transport import STDERR, STDOUT, USABLE, Arrived, Progress, PushItem, ShellResult

_CHUNK_BYTES = 256 * 1024
# How long a child that was told to end may take before it is killed.
_GRACE_S = 2.0


class HostStream:
    """A running child; iterating yields ``(fd, chunk)`` until both its outputs are closed and it has ended."""

    def __init__(
        self, child: subprocess.Popen[bytes], phone: str, deadline: Deadline, idle_s: float | None = None
    ) -> None:
        self._child = child
        self._phone = phone
        self._deadline = deadline
        self._idle_s = idle_s
        self._exit_code: int | None = None

    @property
    def exit_code(self) -> int | None:
        """Exit code once the iteration has ended; 128 + n for a signal, as a phone's shell has it."""
        return self._exit_code

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        with selectors.DefaultSelector() as selector:
            for fd, pipe in ((STDOUT, self._child.stdout), (STDERR, self._child.stderr)):
                assert pipe is not None  # noqa: S101  both were asked for
                selector.register(pipe, selectors.EVENT_READ, fd)
            while selector.get_map():
                left = self._deadline
                if self._idle_s is not None:
                    left = left.within(self._idle_s, f"a word of {left.what}")
                for key, _ in self._ready(selector, left):
                    chunk = os.read(key.fd, _CHUNK_BYTES)
                    if chunk:
                        yield key.data, chunk
                    else:
                        selector.unregister(key.fileobj)
        try:
            code = self._child.wait(self._deadline.remaining_s())
        except subprocess.TimeoutExpired:
            raise DeadlineError(self._phone, self._deadline.what, self._deadline.seconds) from None
        self._exit_code = code if code >= 0 else 128 - code

    @staticmethod
    def _ready(selector: selectors.BaseSelector, left: Deadline) -> list[tuple[selectors.SelectorKey, int]]:
        ready = selector.select(left.remaining_s())
        if not ready:
            raise DeadlineError(left.phone, left.what, left.seconds)
        return ready


class HostConversation:
    """A running child that is talked to; see :class:`~harness.core.transport.Conversation`."""

    def __init__(self, child: subprocess.Popen[bytes], phone: str, deadline: Deadline) -> None:
        self._child = child
        self._phone = phone
        self._deadline = deadline
        self._lines = LineBuffer()
        self._errors = bytearray()
        self._open = {fd: pipe for fd, pipe in ((STDOUT, child.stdout), (STDERR, child.stderr)) if pipe is not None}
        self._result: ShellResult | None = None

    @property
    def result(self) -> ShellResult | None:
        """What it left; see the protocol."""
        return self._result

    def say(self, data: bytes) -> None:
        """Send to its stdin; see the protocol. One that has ended is heard of by :meth:`hear`."""
        assert self._child.stdin is not None  # noqa: S101  it was asked for
        left = memoryview(data)
        with contextlib.suppress(BrokenPipeError):
            while left:
                left = left[os.write(self._child.stdin.fileno(), left) :]

    def hear(self, *, wait: bool) -> list[bytes]:
        """Return its lines; see the protocol."""
        lines: list[bytes] = []
        while self._open:
            pipes = {pipe: fd for fd, pipe in self._open.items()}
            block = wait and not lines
            ready, _, _ = select.select(list(pipes), [], [], self._deadline.remaining_s() if block else 0)
            if not ready and block:
                raise DeadlineError(self._phone, self._deadline.what, self._deadline.seconds)
            if not ready:
                return lines
            for pipe in ready:
                lines += self._read(pipes[pipe])
        if self._result is None:
            self._result = self._ended()
        return lines

    def _read(self, fd: int) -> list[bytes]:
        chunk = os.read(self._open[fd].fileno(), _CHUNK_BYTES)
        if not chunk:
            del self._open[fd]
        elif fd == STDERR:
            self._errors += chunk
        else:
            try:
                return self._lines.feed(chunk)
            except ValueError as error:
                raise AdbFailedError(self._phone, f"{self._deadline.what}: {error}") from error
        return []

    def _ended(self) -> ShellResult:
        try:
            code = self._child.wait(self._deadline.remaining_s())
        except subprocess.TimeoutExpired:
            raise DeadlineError(self._phone, self._deadline.what, self._deadline.seconds) from None
        return ShellResult(code if code >= 0 else 128 - code, self._lines.rest, bytes(self._errors))


class HostTransport:
    """This computer, reached."""

    def __init__(self, name: str, folder: Path, env: Mapping[str, str]) -> None:
        self.name = name
        self.serial = name
        self.base_dir = str(folder)
        self._env = {**os.environ, **env}

    @property
    def server(self) -> tuple[str, int] | None:
        """``None``: adb is not involved."""
        return None

    def shell(
        self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"", most: int | None = None
    ) -> ShellResult:
        """Run a command and wait for it; see the protocol."""
        with self._child(argv, subprocess.PIPE if stdin else subprocess.DEVNULL) as child:
            if isinstance(child, ShellResult):
                return child
            try:
                out, err = child.communicate(stdin or None, timeout=deadline.remaining_s())
            except subprocess.TimeoutExpired:
                raise DeadlineError(self.name, deadline.what, deadline.seconds) from None
        code = child.returncode
        kept = Kept(sys.maxsize if most is None else most)
        kept.add(out)
        return ShellResult(code if code >= 0 else 128 - code, kept.whole(), err)

    @contextmanager
    def stream(self, argv: Sequence[str], *, deadline: Deadline, idle_s: float | None = None) -> Iterator[HostStream]:
        """Run a command and hand over its output as it comes; see the protocol."""
        with self._child(argv, subprocess.DEVNULL) as child:
            if isinstance(child, ShellResult):
                raise TransferError(self.name, argv[0], child.stderr.decode())
            yield HostStream(child, self.name, deadline, idle_s)

    @contextmanager
    def _child(self, argv: Sequence[str], stdin: int | IO[bytes]) -> Iterator[subprocess.Popen[bytes] | ShellResult]:
        """Start a child in a session of its own; whatever is left of it when the block ends is killed."""
        try:
            child = subprocess.Popen(
                list(argv),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._env,
                start_new_session=True,
            )
        except FileNotFoundError:
            yield ShellResult(127, b"", f"{argv[0]}: not found".encode())
            return
        except PermissionError:
            yield ShellResult(126, b"", f"{argv[0]}: Permission denied".encode())
            return
        try:
            with child:
                try:
                    yield child
                finally:
                    if child.poll() is None:
                        _end(child)
        finally:
            for pipe in (child.stdout, child.stderr, child.stdin):
                if pipe is not None:
                    pipe.close()

    @contextmanager
    def converse(self, argv: Sequence[str], *, deadline: Deadline) -> Iterator[HostConversation]:
        """Run a command and talk to it; see the protocol."""
        with self._child(argv, subprocess.PIPE) as child:
            if isinstance(child, ShellResult):
                raise TransferError(self.name, argv[0], child.stderr.decode())
            yield HostConversation(child, self.name, deadline)

    def push(
        self,
        items: Iterable[PushItem],
        *,
        deadline: Deadline,
        progress: Progress | None = None,
        arrived: Arrived | None = None,
    ) -> None:
        """Copy files; see the protocol."""
        for item in items:
            deadline.remaining_s()
            target = Path(item.remote)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                copied = _copy(item, target)
            except OSError as error:
                raise TransferError(self.name, item.remote, f"copying {item.local}: {error.strerror}") from error
            if item.length not in (None, copied):
                raise TransferError(self.name, item.remote, f"{item.local} has become shorter")
            if progress is not None:
                progress(copied)
            if arrived is not None:
                arrived(item)

    def pull(self, remote: str, local: Path, *, deadline: Deadline) -> None:
        """Copy one file back; see the protocol."""
        deadline.remaining_s()
        temporary = local.with_name(f".{local.name}.{os.getpid()}.part")
        try:
            shutil.copyfile(remote, temporary)
            temporary.replace(local)
        except OSError as error:
            raise TransferError(self.name, remote, f"{error.strerror}") from error
        finally:
            temporary.unlink(missing_ok=True)

    def state(self) -> str:
        """This computer is always there."""
        return USABLE

    def reconnect(self, *, deadline: Deadline) -> None:
        """There is no connection that could be lost."""

    def reboot(self, *, deadline: Deadline) -> None:
        """Refused: nobody wants that."""
        raise AdbFailedError(self.name, "this computer is not restarted for a measurement")


def _copy(item: PushItem, target: Path) -> int:
    """Copy what is asked for, and return how many bytes there were."""
    copied = 0
    with item.local.open("rb") as source, target.open("wb") as sink:
        os.fchmod(sink.fileno(), item.mode)  # not by its name: who waits for it may rename it meanwhile
        source.seek(item.offset)
        while item.length is None or copied < item.length:
            chunk = source.read(_CHUNK_BYTES if item.length is None else min(_CHUNK_BYTES, item.length - copied))
            if not chunk:
                break
            copied += sink.write(chunk)
    return copied


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a child: it gets a chance to end well (the probe ends its run), then what is left of its group is killed."""
    child.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
