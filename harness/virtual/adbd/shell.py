"""The services ``shell:``, ``shell,v2…:`` and ``exec:``.

A shell whose stream is closed gets SIGHUP and loses its pipes, as adbd does it; a process that ignores both in a
session of its own lives on.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import IO, Any

from . import fdio
from .condition import Link, Output
from .packets import Buffer
from .transport import Stream

log = logging.getLogger(__name__)

SHELL = "/system/bin/sh"
CHUNK_BYTES = 64 * 1024
_PACKET = struct.Struct("<BI")


class PacketId(IntEnum):
    """Kinds of packets inside a ``shell,v2`` stream."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    EXIT = 3
    CLOSE_STDIN = 4
    WINDOW_SIZE = 5


@dataclass(frozen=True)
class ShellRequest:
    """What a shell service was asked for. ``v2`` keeps stdout, stderr and the exit code apart."""

    command: bytes
    v2: bool
    pty: bool
    term: str = ""


def parse_shell_request(name: bytes, *, terminal_always: bool = False) -> ShellRequest | None:
    """Read a service name such as ``shell,v2,TERM=xterm,raw:ls``; ``None`` if it is not a shell.

    Args:
        name: as in the OPEN packet.
        terminal_always: give any ``shell`` a terminal unless it is told not to, as Android 6 does.
    """
    head, colon, command = name.partition(b":")
    service, *arguments = head.split(b",")
    if not colon or service not in (b"shell", b"exec"):
        return None
    if service == b"exec":
        return ShellRequest(command, v2=False, pty=False)
    terminal = terminal_always or not command
    term = ""
    for argument in arguments:
        if argument in (b"raw", b"pty"):
            terminal = argument == b"pty"
        elif argument.startswith(b"TERM="):
            term = argument[5:].decode("ascii", "replace")
    return ShellRequest(command, v2=b"v2" in arguments, pty=terminal, term=term)


def encode_packet(kind: PacketId, data: bytes) -> bytes:
    """Return one packet of a ``shell,v2`` stream."""
    return _PACKET.pack(kind, len(data)) + data


class PacketSplitter:
    """Cuts the bytes of a ``shell,v2`` stream into packets; data of an unfinished packet is passed on as it comes."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._kind = 0
        self._missing = 0

    def feed(self, data: Buffer) -> list[tuple[int, bytes]]:
        """Take what arrived and return pieces of packets as ``(kind, data)``."""
        self._buffer += data
        pieces: list[tuple[int, bytes]] = []
        while True:
            if not self._missing:
                if len(self._buffer) < _PACKET.size:
                    return pieces
                self._kind, self._missing = _PACKET.unpack_from(self._buffer)
                del self._buffer[: _PACKET.size]
                if not self._missing:
                    pieces.append((self._kind, b""))
                    continue
            if not self._buffer:
                return pieces
            piece = bytes(self._buffer[: self._missing])
            del self._buffer[: len(piece)]
            self._missing -= len(piece)
            pieces.append((self._kind, piece))


class _Shell:
    """One running shell and the descriptors that lead to it."""

    def __init__(self, request: ShellRequest) -> None:
        self.request = request
        argv: list[str | bytes] = [SHELL, "-c", request.command] if request.command else [SHELL]
        environment = shell_environment(os.environ, request.term)
        self.process: subprocess.Popen[bytes]
        self.errors: int | None = None
        if request.pty:
            self.stdin, slave = pty.openpty()
            self.stdout = self.stdin
            try:
                self.process = subprocess.Popen(
                    argv, stdin=slave, stdout=slave, stderr=slave, cwd="/", env=environment,
                    start_new_session=True, preexec_fn=_take_terminal,
                )  # fmt: skip
            except OSError:
                os.close(self.stdin)
                raise
            finally:
                os.close(slave)
        else:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if request.v2 else subprocess.STDOUT,
                cwd="/",
                env=environment,
                start_new_session=True,
            )
            self.stdin = _own(self.process.stdin)
            self.stdout = _own(self.process.stdout)
            if request.v2:
                self.errors = _own(self.process.stderr)
        for fd in self._open_fds():
            os.set_blocking(fd, False)
        self.pidfd = os.pidfd_open(self.process.pid)
        self._stdin_open = True

    def _open_fds(self) -> set[int]:
        return {fd for fd in (self.stdin, self.stdout, self.errors) if fd is not None and fd >= 0}

    async def give(self, data: Buffer) -> None:
        """Pass input on; what a shell that has closed its stdin does not want is dropped."""
        if self._stdin_open:
            try:
                await fdio.write_all(self.stdin, data)
            except OSError:
                self.close_stdin()

    def close_stdin(self) -> None:
        """Let the shell see the end of its input. A terminal has one descriptor for both ways and keeps it."""
        if self._stdin_open and not self.request.pty:
            self._stdin_open = False
            os.close(self.stdin)
            self.stdin = -1

    def resize(self, text: bytes) -> None:
        """Set the terminal's size from ``ROWSxCOLUMNS,WIDTHxHEIGHT``; anything else is ignored."""
        if not self.request.pty:
            return
        with contextlib.suppress(ValueError, OSError, struct.error):
            numbers = [int(number) for part in text.strip(b"\0").split(b",") for number in part.split(b"x")]
            fcntl.ioctl(self.stdin, termios.TIOCSWINSZ, struct.pack("HHHH", *numbers))

    def close_pipes(self) -> None:
        """Close every way to and from the shell."""
        for fd in self._open_fds():
            os.close(fd)
        self.stdin = self.stdout = -1
        self.errors = None
        self._stdin_open = False

    async def ended(self) -> int:
        """Wait for the shell and return its exit code; a signal N counts as 128+N."""
        await fdio.wait_readable(self.pidfd)
        code = self.process.wait()
        return code if code >= 0 else 128 - code


