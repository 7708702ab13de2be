"""Changes how a running phone's ``/data`` is mounted. Started as a script: ``remount.py PID ACTION [BYTES]``.

Whoever made a user namespace may enter it with all rights inside (``user_namespaces(7)``), so no root is needed. Only a
process of one thread may, so it is one of its own. Standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import sys
from pathlib import Path

NS_GET_USERNS = 0xB701
CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x00020000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MNT_DETACH = 1, 2, 4, 8, 32, 4096, 2
PLACES = ("/data", "/storage/emulated/0")
SMALL_DISK = Path("/dev/shm")  # noqa: S108 - of the phone
_BLOCK = 4096
_ROOM_BYTES = 64 * 1024

libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def enter(pid: int) -> None:
    """Enter the mount namespace of ``pid``, and the user namespace that owns it.

    Raises:
        OSError: the kernel does not allow it.
    """
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    owner = fcntl.ioctl(mounts, NS_GET_USERNS)
    _check(libc.setns(owner, CLONE_NEWUSER), "setns")
    _check(libc.setns(mounts, CLONE_NEWNS), "setns")
    os.chdir("/")


def cover(more: int) -> None:
    """Lay ``/data`` over itself with more flags of a mount. What is below stays as it is: files on it are in use."""
    for place in PLACES:
        _check(libc.mount(place.encode(), place.encode(), None, ctypes.c_ulong(MS_BIND), None), f"bind {place}")
        flags = ctypes.c_ulong(MS_BIND | MS_REMOUNT | _flags(place) | more)
        _check(libc.mount(b"none", place.encode(), None, flags, None), f"remount {place}")


def _flags(place: str) -> int:
    """Flags of a place: nothing on the shared storage can be run (see :mod:`harness.virtual.adbd.storage`)."""
    return MS_NOSUID | MS_NODEV | (0 if place == PLACES[0] else MS_NOEXEC)


def cover_with_full_disk(left_bytes: int) -> None:
    """Lay a disk with ``left_bytes`` of room over ``/data``: all is seen as before, what is new has to fit there."""
    flags = ctypes.c_ulong(MS_NOSUID | MS_NODEV)
    room = _ROOM_BYTES + left_bytes
    _check(libc.mount(b"tmpfs", bytes(SMALL_DISK), b"tmpfs", flags, f"size={room},mode=755".encode()), "mount tmpfs")
    for number, place in enumerate(PLACES):
        upper, work = SMALL_DISK / f"upper{number}", SMALL_DISK / f"work{number}"
        upper.mkdir()
        work.mkdir()
        upper.chmod(Path(place).stat().st_mode & 0o7777)
        options = f"lowerdir={place},upperdir={upper},workdir={work},userxattr"
        own = ctypes.c_ulong(_flags(place))
        _check(libc.mount(b"overlay", place.encode(), b"overlay", own, options.encode()), f"overlay on {place}")
    _fill(SMALL_DISK / "filler", left_bytes)


def _fill(path: Path, left_bytes: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    written = 0
    try:
        while True:
            written += os.write(fd, bytes(_BLOCK))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    os.ftruncate(fd, max(0, written - left_bytes))
    os.close(fd)


def uncover(*more: str) -> None:
    """Take away what was laid over ``/data``, and what was written to it."""
    for place in reversed((*more, *PLACES)):
        _check(libc.umount2(place.encode(), MNT_DETACH), f"umount {place}")


def main(pid: int, action: str, left_bytes: int = 0) -> int:
    """Do one action in the phone of ``pid``."""
    try:
        enter(pid)
        if action == "full":
            cover_with_full_disk(left_bytes)
        elif action == "not-full":
            uncover(str(SMALL_DISK))
        elif action == "read-only":
            cover(MS_RDONLY)
        elif action == "noexec":
            cover(MS_NOEXEC)
        else:
            uncover()
    except OSError as error:
        sys.stderr.write(f"{error.strerror}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0))
