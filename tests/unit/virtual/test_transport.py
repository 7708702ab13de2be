from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from harness.virtual.adbd import packets
from harness.virtual.adbd.condition import Condition, Link
from harness.virtual.adbd.packets import Header
from harness.virtual.adbd.transport import WINDOW_BYTES, Service, Stream, StreamClosedError, Transport

MEGABYTE = packets.MAX_PAYLOAD


class Peer:
    """The adb server's end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        connection.setblocking(False)

    async def send(self, command: int, arg0: int, arg1: int, payload: bytes = b"") -> None:
        data = packets.encode_header(command, arg0, arg1, payload) + payload
        await asyncio.get_running_loop().sock_sendall(self.connection, data)

    async def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = await asyncio.get_running_loop().sock_recv(self.connection, count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    async def receive(self) -> tuple[Header, bytes]:
        header = packets.decode_header(await self._exactly(packets.HEADER.size))
        return header, await self._exactly(header.length)

    async def quiet(self) -> bool:
        """Whether nothing comes for a moment."""
        try:
            await asyncio.wait_for(self._exactly(1), 0.05)
        except asyncio.TimeoutError:
            return True
        return False

    async def open(self, service: bytes) -> int:
        await self.send(packets.CNXN, packets.VERSION, MEGABYTE, b"host::")
        assert (await self.receive())[0].command == packets.CNXN
        await self.send(packets.OPEN, 11, 0, service + b"\0")
        header, _ = await self.receive()
        assert (header.command, header.arg1) == (packets.OKAY, 11)
        return header.arg0


def quiet() -> Link:
    """A link without faults."""
    return Link(lambda _event: None, lambda: None)


def talk(service: Service, script: Callable[[Peer], Awaitable[None]]) -> None:
    """Run ``script`` against a transport whose only service is ``service``, called ``x``."""

    async def both() -> None:
        ours, theirs = _tcp_pair()
        transport = Transport(ours, b"device::", lambda name: service if name == b"x" else None, quiet())
        serving = asyncio.create_task(transport.run())
        with theirs:
            await asyncio.wait_for(script(Peer(theirs)), 10)
        await asyncio.wait_for(serving, 10)

    asyncio.run(both())


def _tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        return one, listener.accept()[0]


def test_the_next_packet_waits_for_the_okay_of_the_last() -> None:
    async def service(stream: Stream) -> None:
        await stream.write(b"a" * MEGABYTE + b"b")

    async def script(peer: Peer) -> None:
        stream = await peer.open(b"x")
        header, payload = await peer.receive()
        assert (header.command, len(payload)) == (packets.WRTE, MEGABYTE)
        assert await peer.quiet()
        await peer.send(packets.OKAY, 11, stream)
        assert (await peer.receive())[1] == b"b"
        await peer.send(packets.OKAY, 11, stream)
        assert (await peer.receive())[0].command == packets.CLSE

    talk(service, script)


def test_a_reader_that_does_not_read_holds_back_the_okay_until_it_does() -> None:
    read = asyncio.Event()

    async def service(stream: Stream) -> None:
        await read.wait()
        total = 0
        while total < WINDOW_BYTES + MEGABYTE:
            total += len(await stream.read())

    async def script(peer: Peer) -> None:
        stream = await peer.open(b"x")
        for _ in range(WINDOW_BYTES // MEGABYTE):
            await peer.send(packets.WRTE, 11, stream, bytes(MEGABYTE))
            assert (await peer.receive())[0].command == packets.OKAY
        await peer.send(packets.WRTE, 11, stream, bytes(MEGABYTE))
        assert await peer.quiet()
        read.set()
        assert (await peer.receive())[0].command == packets.OKAY
        assert (await peer.receive())[0].command == packets.CLSE

    talk(service, script)


def test_a_sender_that_does_not_wait_loses_the_connection() -> None:
    async def service(stream: Stream) -> None:
        await stream.gone.wait()

    async def script(peer: Peer) -> None:
        stream = await peer.open(b"x")
        for _ in range(WINDOW_BYTES // MEGABYTE + 2):
            await peer.send(packets.WRTE, 11, stream, bytes(MEGABYTE))
        for _ in range(WINDOW_BYTES // MEGABYTE):
            await peer.receive()
        with pytest.raises((EOFError, ConnectionResetError)):
            await peer.receive()

    talk(service, script)


def test_a_service_that_is_not_there_is_closed_at_once() -> None:
    async def service(stream: Stream) -> None:
        raise AssertionError("nobody asked for it")

    async def script(peer: Peer) -> None:
        await peer.send(packets.CNXN, packets.VERSION, MEGABYTE, b"host::")
        await peer.receive()
        await peer.send(packets.OPEN, 12, 0, b"tcp:80\0")
        assert (await peer.receive())[0][:3] == (packets.CLSE, 0, 12)

    talk(service, script)


def test_a_closed_stream_ends_reading_and_fails_writing() -> None:
    seen: list[object] = []

    async def service(stream: Stream) -> None:
        seen.append(bytes(await stream.read()))
        seen.append(await stream.read())
        try:
            await stream.write(b"too late")
        except StreamClosedError:
            seen.append("closed")

    async def script(peer: Peer) -> None:
        stream = await peer.open(b"x")
        await peer.send(packets.WRTE, 11, stream, b"last words")
        await peer.send(packets.CLSE, 11, stream)
        assert (await peer.receive())[0].command == packets.OKAY
        assert await peer.quiet()  # a CLSE is not answered

    talk(service, script)
    assert seen == [b"last words", b"", "closed"]


def test_a_packet_before_the_greeting_ends_the_connection() -> None:
    async def service(stream: Stream) -> None:
        raise AssertionError("nobody asked for it")

    async def script(peer: Peer) -> None:
        await peer.send(packets.OPEN, 1, 0, b"x\0")
        with pytest.raises((EOFError, ConnectionResetError)):
            await peer.receive()

    talk(service, script)


def test_an_old_peer_gets_small_packets_with_sums() -> None:
    async def service(stream: Stream) -> None:
        await stream.write(b"\x01" * 5000)

    async def script(peer: Peer) -> None:
        await peer.send(packets.CNXN, 0x01000000, 4096, b"host::")
        assert (await peer.receive())[0].arg0 == 0x01000000
        await peer.send(packets.OPEN, 11, 0, b"x\0")
        await peer.receive()
        raw = await peer._exactly(packets.HEADER.size)
        assert packets.HEADER.unpack(raw)[3:5] == (4096, 4096)

    talk(service, script)


def _locked(*, keys: tuple[str, ...] = ()) -> Link:
    link = quiet()
    link.change(Condition(auth=True, keys=keys))
    return link


def _with_keys(link: Link, script: Callable[[Peer, Transport], Awaitable[None]]) -> None:
    async def both() -> None:
        ours, theirs = _tcp_pair()
        transport = Transport(ours, b"device::", lambda _name: None, link)
        serving = asyncio.create_task(transport.run())
        with theirs:
            await asyncio.wait_for(script(Peer(theirs), transport), 10)
        await asyncio.wait_for(serving, 10)

    asyncio.run(both())


def test_a_computer_with_an_unknown_key_is_challenged_again_and_left_waiting_until_it_is_accepted() -> None:
    link = _locked()

    async def script(peer: Peer, transport: Transport) -> None:
        await peer.send(packets.CNXN, packets.VERSION, MEGABYTE, b"host::")
        first, token = await peer.receive()
        assert (first.command, first.arg0, len(token)) == (packets.AUTH, packets.AUTH_TOKEN, 20)
        await peer.send(packets.AUTH, packets.AUTH_SIGNATURE, 0, bytes(256))
        second, other = await peer.receive()
        assert (second.command, second.arg0) == (packets.AUTH, packets.AUTH_TOKEN)
        assert other != token
        await peer.send(packets.AUTH, packets.AUTH_PUBLIC_KEY, 0, b"KEY me@here\0")
        while not transport.waits_for_a_person:
            await asyncio.sleep(0)
        link.change(Condition(auth=True, keys=("KEY",)))
        transport.reconsider()
        assert (await peer.receive())[0].command == packets.CNXN

    _with_keys(link, script)


def test_a_stream_before_the_key_was_accepted_ends_the_connection() -> None:
    async def script(peer: Peer, _transport: Transport) -> None:
        await peer.send(packets.CNXN, packets.VERSION, MEGABYTE, b"host::")
        await peer.receive()
        await peer.send(packets.OPEN, 1, 0, b"shell:id\0")
        with pytest.raises((ConnectionError, EOFError)):
            await peer.receive()

    _with_keys(_locked(), script)
