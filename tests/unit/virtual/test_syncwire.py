from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from harness.virtual.adbd import syncwire
from harness.virtual.adbd.syncwire import SendRequest, SyncError


@pytest.mark.parametrize(
    ("argument", "path", "mode"),
    [
        (b"/data/x,33188", b"/data/x", 0o100644),
        (b"/data/a,b,0755", b"/data/a,b", 0o755),
        (b"/data/x,0x1ed", b"/data/x", 0o755),
    ],
)
def test_path_and_mode_of_a_send_are_told_apart(argument: bytes, path: bytes, mode: int) -> None:
    request = syncwire.parse_send(argument)
    assert (request.path, request.mode, request.dry_run) == (path, mode, False)


@pytest.mark.parametrize(
    ("argument", "says"), [(b"/data/x", "missing , in ID_SEND_V1"), (b"/x,rw", "bad mode"), (b"/x,", "bad mode")]
)
def test_a_send_without_a_mode_is_refused(argument: bytes, says: str) -> None:
    with pytest.raises(SyncError, match=says):
        syncwire.parse_send(argument)


def test_a_dry_run_is_noticed_and_a_compression_refused() -> None:
    setup = syncwire.SETUP.pack(b"SND2", 0o644, 0x80000000)
    assert syncwire.parse_send_setup(b"/x", setup) == SendRequest(b"/x", 0o644, dry_run=True)
    with pytest.raises(SyncError, match="unknown flags: 2"):
        syncwire.parse_send_setup(b"/x", syncwire.SETUP.pack(b"SND2", 0o644, 2))
    with pytest.raises(SyncError, match="unknown flags: 4"):
        syncwire.check_receive_setup(syncwire.RECEIVE_SETUP.pack(b"RCV2", 4))


@pytest.mark.parametrize(("sent", "kept"), [(0o100644, 0o666), (0o100755, 0o777), (0o100600, 0o666), (0o100400, 0o444)])
def test_the_owners_rights_are_given_to_all(sent: int, kept: int) -> None:
    assert SendRequest(b"/x", sent).permissions == kept


def test_links_are_recognised() -> None:
    assert SendRequest(b"/x", 0o120777).is_link
    assert not SendRequest(b"/x", 0o100777).is_link


def test_the_new_status_has_wide_fields_and_an_errno(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(5 * 1024**3)
    os.utime(path, (1, 2))
    answer = syncwire.encode_stat_v2(b"STA2", path.stat())
    fields = struct.unpack("<4sIQQIIIIQqqq", answer)
    assert fields[0:2] == (b"STA2", 0)
    assert fields[8] == 5 * 1024**3
    assert fields[9:11] == (1, 2)
    missing = struct.unpack("<4sIQQIIIIQqqq", syncwire.encode_stat_v2(b"LST2", None, 2))
    assert missing == (b"LST2", 2, *[0] * 10)


def test_the_old_status_is_cut_to_32_bits_and_zero_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(2**32 + 5)
    assert struct.unpack("<4sIII", syncwire.encode_stat_v1(path.stat()))[2] == 5
    assert syncwire.encode_stat_v1(None) == b"STAT" + bytes(12)


def test_a_listed_name_follows_its_status(tmp_path: Path) -> None:
    entry = syncwire.encode_entry("größe".encode(), tmp_path.stat(), v2=False)
    assert entry[:4] == b"DENT"
    assert entry[16:] == struct.pack("<I", 7) + "größe".encode()
    assert len(syncwire.encode_list_end(v2=False)) == 20
    assert len(syncwire.encode_list_end(v2=True)) == 76


def test_a_failure_carries_its_length() -> None:
    assert syncwire.encode_fail("open failed: x") == b"FAIL\x0e\0\0\0open failed: x"
