from __future__ import annotations

import pytest

from harness.virtual.adbd.shell import (
    PacketId,
    PacketSplitter,
    ShellRequest,
    encode_packet,
    parse_shell_request,
    shell_environment,
)


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        (b"shell,v2,TERM=xterm,raw:ls -l", ShellRequest(b"ls -l", v2=True, pty=False, term="xterm")),
        (b"shell,v2,raw:", ShellRequest(b"", v2=True, pty=False)),
        (b"shell,v2,pty:top", ShellRequest(b"top", v2=True, pty=True)),
        (b"shell:a:b", ShellRequest(b"a:b", v2=False, pty=False)),
        (b"shell:", ShellRequest(b"", v2=False, pty=True)),
        (b"exec:cat \xff", ShellRequest(b"cat \xff", v2=False, pty=False)),
    ],
)
def test_service_names_are_read(name: bytes, request_: ShellRequest) -> None:
    assert parse_shell_request(name) == request_


@pytest.mark.parametrize("name", [b"", b"shell", b"sync:", b"shellx:ls", b"tcp:80"])
def test_other_services_are_not_shells(name: bytes) -> None:
    assert parse_shell_request(name) is None


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_packets_are_found_however_the_bytes_are_cut(step: int) -> None:
    sent = encode_packet(PacketId.STDIN, b"hello") + encode_packet(PacketId.WINDOW_SIZE, b"24x80,0x0")
    sent += encode_packet(PacketId.CLOSE_STDIN, b"")
    splitter = PacketSplitter()
    pieces = [piece for start in range(0, len(sent), step) for piece in splitter.feed(sent[start : start + step])]
    joined: dict[int, bytes] = {}
    for kind, data in pieces:
        joined[kind] = joined.get(kind, b"") + data
    assert joined == {PacketId.STDIN: b"hello", PacketId.WINDOW_SIZE: b"24x80,0x0", PacketId.CLOSE_STDIN: b""}
    assert [kind for kind, _ in pieces][-1] == PacketId.CLOSE_STDIN


def test_a_shell_does_not_inherit_what_only_adbd_needs() -> None:
    own = {"PATH": "/system/bin", "PYTHONPATH": "/system/lib", "LD_LIBRARY_PATH": "/x", "HOME": "/"}
    assert shell_environment(own, "dumb") == {"PATH": "/system/bin", "HOME": "/", "TERM": "dumb"}
