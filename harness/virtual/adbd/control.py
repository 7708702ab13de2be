"""adbd's end of the wire to the supervisor: one JSON object a packet, each answered by one."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable
from typing import Any

MAX_PACKET = 64 * 1024


class ControlWire:
    """A connected ``SOCK_SEQPACKET`` socket, handed down from outside; the phone's programs cannot see it."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection

    def tell(self, event: str) -> None:
        """Tell the supervisor that something happened."""
        self._socket.send(json.dumps({"event": event}).encode())

    def serve(self, handle: Callable[[dict[str, Any]], None]) -> None:
        """Answer requests from now on; an error of ``handle`` is the answer."""
        asyncio.get_running_loop().add_reader(self._socket, self._answer, handle)

    def _answer(self, handle: Callable[[dict[str, Any]], None]) -> None:
        data = self._socket.recv(MAX_PACKET)
        if not data:  # the supervisor is gone, and the phone with it
            asyncio.get_running_loop().remove_reader(self._socket)
            return
        request = json.loads(data)
        said = ""
        try:
            handle(request)
        except (OSError, ValueError, KeyError, TypeError) as error:
            said = str(error) or type(error).__name__
        self._socket.send(json.dumps({"id": request.get("id"), "error": said}).encode())
        if request.get("do") == "exit":
            os._exit(0)


def corrupt(path: str) -> None:
    """Flip the bits of the byte in the middle of a file, as a bad memory cell does: size and time stay.

    Raises:
        OSError: it cannot be read and written.
        ValueError: it is empty.
    """
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if not status.st_size:
            raise ValueError(f"{path} is empty")
        place = status.st_size // 2
        os.pwrite(fd, bytes([os.pread(fd, 1, place)[0] ^ 0xFF]), place)
        os.utime(fd, ns=(status.st_atime_ns, status.st_mtime_ns))
    finally:
        os.close(fd)


def largest_file(folder: str) -> str:
    """Return the largest regular file below ``folder``.

    Raises:
        ValueError: there is none.
    """
    sizes = {}
    for place, _folders, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)  # noqa: PTH118
            if os.path.isfile(path) and not os.path.islink(path):  # noqa: PTH113, PTH114
                sizes[path] = os.lstat(path).st_size
    if not sizes:
        raise ValueError(f"there is no file below {folder}")
    return max(sizes, key=lambda path: sizes[path])
