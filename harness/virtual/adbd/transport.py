"""One connection of an adb server: packets in, packets out, and the streams that share it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections import deque
from collections.abc import Awaitable, Callable

from . import packets, rsakey
from .condition import CutError, Link
from .packets import Buffer, ProtocolError

log = logging.getLogger(__name__)

WINDOW_BYTES = 2 * packets.MAX_PAYLOAD
"""What a stream may hold unread before its sender waits for the next OKAY."""
MAX_STREAMS = 1024


class StreamClosedError(Exception):
    """The other end closed the stream, or the connection is gone."""


class Stream:
    """One conversation on a transport, with flow control both ways."""

    def __init__(self, transport: Transport, local_id: int, remote_id: int) -> None:
        self.local_id = local_id
        self.remote_id = remote_id
        self.gone = asyncio.Event()
        """Set when the other end closed the stream or the connection was lost."""
        self._transport = transport
        self._inbox: deque[Buffer] = deque()
        self._inbox_bytes = 0
        self._okay_owed = False
        self._arrived = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._write_lock = asyncio.Lock()

    async def read(self) -> Buffer:
        """Return the next payload; empty when the other end closed the stream and all was read."""
        while not self._inbox:
            if self.gone.is_set():
                return b""
            self._arrived.clear()
            await self._arrived.wait()
        data = self._inbox.popleft()
        self._inbox_bytes -= len(data)
        if self._okay_owed and self._inbox_bytes <= WINDOW_BYTES:
            self._okay_owed = False
            self._transport.send(packets.OKAY, self.local_id, self.remote_id)
        return data

    @property
    def has_unread(self) -> bool:
        """Whether :meth:`read` would return at once."""
        return bool(self._inbox)

    async def write(self, data: Buffer) -> None:
        """Send ``data``, each packet after the last one was acknowledged.

        Raises:
            StreamClosedError: the other end is gone.
        """
        view = memoryview(data)
        async with self._write_lock:
            for start in range(0, len(view), self._transport.max_payload):
                await self._may_write.wait()
                if self.gone.is_set():
                    raise StreamClosedError
                self._may_write.clear()
                part = view[start : start + self._transport.max_payload]
                self._transport.send(packets.WRTE, self.local_id, self.remote_id, part)
            await self._may_write.wait()  # `data` may be reused once it was acknowledged
            if self.gone.is_set():
                raise StreamClosedError

    def deliver(self, data: Buffer) -> None:
        """Take a received payload and acknowledge it, unless too much lies unread.

        Raises:
            ProtocolError: the sender did not wait for its OKAY.
        """
        if self._okay_owed:
            raise ProtocolError("data on a stream that had not acknowledged the last")
        self._inbox.append(data)
        self._inbox_bytes += len(data)
        self._arrived.set()
        if self._inbox_bytes <= WINDOW_BYTES:
            self._transport.send(packets.OKAY, self.local_id, self.remote_id)
        else:
            self._okay_owed = True

    def acknowledge(self) -> None:
        """Note the other end's OKAY."""
        self._may_write.set()

    def hang_up(self) -> None:
        """Note that the other end is gone; readers see the end, writers the error."""
        self.gone.set()
        self._arrived.set()
        self._may_write.set()


Service = Callable[[Stream], Awaitable[None]]
Opener = Callable[[bytes], Service | None]
"""Finds the service for the name in an OPEN packet, ``None`` if there is none."""


