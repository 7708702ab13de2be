"""Runs a program in namespaces of its own, as bubblewrap would. Started as a script, with the plan as JSON argument.

Standard library only. Steps as in ``namespaces(7)`` and ``pivot_root(2)``: new user, mount, pid, ipc, uts and network
namespaces, a new root on a tmpfs, capabilities lost by exec as a user other than 0.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import platform
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Any

CLONE_ALL = 0x10000000 | 0x00020000 | 0x20000000 | 0x08000000 | 0x04000000 | 0x40000000  # user mnt pid ipc uts net
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_REC, MS_PRIVATE, MS_RELATIME = 1024, 2048, 4096, 16384, 1 << 18, 1 << 21
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "armv7l": 218, "i686": 217}
# Of procfs; a process that is root outside could write them even without capabilities.
PROC_COVERED = ("sys", "sysrq-trigger", "irq", "bus")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_KEPT = {os.ST_NOSUID: MS_NOSUID, os.ST_NODEV: MS_NODEV, os.ST_NOEXEC: MS_NOEXEC, os.ST_RELATIME: MS_RELATIME,
         os.ST_NOATIME: MS_NOATIME, os.ST_NODIRATIME: MS_NODIRATIME}  # fmt: skip

libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _mount(source: str, target: Path, kind: str | None, flags: int, data: str | None = None) -> None:
    code = libc.mount(
        source.encode(), os.fsencode(target), kind.encode() if kind else None, ctypes.c_ulong(flags),
        data.encode() if data else None,
    )  # fmt: skip
    _check(code, f"mount {target}")


def _end_with_parent(parent: int) -> None:
    _check(libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0), "prctl")
    if os.getppid() != parent:
        os._exit(1)


def _map_user(uid: int, outer_uid: int, outer_gid: int) -> None:
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {outer_uid} 1")
    Path("/proc/self/gid_map").write_text(f"{uid} {outer_gid} 1")


def _loopback_up() -> None:
    siocgifflags, siocsifflags, iff_up = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh22x", b"lo", 0)
        name, flags = struct.unpack("16sh22x", fcntl.ioctl(control, siocgifflags, request))
        fcntl.ioctl(control, siocsifflags, struct.pack("16sh22x", name, flags | iff_up))


def _bind(source: str, target: Path, *, writable: bool) -> None:
    if Path(source).is_dir():
        target.mkdir(parents=True, exist_ok=True)
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount(source, target, None, MS_BIND | MS_REC)
    # Flags that the outer mount has must be kept, or the kernel refuses.
    has = os.statvfs(target).f_flag
    flags = sum(mount_flag for flag, mount_flag in _KEPT.items() if has & flag) | MS_NOSUID | MS_NODEV
    if not writable:
        flags |= MS_RDONLY
    _mount("none", target, None, MS_BIND | MS_REMOUNT | flags)


def _make_devices(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    _mount("tmpfs", target, "tmpfs", MS_NOSUID, "mode=755")
    for name in DEVICES:
        (target / name).touch()
        _mount(f"/dev/{name}", target / name, None, MS_BIND)
    (target / "shm").mkdir()
    (target / "shm").chmod(0o1777)
    (target / "pts").mkdir()
    _mount("devpts", target / "pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
    for name, leads_to in {
        "ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
        "stderr": "/proc/self/fd/2",
    }.items():  # fmt: skip
        (target / name).symlink_to(leads_to)


def _make_proc(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    _mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    for name in PROC_COVERED:
        if (target / name).exists():
            _bind(str(target / name), target / name, writable=False)


def _build_root(root: Path, mounts: list[dict[str, str]]) -> None:
    """Mount everything under ``root`` and make it ``/``."""
    _mount("none", Path("/"), None, MS_REC | MS_PRIVATE)
    _mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    for mount in mounts:
        target = root / mount["place"].lstrip("/")
        what = mount["what"]
        if what in ("bind", "ro-bind"):
            _bind(mount["source"], target, writable=what == "bind")
        elif what == "symlink":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(mount["source"])
        elif what == "dir":
            target.mkdir(parents=True, exist_ok=True)
        elif what == "proc":
            _make_proc(target)
        elif what == "dev":
            _make_devices(target)
    os.chdir(root)
    _check(libc.syscall(ctypes.c_long(PIVOT_ROOT[platform.machine()]), b".", b"."), "pivot_root")
    _check(libc.umount2(b".", MNT_DETACH), "umount")
    os.chdir("/")
    _mount("none", Path("/"), None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)


def _run_inside(plan: dict[str, Any]) -> None:
    """As process 1 of the new pid namespace: make the view and become the program."""
    os.setsid()
    socket.sethostname(plan["hostname"])
    _loopback_up()
    _build_root(Path("/sys"), plan["mounts"])  # nothing that is mounted comes from there
    _check(libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0), "prctl")
    os.execve(plan["argv"][0], plan["argv"], plan["environment"])  # noqa: S606


def main(plan: dict[str, Any]) -> int:
    """Run ``plan`` and return its exit code."""
    _end_with_parent(os.getppid())
    outer_uid, outer_gid, own_pid = os.geteuid(), os.getegid(), os.getpid()
    os.umask(0o022)
    _check(libc.unshare(CLONE_ALL), "unshare")
    _map_user(plan["uid"], outer_uid, outer_gid)
    alive, watched = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            # getppid() says 0 here: the parent is outside. It is alive if it still holds its end of the pipe.
            os.close(watched)
            os.set_blocking(alive, False)
            _check(libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0), "prctl")
            _still_held(alive, own_pid)
            _run_inside(plan)
        except OSError as error:
            sys.stderr.write(f"{error}\n")
        finally:
            os._exit(1)
    _pid, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _still_held(alive: int, parent: int) -> None:
    try:
        os.read(alive, 1)
    except BlockingIOError:
        return
    raise ProcessLookupError(f"the parent {parent} is gone")


if __name__ == "__main__":
    try:
        sys.exit(main(json.loads(sys.argv[1])))
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)
