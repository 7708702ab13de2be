"""Listening sockets on loopback, outside the ports that adb looks at by itself."""

from __future__ import annotations

import socket

from harness.core.errors import HostError

ADB_PORT = 5037
EMULATOR_PORTS = range(5555, 5586)
_ATTEMPTS = 64


def is_reserved(port: int) -> bool:
    """Whether an adb server of the user's may use or search this port."""
    return port == ADB_PORT or port in EMULATOR_PORTS


def listen() -> socket.socket:
    """Return a socket that listens on a free port of 127.0.0.1.

    Raises:
        HostError: none is free.
    """
    refused: list[socket.socket] = []
    try:
        for _ in range(_ATTEMPTS):
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                listener.bind(("127.0.0.1", 0))
                if not is_reserved(listener.getsockname()[1]):
                    listener.listen(64)
                    return listener
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
