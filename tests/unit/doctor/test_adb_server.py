from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.doctor.adb_server import (
    Listener,
    ServerState,
    check_emulator_ports,
    check_server,
    check_settings,
    listeners,
    server_state,
)
from harness.doctor.host import Host

from .conftest import MakeHost, version_answer

Serve = Callable[[bytes], dict[str, str]]


def listening(host: Host, *lines: str, name: str = "tcp") -> None:
    folder = host.proc_root / "net"
    folder.mkdir(exist_ok=True)
    rows = [f"   {number}: {line} 00000000:00000000 00:00000000 00000000 0" for number, line in enumerate(lines)]
    (folder / name).write_text("\n".join(["  sl  local_address rem_address   st", *rows, ""]))


def test_a_server_is_asked_by_socket(make_host: MakeHost, serve: Serve) -> None:
    environ = serve(version_answer(40))
    assert server_state(make_host(environ)).version == 40
    assert check_server(make_host(environ)) == []


def test_no_server_is_no_problem(make_host: MakeHost) -> None:
    assert server_state(make_host()) == ServerState("127.0.0.1:1")
    assert check_server(make_host()) == []
    assert check_settings(make_host()) == []


def test_something_else_on_its_port_is_an_error(make_host: MakeHost, serve: Serve) -> None:
    environ = serve(b"HTTP/1.0 400 Bad Request\r\n\r\n")
    [finding] = check_server(make_host(environ))
    port = environ["ANDROID_ADB_SERVER_PORT"]
    assert (finding.code, finding.severity) == ("adb_port_taken", "error")
    assert finding.detail.startswith(f"127.0.0.1:{port}: ")
    assert finding.fix.startswith(f"see who has it: ss -ltnp 'sport = :{port}'")


@pytest.mark.parametrize("port", ["", "x", "0", "65536", "-1", "²", "123456"])
def test_a_port_that_is_none_is_an_error(make_host: MakeHost, port: str) -> None:
    [finding] = check_settings(make_host({"ANDROID_ADB_SERVER_PORT": port}))
    assert (finding.code, finding.severity) == ("adb_port_wrong", "error")
    assert finding.fix.startswith("unset ANDROID_ADB_SERVER_PORT")


def test_a_server_elsewhere_that_does_not_answer_is_an_error(make_host: MakeHost) -> None:
    assert check_settings(make_host({"ANDROID_ADB_SERVER_ADDRESS": "::1"})) == []
    [finding] = check_settings(make_host({"ANDROID_ADB_SERVER_ADDRESS": "lab.invalid"}))
    assert (finding.code, finding.severity) == ("adb_server_away", "error")
    assert "unset ANDROID_ADB_SERVER_ADDRESS" in finding.fix


def test_a_socket_that_only_adb_goes_by_is_a_warning(make_host: MakeHost) -> None:
    [finding] = check_settings(make_host({"ADB_SERVER_SOCKET": "tcp:6000"}))
    assert (finding.code, finding.severity) == ("adb_socket_set", "warning")
    assert finding.fix == "unset ADB_SERVER_SOCKET, or name the same server: pytest --adb HOST:PORT"


def test_listeners_are_read_from_proc(make_host: MakeHost) -> None:
    host = make_host()
    assert list(listeners(host.proc_root)) == []
    listening(host, "0100007F:13AD 00000000:0000 0A", "00000000:15B3 00000000:0000 0A", "0100007F:15B5 0A:0016 01")
    listening(host, f"{'0' * 32}:1F90 {'0' * 32}:0000 0A", name="tcp6")
    assert list(listeners(host.proc_root)) == [Listener(5037, False), Listener(5555, True), Listener(8080, True)]


def test_a_server_that_is_open_to_the_network_is_a_warning(make_host: MakeHost, serve: Serve) -> None:
    environ = serve(version_answer(41))
    port = int(environ["ANDROID_ADB_SERVER_PORT"])
    host = make_host(environ)
    listening(host, f"0100007F:{port:04X} 00000000:0000 0A")
    assert check_server(host) == []
    listening(host, f"00000000:{port:04X} 00000000:0000 0A")
    [finding] = check_server(host)
    assert (finding.code, finding.severity) == ("adb_server_open", "warning")
    assert "without -a" in finding.fix


def test_what_listens_where_adb_looks_for_emulators_is_told(make_host: MakeHost, tmp_path: Path) -> None:
    host = make_host()
    listening(host, "0100007F:15B4 00000000:0000 0A")  # 5556: even, and not looked at
    assert check_emulator_ports(host) == []
    listening(host, "0100007F:15B5 00000000:0000 0A")  # 5557
    [finding] = check_emulator_ports(host)
    assert (finding.code, finding.severity) == ("emulator_ports", "info")
    assert finding.fix.endswith("--devices all,not:emulator-5556")
