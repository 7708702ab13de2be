"""Our adb client against the real adb server and a phone behind it."""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from harness.adb.server import AdbServer, ensure_server
from harness.adb.transport import AdbTransport
from harness.core.deadline import Deadline
from harness.core.errors import AdbFailedError, DeadlineError, HostError, PhoneError, PhoneLostError, TransferError
from harness.core.provider import Endpoint
from harness.core.reasons import Reason
from harness.core.transport import STDERR, STDOUT, PushItem

FOLDER = "/data/local/tmp/transport-test"


@pytest.fixture
def phone(virtual_phone: Endpoint) -> AdbTransport:
    transport = AdbTransport(virtual_phone)
    transport.shell(["rm", "-rf", FOLDER], deadline=within(10))
    return transport


def within(seconds: float, what: str = "a test") -> Deadline:
    return Deadline(seconds, what, "phone")


@pytest.mark.parametrize("code", [0, 7, 255])
def test_exit_codes_come_back(phone: AdbTransport, code: int) -> None:
    assert phone.shell(["sh", "-c", f"exit {code}"], deadline=within(10)).exit_code == code


def test_stdout_and_stderr_stay_apart(phone: AdbTransport) -> None:
    result = phone.shell(["sh", "-c", "echo out; echo err >&2; exit 3"], deadline=within(10))
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"out\n", b"err\n")


def test_arguments_arrive_as_they_are(phone: AdbTransport) -> None:
    odd = ["two words", "it's", '"quoted"', "$HOME `id` $(id)", "a;b|c&d", "*", ""]
    odd += ["-n", "Grüße 手机", "new\nline", "\\"]
    result = phone.shell(["printf", "%s\\0", *odd], deadline=within(10))
    assert result.stdout.decode().split("\0")[:-1] == odd


def test_stdin_of_a_megabyte_comes_back_unchanged(phone: AdbTransport) -> None:
    data = os.urandom(1024 * 1024)
    assert phone.shell(["cat"], stdin=data, deadline=within(30)).stdout == data


def test_a_command_nobody_has_ends_with_127(phone: AdbTransport) -> None:
    assert phone.shell(["no-such-program"], deadline=within(10)).exit_code == 127


def test_a_stream_hands_over_output_as_it_comes_and_hanging_up_ends_the_command(phone: AdbTransport) -> None:
    script = "echo $$; echo begun >&2; while echo more; do sleep 0.1; done"
    seen: dict[int, bytes] = {STDOUT: b"", STDERR: b""}
    with phone.stream(["sh", "-c", script], deadline=within(10)) as stream:
        for fd, chunk in stream:
            seen[fd] += chunk
            if b"more" in seen[STDOUT] and seen[STDERR] == b"begun\n":
                break
    pid = seen[STDOUT].split()[0].decode()
    assert stream.exit_code is None
    gone = ["sh", "-c", 'while kill -0 "$1" 2>/dev/null; do sleep 0.05; done; echo gone', "sh", pid]
    assert phone.shell(gone, deadline=within(10)).stdout == b"gone\n"


def test_a_deadline_that_passes_names_what_was_awaited_and_where(phone: AdbTransport) -> None:
    with pytest.raises(DeadlineError) as caught:
        phone.shell(["sleep", "30"], deadline=Deadline(0.3, "a long nap", "phone-7"))
    assert (caught.value.what, caught.value.seconds) == ("a long nap", 0.3)
    assert caught.value.reason is Reason.LINK_STALLED


@pytest.mark.parametrize("name", ["plain", "with blank", "it's", 'say "hi"', "Grüße-手机", "-dash", "a,b"])
def test_a_file_goes_there_and_back_under_any_name(phone: AdbTransport, tmp_path: Path, name: str) -> None:
    local = tmp_path / "local"
    local.write_bytes(os.urandom(70_001))
    phone.push([PushItem(local, f"{FOLDER}/{name}", 0o755)], deadline=within(20))
    phone.pull(f"{FOLDER}/{name}", tmp_path / "back", deadline=within(20))
    assert (tmp_path / "back").read_bytes() == local.read_bytes()
    assert phone.shell(["test", "-x", f"{FOLDER}/{name}"], deadline=within(10)).exit_code == 0


