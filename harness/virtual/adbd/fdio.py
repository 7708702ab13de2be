"""Waiting for file descriptors: small, so that backpressure is that of the pipe itself."""

from __future__ import annotations

import asyncio
import errno
import os

from .packets import Buffer


async def _wait(fd: int, *, for_writing: bool) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    if for_writing:
        loop.add_writer(fd, wake)
    else:
        loop.add_reader(fd, wake)
    try:
        await ready
    finally:
        if for_writing:
            loop.remove_writer(fd)
        else:
            loop.remove_reader(fd)


async def read_some(fd: int, limit: int) -> bytes:
    """Return what can be read from a non-blocking descriptor, empty at its end."""
    while True:
        try:
            return os.read(fd, limit)
        except BlockingIOError:
            await _wait(fd, for_writing=False)
        except OSError as error:
            if error.errno == errno.EIO:  # the last process let go of a terminal
                return b""
            raise


async def write_all(fd: int, data: Buffer) -> None:
    """Write everything to a non-blocking descriptor.

    Raises:
        OSError: nobody reads it any more (``EPIPE``).
    """
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            await _wait(fd, for_writing=True)


async def wait_readable(fd: int) -> None:
    """Return when ``fd`` is readable, e.g. a pidfd whose process has ended."""
    await _wait(fd, for_writing=False)
