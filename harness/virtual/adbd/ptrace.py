"""The few calls of ``ptrace(2)`` that a crash handler needs. Requests from ``linux/ptrace.h``."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from dataclasses import dataclass

_CONT, _GETREGSET, _GETSIGINFO, _SEIZE, _LISTEN = 7, 0x4204, 0x4202, 0x4206, 0x4208
_FOLLOW_CHILDREN = 0x2 | 0x4 | 0x8  # PTRACE_O_TRACEFORK, TRACEVFORK, TRACECLONE
_NT_PRSTATUS = 1
WALL = 0x40000000
"""``waitpid`` for threads too."""
EVENT_STOP = 128

_X86_64 = ("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi",
           "orig_rax", "rip", "cs", "eflags", "rsp", "ss")  # fmt: skip
_X86_64_SHOWN = ("rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi",
                 "rbp", "rsp", "rip")  # fmt: skip
_ARM64 = (*(f"x{number}" for number in range(30)), "lr", "sp", "pc", "pst")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


class _Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


@dataclass(frozen=True)
class SignalInfo:
    """Part of a ``siginfo_t``: ``address`` for faults, ``pid`` and ``uid`` of the sender otherwise."""

    number: int
    code: int
    address: int
    pid: int
    uid: int


def _call(request: int, pid: int, address: int = 0, data: int = 0) -> None:
    if _libc.ptrace(request, pid, address, data) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def seize(pid: int) -> None:
    """Watch a process and all it will start, without stopping it.

    Raises:
        OSError: this kernel or its settings do not allow it.
    """
    _call(_SEIZE, pid, 0, _FOLLOW_CHILDREN)


def go_on(pid: int, signal_number: int = 0) -> None:
    """Let a stopped thread run, with a signal if one was about to be delivered.

    Raises:
        OSError: it is gone.
    """
    _call(_CONT, pid, 0, signal_number)


def stay_stopped(pid: int) -> None:
    """Leave a thread stopped by SIGSTOP and hear of its SIGCONT.

    Raises:
        OSError: it is gone.
    """
    _call(_LISTEN, pid)


def signal_info(pid: int) -> SignalInfo:
    """Return what is known of the signal that is about to be delivered.

    Raises:
        OSError: it is gone.
    """
    buffer = ctypes.create_string_buffer(128)
    _call(_GETSIGINFO, pid, 0, ctypes.addressof(buffer))
    number, _errno, code = struct.unpack_from("iii", buffer.raw)
    (address,) = struct.unpack_from("Q", buffer.raw, 16)
    sender, uid = struct.unpack_from("iI", buffer.raw, 16)
    return SignalInfo(number, code, address, sender, uid)


def registers(pid: int) -> dict[str, int]:
    """Return the shown registers by name; empty on a processor that is not known here.

    Raises:
        OSError: it is gone.
    """
    names = {"x86_64": _X86_64, "aarch64": _ARM64}.get(platform.machine())
    if names is None:
        return {}
    buffer = ctypes.create_string_buffer(1024)
    vector = _Iovec(ctypes.addressof(buffer), len(buffer))
    _call(_GETREGSET, pid, _NT_PRSTATUS, ctypes.addressof(vector))
    values = dict(zip(names, struct.unpack_from(f"{len(names)}Q", buffer.raw), strict=True))
    return {name: values[name] for name in _X86_64_SHOWN} if names is _X86_64 else values
