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


def adb(folder: Path, protocol: int = 41, release: str = "36.0.0", body: str = "") -> Path:
    """A program that knows one thing: its version. Asked for anything else it says so, and tests fail."""
    folder.mkdir(parents=True)
    says = body or f"echo Android Debug Bridge version 1.0.{protocol}; echo Version {release}-99"
    path = folder / "adb"
    path.write_text(f'#!/bin/sh\n[ "$*" = version ] || exit 99\n{says}\n')
    path.chmod(0o755)
    return path


def plug_in(host: Host, port: str = "1-4.2", interface: tuple[str, str, str] = ("ff", "42", "01")) -> Path:
    """Plug in a device and return its node."""
    devices = host.sys_root / "bus/usb/devices"
    (devices / f"{port}:1.1").mkdir(parents=True)
    for name, value in zip(("Class", "SubClass", "Protocol"), interface, strict=True):
        (devices / f"{port}:1.1" / f"bInterface{name}").write_text(f"{value}\n")
    (devices / port).mkdir()
    for name, value in {"busnum": "1", "devnum": "17", "idVendor": "1234", "product": "Toy 3"}.items():
        (devices / port / name).write_text(f"{value}\n")
    node = host.dev_root / "bus/usb/001/017"
    node.parent.mkdir(parents=True)
    node.touch()
    return node