def test_many_files_go_over_one_connection_and_progress_counts_every_byte(phone: AdbTransport, tmp_path: Path) -> None:
    sizes = [0, 1, 65_536, 5_000_000]
    for size in sizes:
        (tmp_path / str(size)).write_bytes(os.urandom(size))
    sent: list[int] = []
    items = [PushItem(tmp_path / str(size), f"{FOLDER}/deep/er/{size}") for size in sizes]
    phone.push(items, deadline=within(60), progress=sent.append)
    assert sum(sent) == sum(sizes)
    for size in sizes:
        phone.pull(f"{FOLDER}/deep/er/{size}", tmp_path / "back", deadline=within(30))
        assert (tmp_path / "back").read_bytes() == (tmp_path / str(size)).read_bytes()


def test_a_refused_push_says_why_in_the_phones_words(phone: AdbTransport, tmp_path: Path) -> None:
    local = tmp_path / "big"
    local.write_bytes(bytes(3_000_000))
    with pytest.raises(TransferError) as caught:
        phone.push([PushItem(local, "/system/bin/evil")], deadline=within(20))
    assert caught.value.path == "/system/bin/evil"
    assert "Read-only file system" in str(caught.value)
    assert caught.value.reason is Reason.READ_ONLY


def test_a_missing_file_cannot_be_pulled_and_leaves_nothing(phone: AdbTransport, tmp_path: Path) -> None:
    with pytest.raises(TransferError, match="No such file or directory"):
        phone.pull(f"{FOLDER}/nothing", tmp_path / "back", deadline=within(10))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_missing_here_is_named(phone: AdbTransport, tmp_path: Path) -> None:
    with pytest.raises(TransferError, match="cannot be read here"):
        phone.push([PushItem(tmp_path / "nothing", f"{FOLDER}/x")], deadline=within(10))


def test_a_serial_nobody_has_is_a_lost_phone(virtual_phone: Endpoint) -> None:
    stranger = AdbTransport(replace(virtual_phone, transport_serial="127.0.0.1:1"))
    with pytest.raises(PhoneLostError):
        stranger.shell(["true"], deadline=within(10))


def test_a_server_that_is_not_there_is_an_adb_failure_and_none_is_started(virtual_phone: Endpoint) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    nowhere = AdbTransport(replace(virtual_phone, adb_port=port))
    with pytest.raises(AdbFailedError, match="does not answer"):
        nowhere.shell(["true"], deadline=within(10))
    with socket.socket() as check:
        assert check.connect_ex(("127.0.0.1", port)) != 0


def test_a_port_on_which_something_else_listens_is_said_to_be_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(10)
        server = AdbServer("127.0.0.1", other.getsockname()[1])
        with pytest.raises(HostError, match="in use, but not by an adb server"):
            _ensure_while_answering(other, server)


def _ensure_while_answering(other: socket.socket, server: AdbServer) -> None:
    def answer() -> None:
        for _ in range(2):
            connection, _address = other.accept()
            with connection:
                connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        ensure_server(server)
    finally:
        thread.join(10)


def test_the_running_server_is_asked_for_its_version_and_used(virtual_phone: Endpoint) -> None:
    server = AdbServer(virtual_phone.adb_host, virtual_phone.adb_port)
    assert ensure_server(server) == 41
    listed = {info.serial: info.state for info in server.transports()}
    assert listed[virtual_phone.transport_serial] == "device"
    assert "shell_v2" in server.features(virtual_phone.transport_serial)


def test_a_phone_can_be_chosen_by_its_transport_where_two_share_a_serial(virtual_phone: Endpoint) -> None:
    server = AdbServer(virtual_phone.adb_host, virtual_phone.adb_port)
    [info] = [info for info in server.transports() if info.serial == virtual_phone.transport_serial]
    assert info.transport_id is not None
    by_id = AdbTransport(
        replace(virtual_phone, transport_serial="shared", extra={"transport_id": str(info.transport_id)})
    )
    by_id.require_features()
    assert by_id.shell(["echo", "here"], deadline=within(10)).stdout == b"here\n"
    with pytest.raises(PhoneLostError):
        AdbTransport(replace(virtual_phone, extra={"transport_id": "99999"})).require_features()


def test_a_command_longer_than_adb_takes_is_refused_in_one_sentence(phone: AdbTransport) -> None:
    with pytest.raises(PhoneError, match="longer than adb takes"):
        phone.shell(["echo", "x" * 70_000], deadline=within(10))
