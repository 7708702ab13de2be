"""The text of a native crash as ``debuggerd`` writes it, by Android release. Pure.

Format strings: AOSP ``debuggerd/libdebuggerd/tombstone_proto_to_text.cpp``; which line came with which release is said
at each. The one frame of the backtrace is where the program counter really was.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

STARS = "*** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***"
_CODES = {
    4: {1: "ILL_ILLOPC", 2: "ILL_ILLOPN", 3: "ILL_ILLADR", 4: "ILL_ILLTRP", 5: "ILL_PRVOPC"},
    5: {1: "TRAP_BRKPT", 2: "TRAP_TRACE"},
    7: {1: "BUS_ADRALN", 2: "BUS_ADRERR", 3: "BUS_OBJERR"},
    8: {1: "FPE_INTDIV", 2: "FPE_INTOVF", 3: "FPE_FLTDIV"},
    11: {1: "SEGV_MAPERR", 2: "SEGV_ACCERR", 3: "SEGV_BNDERR", 4: "SEGV_PKUERR"},
    31: {1: "SYS_SECCOMP"},
}
_ANY_CODES = {0: "SI_USER", -1: "SI_QUEUE", -6: "SI_TKILL", 0x80: "SI_KERNEL"}
WITH_ADDRESS = (4, 7, 8, 11)


@dataclass(frozen=True)
class Frame:
    """Where the program counter was: ``offset`` counts from the start of the mapped file."""

    offset: int
    path: str


@dataclass(frozen=True)
class Crash:
    """One crash. ``name`` is the thread's, ``process`` and ``command`` what the process was called with."""

    pid: int
    tid: int
    uid: int
    name: str
    process: str
    command: str
    executable: str
    signal: int
    code: int
    address: int
    sender_pid: int
    sender_uid: int
    uptime_s: int
    registers: dict[str, int]
    frame: Frame | None


@dataclass(frozen=True)
class Phone:
    """What the block says of the phone."""

    sdk: int
    fingerprint: str
    abi: str
    kernel: str
    page_size: int


def signal_name(number: int) -> str:
    """Return ``SIGSEGV`` for 11."""
    return signal.Signals(number).name


def code_name(number: int, code: int) -> str:
    """Return what ``si_code`` means."""
    return _CODES.get(number, {}).get(code) or _ANY_CODES.get(code, "?")


def has_address(crash: Crash) -> bool:
    """Whether the kernel named an address: it does not for a signal that somebody sent."""
    return crash.signal in WITH_ADDRESS and crash.code > 0 and crash.code != 0x80


def fatal_line(crash: Crash) -> str:
    """Return what the C library writes at once, under the tag ``libc``."""
    where = f", fault addr 0x{crash.address:x}" if has_address(crash) else ""
    name = crash.process.rpartition("/")[2][:15]
    return (
        f"Fatal signal {crash.signal} ({signal_name(crash.signal)}), code {crash.code} "
        f"({code_name(crash.signal, crash.code)}{_sender(crash)}){where} in tid {crash.tid} ({crash.name}), "
        f"pid {crash.pid} ({name})"
    )


def _sender(crash: Crash) -> str:
    return "" if crash.code > 0 else f" from pid {crash.sender_pid}, uid {crash.sender_uid}"


def block(crash: Crash, phone: Phone, timestamp: str) -> list[str]:
    """Return the lines of the crash block, the row of stars first.

    Args:
        crash: what happened.
        phone: where.
        timestamp: as ``2026-01-02 03:04:05.123456789+0000``.
    """
    sdk = phone.sdk
    lines = [STARS, f"Build fingerprint: '{phone.fingerprint}'"]
    if sdk >= 36:
        lines.append(f"Kernel Release: '{phone.kernel}'")
    lines += ["Revision: '0'", f"ABI: '{phone.abi}'"]
    if sdk >= 28:
        lines.append(f"Timestamp: {timestamp if sdk >= 31 else timestamp[:19] + timestamp[-5:]}")
    if sdk >= 31:
        lines.append(f"Process uptime: {crash.uptime_s}s")
    if sdk >= 35:
        lines.append(f"Page size: {phone.page_size} bytes")
    if sdk >= 36:
        lines.append(f"Executable: {crash.executable}")
    if sdk >= 31:
        lines.append(f"Cmdline: {crash.command}")
    lines.append(f"pid: {crash.pid}, tid: {crash.tid}, name: {crash.name}  >>> {crash.process} <<<")
    if sdk >= 29:
        lines.append(f"uid: {crash.uid}")
    digits = 16 if "64" in phone.abi else 8
    address = f"0x{crash.address:0{digits if sdk >= 31 and crash.address else 1}x}" if has_address(crash) else "-" * 8
    lines.append(
        f"signal {crash.signal} ({signal_name(crash.signal)}), code {crash.code} "
        f"({code_name(crash.signal, crash.code)}{_sender(crash) if sdk >= 31 else ''}), fault addr {address}"
    )
    if crash.signal == signal.SIGSEGV and has_address(crash) and crash.address < 4096:
        lines.append("Cause: null pointer dereference")
    return [*lines, *_registers(crash), *_backtrace(crash, sdk)]


def _registers(crash: Crash) -> list[str]:
    items = [f"{name:<3} {value:016x}" for name, value in crash.registers.items()]
    return ["    " + "  ".join(items[start : start + 4]) for start in range(0, len(items), 4)]


def _backtrace(crash: Crash, sdk: int) -> list[str]:
    if crash.frame is None:
        return []
    indent = "    " if sdk < 28 else "      "
    head = [f"{1} total frames", "backtrace:"] if sdk >= 34 else ["", "backtrace:"]
    if sdk >= 29 and crash.frame.path.startswith("/data/local/tmp/"):
        head += [
            "  NOTE: Function names and BuildId information is missing for some frames due",
            "  NOTE: to unreadable libraries. For unwinds of apps, only shared libraries",
            "  NOTE: found under the lib/ directory are readable.",
            "  NOTE: Unreadable libraries:",
            f"  NOTE:   {crash.frame.path}",
        ]
    return [*head, f"{indent}#00 pc {crash.frame.offset:016x}  {crash.frame.path}"]
