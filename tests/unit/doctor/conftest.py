"""Computers of our making: nothing of the real one is looked at but its Python, where a test says so."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from harness.doctor.host import Host
from harness.virtual import ports

MakeHost = Callable[..., Host]


@pytest.fixture
def make_host(tmp_path: Path) -> MakeHost:
    """A healthy computer without adb and phones, with what a test changes of it."""
    for name in ("home", "sys", "dev", "proc", "cache", "reports", "temp"):
        (tmp_path / name).mkdir()
    host = Host(
        # Nobody listens there: low ports are not given out by the kernel.
        environ={"PATH": "", "ANDROID_ADB_SERVER_PORT": "1"},
        home=tmp_path / "home",
        user="ada",
        groups=frozenset({"ada"}),
        sys_root=tmp_path / "sys",
        dev_root=tmp_path / "dev",
        proc_root=tmp_path / "proc",
        rules=(tmp_path / "rules",),
        cache=tmp_path / "cache",
        reports=tmp_path / "reports",
        temp=tmp_path / "temp",
        carried_adb=None,
        may_use=lambda path: path.exists(),
        free=lambda _: 2**40,
    )

    def make(environ: dict[str, str] | None = None, **changes: object) -> Host:
        return replace(host, environ={**host.environ, **(environ or {})}, **changes)  # type: ignore[arg-type]

    return make


@contextmanager
def _answering(answer: bytes) -> Iterator[int]:
    listener = ports.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                if connection.recv(64):
                    connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


@pytest.fixture
def serve() -> Iterator[Callable[[bytes], dict[str, str]]]:
    """Start a server that answers every request alike; returns the variables that make it the default server."""
    with ExitStack() as stack:
        yield lambda answer: {"ANDROID_ADB_SERVER_PORT": str(stack.enter_context(_answering(answer)))}


def version_answer(version: int) -> bytes:
    return b"OKAY0004%04x" % version
