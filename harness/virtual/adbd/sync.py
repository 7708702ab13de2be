"""The service ``sync:``: file transfers and file status.

Files are written and read by threads in pieces of about a megabyte, so that other streams go on meanwhile.
"""

# Paths here are bytes, which pathlib does not take.
# ruff: noqa: PTH101, PTH102, PTH108, PTH118, PTH211
from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Callable
from typing import TypeVar

from . import syncwire
from .condition import Link
from .packets import Buffer
from .syncwire import REQUEST, SendRequest, SyncError
from .transport import Stream

BATCH_BYTES = 1024 * 1024
_PIECES = 15
"""DATA pieces a packet when sending: with their headers they stay below the largest payload."""
_MAX_VECTOR = 512
_HOLE_BYTES = 4096
"""Shorter runs of zeros are written: a file system keeps whole blocks."""
_ZEROS = bytes(syncwire.MAX_DATA)

T = TypeVar("T")


class _EndOfStreamError(Exception):
    """The other end went away between or within requests."""


class _Source:
    """Reads a stream by byte counts, without copying the bulk."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._rest = memoryview(b"")

    @property
    def must_wait(self) -> bool:
        """Whether nothing is there to be taken at once."""
        return not self._rest and not self._stream.has_unread

    async def some(self, limit: int) -> memoryview:
        """Return between one and ``limit`` bytes."""
        while not self._rest:
            data = await self._stream.read()
            if not data:
                raise _EndOfStreamError
            self._rest = memoryview(data)
        part, self._rest = self._rest[:limit], self._rest[limit:]
        return part

    async def exactly(self, count: int) -> bytes:
        """Return ``count`` bytes; for short things."""
        data = bytearray()
        while len(data) < count:
            data += await self.some(count - len(data))
        return bytes(data)

    async def piece_header(self) -> tuple[bytes, int]:
        """Read the header of a DATA or DONE.

        Raises:
            SyncError: it is something else, or too long.
        """
        word, length = REQUEST.unpack(await self.exactly(REQUEST.size))
        if word not in (b"DATA", b"DONE"):
            raise SyncError("invalid data message")
        if word == b"DATA" and length > syncwire.MAX_DATA:
            raise SyncError("oversize data message")
        return word, length


async def serve_sync(stream: Stream, *, link: Link) -> None:
    """Answer requests until QUIT, a failure or the end of the stream.

    Raises:
        StreamClosedError: the other end went away during an answer.
    """
    source = _Source(stream)
    with contextlib.suppress(_EndOfStreamError):
        try:
            while await _serve_request(source, stream, link):
                pass
        except SyncError as error:
            await stream.write(syncwire.encode_fail(str(error)))
            if isinstance(error, _SendFailedError):
                await _drop_data(source)


class _SendFailedError(SyncError):
    """A SEND failed while its data may still be coming."""


async def _serve_request(source: _Source, stream: Stream, link: Link) -> bool:
    word, length = REQUEST.unpack(await source.exactly(REQUEST.size))
    if length > syncwire.MAX_PATH:
        raise SyncError("path too long")
    path = (await source.exactly(length)).split(b"\0", 1)[0]
    if word == b"STAT":
        await stream.write(syncwire.encode_stat_v1((await _status(os.lstat, path))[0]))
    elif word in (b"LST2", b"STA2"):
        status, error = await _status(os.lstat if word == b"LST2" else os.stat, path)
        await stream.write(syncwire.encode_stat_v2(word, status, error))
    elif word in (b"LIST", b"LIS2"):
        await _list(stream, path, v2=word == b"LIS2")
    elif word == b"SEND":
        await _receive_file(source, stream, syncwire.parse_send(path), link)
    elif word == b"SND2":
        setup = await source.exactly(syncwire.SETUP.size)
        await _receive_file(source, stream, syncwire.parse_send_setup(path, setup), link)
    elif word == b"RECV":
        await _send_file(stream, path)
    elif word == b"RCV2":
        syncwire.check_receive_setup(await source.exactly(syncwire.RECEIVE_SETUP.size))
        await _send_file(stream, path)
    elif word == b"QUIT":
        return False
    else:
        raise SyncError(f"unknown command {int.from_bytes(word, 'little'):08x}")
    return True


async def _status(function: Callable[[bytes], os.stat_result], path: bytes) -> tuple[os.stat_result | None, int]:
    try:
        return await asyncio.to_thread(function, path), 0
    except OSError as error:
        return None, error.errno or errno.EIO


async def _list(stream: Stream, path: bytes, *, v2: bool) -> None:
    def entries() -> list[bytes]:
        found = []
        with contextlib.suppress(OSError), os.scandir(path) as folder:
            for name in (b".", b"..", *(entry.name for entry in folder)):
                with contextlib.suppress(OSError):  # gone or unreadable meanwhile
                    found.append(syncwire.encode_entry(name, os.lstat(os.path.join(path, name)), v2=v2))
        return found

    await stream.write(b"".join(await asyncio.to_thread(entries)) + syncwire.encode_list_end(v2=v2))


def _make_parents(path: bytes) -> None:
    """Make the folders above ``path``, one by one as adbd does."""
    parts = path.split(b"/")[:-1]
    for count in range(2, len(parts) + 1):
        with contextlib.suppress(FileExistsError):
            folder = b"/".join(parts[:count])
            os.mkdir(folder)
            os.chmod(folder, 0o775)  # noqa: S103 - as adbd does


def _with_parents(path: bytes, make: Callable[[], T], *, mkdirs: str, made: str) -> T:
    """Call ``make``; if a folder is missing, make the folders above ``path`` and call it again.

    Raises:
        _SendFailedError: worded as adbd does.
    """
    try:
        try:
            return make()
        except FileNotFoundError:
            try:
                _make_parents(path)
            except OSError as error:
                raise _failed(mkdirs, error) from error
            return make()
    except OSError as error:
        raise _failed(made, error) from error


def _failed(what: str, error: OSError) -> _SendFailedError:
    return _SendFailedError(f"{what}: {os.strerror(error.errno or errno.EIO)}")


class _Target:
    """The file that a SEND writes."""

    def __init__(self, request: SendRequest) -> None:
        self.fd = -1
        self._path = request.path
        self._is_ours = False
        self._size = 0
        """Where the last hole ends: the file may have to be made that long."""
        self._mode = request.permissions

    def open(self) -> None:
        """Replace a regular file, write through anything else. A link is followed: what is outside is not there.

        Raises:
            _SendFailedError: worded as adbd does.
        """
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.lstat(self._path).st_mode):
                os.unlink(self._path)
        self.fd = _with_parents(self._path, self._create, mkdirs="secure_mkdirs() failed", made="couldn't create file")
        with contextlib.suppress(OSError):
            os.fchmod(self.fd, self._mode)

    def _create(self) -> int:
        flags = os.O_WRONLY | os.O_CLOEXEC
        try:
            fd = os.open(self._path, flags | os.O_CREAT | os.O_EXCL, self._mode)
        except FileExistsError:
            return os.open(self._path, flags | os.O_TRUNC)
        self._is_ours = True
        return fd

    def write(self, pieces: list[memoryview]) -> None:
        """Append all pieces; in a file of ours, pieces of zeros become holes.

        Raises:
            _SendFailedError: e.g. the disk is full.
        """
        try:
            for is_hole, group in itertools.groupby(pieces, self._can_be_hole):
                run = list(group)
                if is_hole:
                    self._size = os.lseek(self.fd, sum(map(len, run)), os.SEEK_CUR)
                else:
                    _write_vector(self.fd, run)
        except OSError as error:
            raise _failed("write failed", error) from error

    def _can_be_hole(self, piece: memoryview) -> bool:
        if not self._is_ours or len(piece) < _HOLE_BYTES or piece[0] or piece[-1]:
            return False
        return bytes(piece) == _ZEROS[: len(piece)]

    def finish(self, time_s: int) -> None:
        """Close it and set its time.

        Raises:
            _SendFailedError: its end is a hole that the file system does not take.
        """
        try:
            if self._size > os.fstat(self.fd).st_size and self._is_ours:
                os.ftruncate(self.fd, self._size)
        except OSError as error:
            raise _failed("write failed", error) from error
        self._close()
        with contextlib.suppress(OSError):
            os.utime(self._path, (time_s, time_s), follow_symlinks=False)

    def discard(self) -> None:
        """Close it and remove what was made of it."""
        self._close()
        if self._is_ours:
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def _close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _write_vector(fd: int, pieces: list[memoryview]) -> None:
    while pieces:
        written = os.writev(fd, pieces[:_MAX_VECTOR])
        while pieces and written >= len(pieces[0]):
            written -= len(pieces.pop(0))
        if written:
            pieces[0] = pieces[0][written:]


async def _receive_file(source: _Source, stream: Stream, request: SendRequest, link: Link) -> None:
    if request.is_link:
        await _receive_link(source, request)
    else:
        target = None if request.dry_run else _Target(request)
        try:
            if target is not None:
                await asyncio.to_thread(target.open)
            time_s = await _copy_data(source, target, link)
            if target is not None:
                await asyncio.to_thread(target.finish, time_s)
        except BaseException:
            if target is not None:
                target.discard()
            raise
    await stream.write(REQUEST.pack(b"OKAY", 0))


async def _copy_data(source: _Source, target: _Target | None, link: Link) -> int:
    """Write all DATA to ``target`` while the next is received; return the time that DONE carries."""
    loop = asyncio.get_running_loop()
    writing: asyncio.Future[None] | None = None
    batch: list[memoryview] = []
    batch_bytes = 0
    try:
        while True:
            word, length = await source.piece_header()
            if word == b"DONE":
                break
            while length:
                part = await source.some(length)
                length -= len(part)
                link.count_pushed(len(part))
                batch.append(part)
                batch_bytes += len(part)
            if batch_bytes >= BATCH_BYTES or source.must_wait:
                if writing is not None:
                    await writing
                writing = loop.run_in_executor(None, target.write, batch) if target is not None else None
                batch, batch_bytes = [], 0
        if writing is not None:
            await writing
            writing = None
        if target is not None and batch:
            await asyncio.to_thread(target.write, batch)
        return length
    finally:
        if writing is not None and not writing.done():
            await asyncio.wait({writing})


async def _receive_link(source: _Source, request: SendRequest) -> None:
    word, length = await source.piece_header()
    if word != b"DATA":
        raise SyncError("invalid data message: expected ID_DATA")
    target = (await source.exactly(length)).split(b"\0", 1)[0]

    def make() -> None:
        os.symlink(target, request.path)

    def replace() -> None:
        with contextlib.suppress(OSError):
            os.unlink(request.path)
        _with_parents(request.path, make, mkdirs="secure_mkdirs failed", made="symlink failed")

    if not request.dry_run:
        await asyncio.to_thread(replace)
    word, time_s = await source.piece_header()
    if word != b"DONE":
        raise SyncError("invalid data message: expected ID_DONE")
    with contextlib.suppress(OSError):
        os.utime(request.path, (time_s, time_s), follow_symlinks=False)


async def _drop_data(source: _Source) -> None:
    """Throw away the rest of a failed SEND, for clients that read the FAIL only after all was sent."""
    with contextlib.suppress(SyncError):
        while True:
            word, length = await source.piece_header()
            if word == b"DONE":
                return
            while length:
                length -= len(await source.some(length))


async def _send_file(stream: Stream, path: bytes) -> None:
    try:
        fd = await asyncio.to_thread(os.open, path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise SyncError(f"open failed: {os.strerror(error.errno or errno.EIO)}") from error
    try:
        while True:
            packet = await asyncio.to_thread(_read_pieces, fd)
            if not packet:
                break
            await stream.write(packet)
    except OSError as error:
        raise SyncError(f"read failed: {os.strerror(error.errno or errno.EIO)}") from error
    finally:
        os.close(fd)
    await stream.write(REQUEST.pack(b"DONE", 0))


def _read_pieces(fd: int) -> Buffer:
    """Read up to fifteen DATA pieces, with their headers in place."""
    size = syncwire.MAX_DATA
    packet = bytearray(_PIECES * (REQUEST.size + size))
    view = memoryview(packet)
    end = 0
    for _ in range(_PIECES):
        start = end + REQUEST.size
        got = os.readv(fd, [view[start : start + size]])
        if not got:
            break
        REQUEST.pack_into(packet, end, b"DATA", got)
        end = start + got
        if got < size:
            break
    return view[:end]
