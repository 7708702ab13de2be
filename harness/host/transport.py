"""A transport to this computer: commands are child processes, pushes are copies, below one folder of ours."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from harness.core.deadline import Deadline
from harness.core.errors import AdbFailedError, DeadlineError, TransferError
from harness.core.transport import STDERR, STDOUT, USABLE, Progress, PushItem, ShellResult

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

    def shell(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> ShellResult:
        """Run a command and wait for it; see the protocol."""
        with self._child(argv, subprocess.PIPE if stdin else subprocess.DEVNULL) as child:
            if isinstance(child, ShellResult):
                return child
            try:
                out, err = child.communicate(stdin or None, timeout=deadline.remaining_s())
            except subprocess.TimeoutExpired:
                raise DeadlineError(self.name, deadline.what, deadline.seconds) from None
        code = child.returncode
        return ShellResult(code if code >= 0 else 128 - code, out, err)

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

    def push(self, items: Sequence[PushItem], *, deadline: Deadline, progress: Progress | None = None) -> None:
        """Copy files; see the protocol."""
        for item in items:
            deadline.remaining_s()
            target = Path(item.remote)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(item.local, target)
                target.chmod(item.mode)
            except OSError as error:
                raise TransferError(self.name, item.remote, f"copying {item.local}: {error.strerror}") from error
            if progress is not None:
                progress(target.stat().st_size)

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


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a child: it gets a chance to end well (the probe ends its run), then what is left of its group is killed."""
    child.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
