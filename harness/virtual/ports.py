"""Listening sockets on loopback, outside the ports that adb looks at by itself."""

from __future__ import annotations

import socket

from harness.core.errors import HostError

ADB_PORT = 5037
EMULATOR_PORTS = range(5555, 5586)
BACKLOG = 64
_ATTEMPTS = 64


def is_reserved(port: int) -> bool:
    """Whether an adb server of the user's may use or search this port."""
    return port == ADB_PORT or port in EMULATOR_PORTS


def listen() -> socket.socket:
    """Return a socket that listens on a free port of 127.0.0.1.

    After ``shutdown`` it refuses connections and keeps the port; ``listen`` opens it again.

    Raises:
        HostError: none is free.
    """
    refused: list[socket.socket] = []
    try:
        for _ in range(_ATTEMPTS):
            listener = _socket()
            try:
                listener.bind(("127.0.0.1", 0))
                address = listener.getsockname()
                if not is_reserved(address[1]):
                    return _claimed(listener, address)
            except OSError as error:
                listener.close()
                raise HostError(
                    f"no free port on 127.0.0.1 ({error.strerror})", remedy="close some programs"
                ) from error
            refused.append(listener)  # kept, so that the kernel offers another one
    finally:
        for listener in refused:
            listener.close()
    raise HostError("no free port on 127.0.0.1 outside adb's own", remedy="widen net.ipv4.ip_local_port_range")


def _socket() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return sock


def _claimed(found: socket.socket, address: tuple[str, int]) -> socket.socket:
    """Bind another socket to the port by its number: only then it stays ours while it does not listen."""
    listener = _socket()
    listener.bind(address)
    found.close()
    listener.listen(BACKLOG)
    return listener
