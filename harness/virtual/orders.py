"""Orders about a running phone: one JSON line each way over a socket in the phone's folder."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.core.errors import FarmError, HarnessError, HostError
from harness.virtual.wire import decode_error, encode_error

_MAX_LINE = 64 * 1024
_CLIENT_SECONDS = 2.0
"""How long the supervisor waits for a client that connects and says nothing."""
ANSWER_SECONDS = 60.0


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """Yield an address for ``path`` that fits into the 108 bytes a socket's address may have."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


class OrderSocket:
    """The supervisor's end. The folder belongs to its user alone, and so does the socket."""

    def __init__(self, path: Path) -> None:
        """Listen at ``path``; a socket left there by a killed supervisor is replaced.

        Raises:
            OSError: it cannot be made.
        """
        self._path = path
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _short(path) as address:
            self._listener.bind(address)
        self._listener.listen(8)

    @property
    def fd(self) -> int:
        """Readable when somebody has an order."""
        return self._listener.fileno()

    def answer_one(self, do: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Take one order, let ``do`` carry it out and answer with what it returns or raises."""
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(_CLIENT_SECONDS)
            try:
                order = json.loads(_line(connection))
                if not isinstance(order, dict):
                    raise HarnessError(f"not an order: {order!r}")
                answer = do(order)
            except ValueError as error:
                answer = encode_error(HarnessError(f"not an order ({error})"))
            except FarmError as error:
                answer = encode_error(error)
            except OSError as error:
                answer = encode_error(HostError(f"it could not be done ({error})"))
            with contextlib.suppress(OSError):  # the client may be gone
                connection.sendall(json.dumps(answer).encode() + b"\n")

    def close(self) -> None:
        """Take no more orders."""
        self._listener.close()
        self._path.unlink(missing_ok=True)


def give_order(path: Path, order: dict[str, Any]) -> dict[str, Any]:
    """Give an order and return the answer.

    Raises:
        ConnectionError, FileNotFoundError: nobody listens: that phone is not up.
        FarmError: the order could not be carried out.
        HostError: there was no answer in time.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, _short(path) as address:
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(address)
        try:
            connection.sendall(json.dumps(order).encode() + b"\n")
            answer = json.loads(_line(connection))
        except (TimeoutError, ValueError) as error:
            raise HostError(f"no answer about {path.parent.name} ({error})", remedy="see supervisor.log") from error
    if "error" in answer:
        raise decode_error(answer)
    return dict(answer)


def _line(connection: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n") and len(data) < _MAX_LINE:
        part = connection.recv(4096)
        if not part:
            raise ConnectionResetError("the other end closed the connection")
        data += part
    return data
