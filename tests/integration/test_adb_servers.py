"""Servers that are not as expected: another version, a dead one, a port in use, phones of equal serial numbers."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.adb import server as adb_server
from harness.adb.server import AdbServer, ensure_server
from harness.core.adbprogram import find_adb
from harness.core.errors import HostError, PhoneError
from harness.virtual import ports
from harness.virtual.provider import VirtualPhones
from harness.virtual.sandbox import find_sandbox


@contextmanager
def answering(answers: dict[str, bytes]) -> Iterator[tuple[AdbServer, list[str]]]:
    """A server of our making; what it has no answer for it cuts off. Yields it and the requests it got."""
    asked: list[str] = []
    listener = ports.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                head = connection.recv(4)
                if len(head) == 4 and head.isalnum():
                    request = connection.recv(int(head, 16)).decode()
                    asked.append(request)
                    connection.sendall(answers.get(request, b""))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield AdbServer("127.0.0.1", listener.getsockname()[1]), asked
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


@pytest.fixture
def no_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("an adb program was run against a server that is up")

    monkeypatch.setattr(adb_server.subprocess, "run", refuse)


@pytest.mark.usefixtures("no_programs")
def test_a_server_of_another_version_is_asked_by_socket_and_never_run_over() -> None:
    with answering({"host:version": b"OKAY00040028"}) as (server, asked):
        assert ensure_server(server) == 40
        assert set(asked) == {"host:version"}
        assert ensure_server(server) == 40  # it is still there


@pytest.mark.usefixtures("no_programs")
@pytest.mark.parametrize("answer", [b"", b"HTTP/1.0 400 Bad Request\r\n\r\n", b"OKAY0004zzzz"])
def test_a_port_used_by_something_else_is_one_sentence(answer: bytes) -> None:
    with answering({"host:version": answer}) as (server, _):
        with pytest.raises(HostError) as caught:
            ensure_server(server)
        assert f"port 127.0.0.1:{server.port} is in use, but not by an adb server" in str(caught.value)
        assert str(caught.value).endswith("free it or set ANDROID_ADB_SERVER_PORT")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    try:
        find_sandbox()
        find_adb()
    except HostError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_a_server_that_dies_and_returns_is_usable_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(cache))
    for name in ("ADB_USB", "ADB_MDNS", "ADB_EMU", "ADB_LOCAL_TRANSPORT_MAX_PORT"):
        monkeypatch.setenv(name, "0")
    listener = ports.listen()
    server = AdbServer("127.0.0.1", listener.getsockname()[1])
    listener.close()
    adb = [str(find_adb(carried_first=True)), "-P", str(server.port)]
    try:
        version = ensure_server(server)
        subprocess.run([*adb, "kill-server"], check=True, capture_output=True, timeout=20)
        with pytest.raises(PhoneError):
            server.version()
        assert ensure_server(server) == version
        assert server.transports() == []
    finally:
        subprocess.run([*adb, "kill-server"], check=False, capture_output=True, timeout=20)


def test_two_servers_with_phones_of_equal_serial_numbers_keep_them_apart(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = VirtualPhones(), VirtualPhones()
    try:
        (first,) = one.start(["low"])
        monkeypatch.setenv("MNN_FARM_CACHE", str(cache / "second"))  # the same name there, so the same ro.serialno
        (second,) = other.start(["low"])
        assert first.name == second.name
        assert first.adb_port != second.adb_port
        said = []
        for endpoint, text in ((first, "one"), (second, "other")):
            argv = [str(find_adb()), "-P", str(endpoint.adb_port), "-s", endpoint.transport_serial, "shell"]
            command = f"echo {text} > /data/local/tmp/who; getprop ro.serialno"
            said.append(subprocess.run([*argv, command], capture_output=True, timeout=20, check=True).stdout)
        assert said[0] == said[1] != b"\n"
        for endpoint, text in ((first, b"one\n"), (second, b"other\n")):
            transports = AdbServer("127.0.0.1", endpoint.adb_port).transports()
            assert [transport.serial for transport in transports] == [endpoint.transport_serial]
            argv = [str(find_adb()), "-P", str(endpoint.adb_port), "shell", "cat /data/local/tmp/who"]
            assert subprocess.run(argv, capture_output=True, timeout=20, check=True).stdout == text
    finally:
        one.stop()
        other.stop()
