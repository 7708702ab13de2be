"""Makes the shared storage ``noexec``, as a phone's is; bubblewrap has no option for it.

The phone's process 1 does it to itself, before anything else runs: it enters a user and a mount namespace of its own
(same user, no further rights after the call), where it may remount.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

SHARED = "/storage/emulated/0"
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND = 2, 4, 8, 32, 4096
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def make_noexec(place: str = SHARED) -> None:
    """Forbid to run what lies under ``place``, for us and all we start. Only a process of one thread can.

    Raises:
        OSError: the kernel does not allow it; nothing has changed then but perhaps the namespaces.
    """
    uid, gid = os.getuid(), os.getgid()
    _check(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS))
    try:
        with contextlib.suppress(OSError):  # denied already, in the sandbox of an ordinary user
            Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
        flags = _BIND | _REMOUNT | _NOSUID | _NODEV | _NOEXEC
        _check(_libc.mount(b"none", place.encode(), None, ctypes.c_ulong(flags), None))
    finally:
        _drop_rights()


def _drop_rights() -> None:
    """Give up the rights that a new user namespace brings."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(nothing)))
