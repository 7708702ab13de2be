"""Accepts connections of adb servers and finds the service that a stream asks for."""

from __future__ import annotations

import asyncio
import errno
import functools
import logging
import socket
from typing import Any

from .condition import Condition, Link
from .control import ControlWire, corrupt, largest_file
from .shell import parse_shell_request, serve_shell
from .sync import serve_sync
from .transport import Service, Stream, Transport

log = logging.getLogger(__name__)


class Server:
    """adbd: one listening socket, one wire to the supervisor, any number of connections."""

    def __init__(self, listener: socket.socket, wire: ControlWire, banner: bytes) -> None:
        self._listener = listener
        self._wire = wire
        self._banner = banner
        self._transports: dict[Transport, asyncio.Task[None]] = {}
        self._link = Link(wire.tell, self._cut)
        self._told = asyncio.Event()

    async def serve(self) -> None:
        """Serve every connection until cancelled; begins when the supervisor has said how to behave."""
        logging.basicConfig(level=logging.INFO, format="%(asctime)s adbd: %(message)s")
        loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        self._wire.serve(self._handle)
        self._wire.tell("started")
        await self._told.wait()
        while True:
            self._link.changed.clear()
            try:
                connection, _peer = await loop.sock_accept(self._listener)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                await self._link.changed.wait()  # it was shut: the cable is out
                continue
            transport = Transport(connection, self._banner, self._find_service, self._link)
            task = asyncio.create_task(transport.run())
            self._transports[transport] = task
            task.add_done_callback(functools.partial(self._forget, transport))

    def _forget(self, transport: Transport, _task: asyncio.Task[None]) -> None:
        self._transports.pop(transport, None)

    def _find_service(self, name: bytes) -> Service | None:
        if name == b"sync:":
            return functools.partial(serve_sync, link=self._link)
        if name.startswith(b"reboot:"):
            return self._reboot
        request = parse_shell_request(name, terminal_always=self._link.now.terminal_always)
        if request is not None:
            return functools.partial(serve_shell, request, link=self._link)
        return None

    async def _reboot(self, _stream: Stream) -> None:
        self._wire.tell("reboot")

    def _cut(self) -> None:
        if self._listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._drop()

    def _drop(self) -> None:
        for transport in list(self._transports):
            transport.drop()

    def _handle(self, request: dict[str, Any]) -> None:
        """Do what the supervisor asks.

        Raises:
            OSError, ValueError: it cannot be done.
        """
        what = request["do"]
        if what == "condition":
            self._link.change(Condition.from_table(request["condition"]))
            self._told.set()
            if request["drop"]:
                self._drop()
            for transport in list(self._transports):
                transport.reconsider()
        elif what == "corrupt":
            corrupt(request["path"] or largest_file("/data/local/tmp"))
        elif what != "exit":
            raise ValueError(f"adbd cannot {what}")
