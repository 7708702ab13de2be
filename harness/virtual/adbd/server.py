"""Accepts connections of adb servers and finds the service that a stream asks for."""

from __future__ import annotations

import asyncio
import functools
import logging
import socket

from .shell import parse_shell_request, serve_shell
from .sync import serve_sync
from .transport import Service, Transport

log = logging.getLogger(__name__)


def find_service(name: bytes) -> Service | None:
    """Return the service of this name, ``None`` if this phone has none."""
    if name == b"sync:":
        return serve_sync
    request = parse_shell_request(name)
    if request is not None:
        return functools.partial(serve_shell, request)
    return None


async def serve(listener: socket.socket, banner: bytes) -> None:
    """Serve every connection to ``listener`` until cancelled."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s adbd: %(message)s")
    loop = asyncio.get_running_loop()
    listener.setblocking(False)
    transports: set[asyncio.Task[None]] = set()
    while True:
        connection, _peer = await loop.sock_accept(listener)
        task = asyncio.create_task(Transport(connection, banner, find_service).run())
        transports.add(task)
        task.add_done_callback(transports.discard)
