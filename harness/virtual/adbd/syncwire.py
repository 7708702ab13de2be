"""The words of the ``sync:`` service: requests in, answers out. Pure; layouts as in AOSP's file_sync_protocol."""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass

REQUEST = struct.Struct("<4sI")
"""Also the header of DATA, DONE, OKAY and FAIL: a word and a length (or, with DONE, a time)."""
SETUP = struct.Struct("<4sII")
RECEIVE_SETUP = struct.Struct("<4sI")
_STAT_V1 = struct.Struct("<4sIII")
_STAT_V2 = struct.Struct("<4sIQQIIIIQqqq")
_NAME_LENGTH = struct.Struct("<I")

MAX_PATH = 1024
MAX_DATA = 64 * 1024
FLAG_DRY_RUN = 0x80000000


class SyncError(Exception):
    """Answered with FAIL and this text, after which the stream is closed."""


@dataclass(frozen=True)
class SendRequest:
    """What SEND or SND2 asks for. ``mode`` has the file type in it."""

    path: bytes
    mode: int
    dry_run: bool = False

    @property
    def is_link(self) -> bool:
        """Whether a symbolic link is to be made; its target comes as data."""
        return stat.S_ISLNK(self.mode)

    @property
    def permissions(self) -> int:
        """The bits the file gets: adbd gives the owner's rights to group and others too."""
        mode = self.mode & 0o777
        mode |= (mode >> 3) & 0o070
        return mode | (mode >> 3) & 0o007


def parse_send(argument: bytes) -> SendRequest:
    """Read ``PATH,MODE`` of SEND; the path itself may have commas.

    Raises:
        SyncError: there is no mode.
    """
    path, comma, mode = argument.rpartition(b",")
    if not comma:
        raise SyncError("missing , in ID_SEND_V1")
    try:
        return SendRequest(path, int(mode, 0) if mode.startswith(b"0x") else int(mode, 8 if mode[:1] == b"0" else 10))
    except ValueError:
        raise SyncError("bad mode") from None


def parse_send_setup(path: bytes, setup: bytes) -> SendRequest:
    """Read the second part of SND2.

    Raises:
        SyncError: it asks for a compression or something else that was not offered.
    """
    _word, mode, flags = SETUP.unpack(setup)
    if flags & ~FLAG_DRY_RUN:
        raise SyncError(f"unknown flags: {flags}")
    return SendRequest(path, mode, dry_run=bool(flags & FLAG_DRY_RUN))


def check_receive_setup(setup: bytes) -> None:
    """Read the second part of RCV2.

    Raises:
        SyncError: it asks for a compression or something else that was not offered.
    """
    _word, flags = RECEIVE_SETUP.unpack(setup)
    if flags:
        raise SyncError(f"unknown flags: {flags}")


def encode_stat_v1(status: os.stat_result | None) -> bytes:
    """Answer STAT; zeros for what is not there."""
    if status is None:
        return _STAT_V1.pack(b"STAT", 0, 0, 0)
    return _STAT_V1.pack(b"STAT", status.st_mode, status.st_size & 0xFFFFFFFF, int(status.st_mtime) & 0xFFFFFFFF)


def encode_stat_v2(word: bytes, status: os.stat_result | None, error: int = 0) -> bytes:
    """Answer LST2 or STA2: the file's status, or the errno why there is none."""
    if status is None:
        return _STAT_V2.pack(word, error, *[0] * 10)
    return _STAT_V2.pack(
        word, 0, status.st_dev, status.st_ino, status.st_mode, status.st_nlink, status.st_uid, status.st_gid,
        status.st_size, int(status.st_atime), int(status.st_mtime), int(status.st_ctime),
    )  # fmt: skip


def encode_entry(name: bytes, status: os.stat_result, *, v2: bool) -> bytes:
    """One name of a folder in the answer to LIST or LIS2."""
    head = encode_stat_v2(b"DNT2", status) if v2 else b"DENT" + encode_stat_v1(status)[4:]
    return head + _NAME_LENGTH.pack(len(name)) + name


def encode_list_end(*, v2: bool) -> bytes:
    """The end of an answer to LIST or LIS2: an entry of zeros under the word DONE."""
    size = (_STAT_V2.size if v2 else _STAT_V1.size) + _NAME_LENGTH.size
    return b"DONE".ljust(size, b"\0")


def encode_fail(text: str) -> bytes:
    """Answer FAIL with a reason."""
    data = text.encode("utf-8", "replace")
    return REQUEST.pack(b"FAIL", len(data)) + data