class Transport:
    """Serves one connection until it ends."""

    def __init__(self, connection: socket.socket, banner: bytes, opener: Opener, link: Link) -> None:
        self.max_payload = 4096
        self._socket = connection
        self._banner = banner
        self._opener = opener
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._outbox: deque[tuple[bytes, Buffer]] = deque()
        self._queued = asyncio.Event()
        self._streams: dict[int, Stream] = {}
        self._services: set[asyncio.Task[None]] = set()
        self._last_id = 0
        self._checksum = True
        self._online = False
        self._version = packets.VERSION
        self._token: bytes | None = None
        self._offered_key = ""
        self._kills_all = False

    def send(self, command: int, arg0: int, arg1: int, payload: Buffer = b"") -> None:
        """Queue a packet. The queue is bounded, because a stream has one unacknowledged packet at most."""
        header = packets.encode_header(command, arg0, arg1, payload, checksum=self._checksum)
        self._outbox.append((header, payload))
        self._queued.set()

    async def run(self) -> None:
        """Serve until the connection ends, then hang up all streams. Services end in their own time."""
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        writer = asyncio.create_task(self._write_packets())
        try:
            while True:
                await self._read_packet()
        except ProtocolError as error:
            log.warning("connection dropped: %s", error)
        except OSError as error:
            log.info("connection ended: %s", error)
        finally:
            writer.cancel()
            for stream in list(self._streams.values()):
                stream.hang_up()
            self._socket.close()
            if self._kills_all or self._link.now.detached_die:
                with contextlib.suppress(ProcessLookupError):  # nothing runs
                    os.kill(-1, signal.SIGKILL)  # all but process 1 and adbd itself
        await asyncio.gather(*self._services)

    async def _receive(self, count: int) -> memoryview:
        view = memoryview(bytearray(count))
        got = 0
        while got < count:
            received = await self._loop.sock_recv_into(self._socket, view[got:])
            if received == 0:
                raise ConnectionResetError("closed by the other end")
            got += received
        return view

    async def _write_packets(self) -> None:
        try:
            while True:
                await self._queued.wait()
                self._queued.clear()
                while self._outbox:
                    header, payload = self._outbox.popleft()
                    await self._link.pass_link("out", len(header) + len(payload))
                    if len(payload) < packets.MAX_PAYLOAD // 16:
                        await self._loop.sock_sendall(self._socket, header + bytes(payload))
                    else:
                        await self._loop.sock_sendall(self._socket, header)
                        await self._loop.sock_sendall(self._socket, payload)
        except OSError:
            # A reader that waits on this socket is woken by its shutdown and tidies up.
            self._shut_down()

    def drop(self) -> None:
        """End the connection; what was queued is lost. What its end does is settled now: it may be noticed only after
        the phone was healed.
        """
        self._kills_all = self._link.now.detached_die
        self._outbox.clear()
        self._shut_down()

    @property
    def waits_for_a_person(self) -> bool:
        """Whether a computer has offered its key and was not accepted yet."""
        return self._token is not None and bool(self._offered_key)

    def reconsider(self) -> None:
        """Go online if a computer that waits for its key to be accepted no longer has to."""
        if self._token is None:
            return
        now = self._link.now
        if not now.auth or (self.waits_for_a_person and self._offered_key in now.keys):
            self._go_online()

    def _shut_down(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            log.debug("already shut down: %s", error)

    async def _read_packet(self) -> None:
        header = packets.decode_header(await self._receive(packets.HEADER.size))
        payload = await self._receive(header.length)
        await self._link.pass_link("in", packets.HEADER.size + len(payload))
        if self._link.now.mute:
            return
        if header.command == packets.CNXN:
            self._connect(header.arg0, header.arg1)
            return
        if header.command == packets.AUTH:
            self._authenticate(header.arg0, bytes(payload))
            return
        if not self._online:
            raise ProtocolError("a packet came before CNXN")
        if header.command == packets.OPEN:
            self._open(header.arg0, bytes(payload))
            return
        stream = self._streams.get(header.arg1)
        if stream is None or (header.arg0 not in (0, stream.remote_id)):
            return  # it crossed our CLSE on the wire
        if header.command == packets.WRTE:
            stream.deliver(payload)
        elif header.command == packets.OKAY:
            stream.acknowledge()
        elif header.command == packets.CLSE:
            self._streams.pop(stream.local_id)
            stream.hang_up()

    def _connect(self, version: int, max_payload: int) -> None:
        for stream in list(self._streams.values()):
            stream.hang_up()
        self._streams.clear()
        self._checksum = version < packets.VERSION
        self.max_payload = max(1, min(max_payload, packets.MAX_PAYLOAD))
        self._version = min(version, packets.VERSION)
        if self._link.now.auth:
            self._online = False
            self._challenge()
        else:
            self._go_online()

    def _go_online(self) -> None:
        self._token = None
        self._online = True
        self.send(packets.CNXN, self._version, packets.MAX_PAYLOAD, self._banner)

    def _challenge(self) -> None:
        self._token = os.urandom(rsakey.TOKEN_BYTES)
        self.send(packets.AUTH, packets.AUTH_TOKEN, 0, self._token)

    def _authenticate(self, what: int, data: bytes) -> None:
        """Take a signature or a public key. A key that is not accepted is left waiting, as for a person's answer."""
        if self._token is None:
            return
        if what == packets.AUTH_SIGNATURE:
            if any(rsakey.verifies(key, self._token, data) for key in self._accepted_keys()):
                self._go_online()
            else:
                self._challenge()
        elif what == packets.AUTH_PUBLIC_KEY:
            self._offered_key = data.rstrip(b"\0").decode("ascii", "replace").partition(" ")[0]
            log.info("a computer asks to be accepted")
            self.reconsider()

    def _accepted_keys(self) -> list[rsakey.PublicKey]:
        keys = []
        for text in self._link.now.keys:
            with contextlib.suppress(ValueError):
                keys.append(rsakey.parse_public_key(text))
        return keys

    def _open(self, remote_id: int, name: bytes) -> None:
        service = self._opener(name.split(b"\0", 1)[0])
        if service is None or remote_id == 0 or len(self._streams) >= MAX_STREAMS:
            self.send(packets.CLSE, 0, remote_id)
            return
        self._last_id = self._last_id % 0x7FFFFFFF + 1
        stream = Stream(self, self._last_id, remote_id)
        self._streams[stream.local_id] = stream
        self.send(packets.OKAY, stream.local_id, remote_id)
        task = asyncio.create_task(self._serve(stream, service))
        self._services.add(task)
        task.add_done_callback(self._services.discard)

    async def _serve(self, stream: Stream, service: Service) -> None:
        try:
            await service(stream)
        except CutError:
            log.info("the cable was pulled by a fault")
        except StreamClosedError:
            log.debug("stream %d was closed by the other end", stream.local_id)
        except Exception:
            log.exception("a service failed")
        finally:
            if self._streams.pop(stream.local_id, None) is not None:
                self.send(packets.CLSE, stream.local_id, stream.remote_id)