def _own(pipe: IO[bytes] | None) -> int:
    """Take the descriptor out of a Popen pipe, so that it is closed by us only."""
    if pipe is None:
        raise ValueError("the shell was started without this pipe")
    with pipe:
        return os.dup(pipe.fileno())


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def shell_environment(own: Mapping[str, str], term: str) -> dict[str, str]:
    """Return the environment of a shell: adbd's own without what only its interpreter needs."""
    environment = {key: value for key, value in own.items() if not key.startswith(("PYTHON", "LD_", "_"))}
    if term:
        environment["TERM"] = term
    return environment


async def serve_shell(request: ShellRequest, stream: Stream, *, link: Link) -> None:
    """Run one shell over ``stream`` until it ends or the other end closes the stream.

    Raises:
        StreamClosedError: the other end closed it while the last bytes were sent.
    """
    try:
        shell = _Shell(request)
    except (OSError, ValueError) as error:
        text = f"exec '{SHELL}' failed: {os.strerror(getattr(error, 'errno', None) or 22)}\n".encode()
        await stream.write(encode_packet(PacketId.STDERR, text) if request.v2 else text)
        if request.v2:
            await stream.write(encode_packet(PacketId.EXIT, b"\x01"))
        return
    feeder = asyncio.create_task(_feed(stream, shell))
    worker = asyncio.create_task(_until_end(stream, shell, link))
    cut = asyncio.create_task(link.cut_in_time())
    hang_up = asyncio.create_task(stream.gone.wait())
    try:
        await asyncio.wait({worker, hang_up}, return_when=asyncio.FIRST_COMPLETED)
        done = worker.done()
        await _cancel(feeder, hang_up, worker, cut)
        if done and not stream.gone.is_set():
            worker.result()
        if shell.process.returncode is None:
            # As adbd does it: SIGHUP to the shell itself; what it started sees its pipes break.
            with contextlib.suppress(ProcessLookupError):
                os.kill(shell.process.pid, signal.SIGHUP)
            shell.close_pipes()
            await shell.ended()
    finally:
        shell.close_pipes()
        os.close(shell.pidfd)


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they have let go of their descriptors: closed numbers are soon used again."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _feed(stream: Stream, shell: _Shell) -> None:
    splitter = PacketSplitter()
    while data := await stream.read():
        if not shell.request.v2:
            await shell.give(data)
            continue
        for kind, piece in splitter.feed(data):
            if kind == PacketId.STDIN:
                await shell.give(piece)
            elif kind == PacketId.CLOSE_STDIN:
                shell.close_stdin()
            elif kind == PacketId.WINDOW_SIZE:
                shell.resize(piece)


async def _drain(stream: Stream, fd: int, kind: PacketId, output: Callable[[bytes], bytes], *, v2: bool) -> None:
    while data := await fdio.read_some(fd, CHUNK_BYTES):
        data = output(data)
        if data:
            await stream.write(encode_packet(kind, data) if v2 else data)


async def _until_end(stream: Stream, shell: _Shell, link: Link) -> None:
    """Pass all output on, then the exit code. As with adbd, whoever keeps the pipes open keeps the stream open."""
    v2 = shell.request.v2
    output = Output(link.now)
    drains = [asyncio.create_task(_drain(stream, shell.stdout, PacketId.STDOUT, output, v2=v2))]
    if shell.errors is not None:
        drains.append(asyncio.create_task(_drain(stream, shell.errors, PacketId.STDERR, bytes, v2=v2)))
    try:
        await asyncio.gather(*drains)
    finally:
        await _cancel(*drains)
    code = await shell.ended()
    if v2 and not link.now.lose_exit_code:
        await stream.write(encode_packet(PacketId.EXIT, bytes([code & 0xFF])))
