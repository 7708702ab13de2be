from __future__ import annotations

import dataclasses

import pytest

from harness.virtual.adbd.crashtext import Crash, Frame, Phone, block, fatal_line

CRASH = Crash(
    pid=2211, tid=2215, uid=2000, name="worker", process="./runner", command="./runner --model m",
    executable="/data/local/tmp/runner", signal=11, code=1, address=0x7F00DEAD0010, sender_pid=0, sender_uid=0,
    uptime_s=3, registers={"rax": 1, "rip": 0x55AA00001234}, frame=Frame(0x1234, "/data/local/tmp/runner"),
)  # fmt: skip
SENT = dataclasses.replace(CRASH, signal=6, code=0, sender_pid=77, sender_uid=2000)
STAMP = "2026-03-04 05:06:07.123456789+0100"


def phone(sdk: int) -> Phone:
    return Phone(sdk, "b/p/d:1/I/1:user/release-keys", "x86_64", "6.1.0", 4096)


def keys(sdk: int) -> list[str]:
    return [line.split(":")[0] for line in block(CRASH, phone(sdk), STAMP) if ": " in line and not line.startswith(" ")]


def test_the_header_grew_with_the_releases() -> None:
    common = ["Build fingerprint", "Revision", "ABI"]
    assert keys(26) == [*common, "pid"]
    assert keys(29) == [*common, "Timestamp", "pid", "uid"]
    assert keys(31) == [*common, "Timestamp", "Process uptime", "Cmdline", "pid", "uid"]
    assert keys(36) == [
        "Build fingerprint", "Kernel Release", "Revision", "ABI", "Timestamp", "Process uptime", "Page size",
        "Executable", "Cmdline", "pid", "uid",
    ]  # fmt: skip


def test_process_signal_and_address_are_named() -> None:
    lines = block(CRASH, phone(34), STAMP)
    assert lines[0] == "*** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***"
    assert "pid: 2211, tid: 2215, name: worker  >>> ./runner <<<" in lines
    assert "signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x00007f00dead0010" in lines
    assert "    rax 0000000000000001  rip 000055aa00001234" in lines
    assert lines[-1] == "      #00 pc 0000000000001234  /data/local/tmp/runner"
    assert "1 total frames" in lines


def test_a_signal_that_was_sent_has_a_sender_and_no_address() -> None:
    assert "signal 6 (SIGABRT), code 0 (SI_USER from pid 77, uid 2000), fault addr --------" in block(
        SENT, phone(34), STAMP
    )
    assert fatal_line(SENT) == (
        "Fatal signal 6 (SIGABRT), code 0 (SI_USER from pid 77, uid 2000) in tid 2215 (worker), pid 2211 (runner)"
    )


def test_the_first_line_comes_from_the_c_library() -> None:
    assert fatal_line(CRASH) == (
        "Fatal signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x7f00dead0010 "
        "in tid 2215 (worker), pid 2211 (runner)"
    )


@pytest.mark.parametrize(("sdk", "stamp"), [(29, "2026-03-04 05:06:07+0100"), (34, STAMP)])
def test_time_stamps_got_finer_with_android_12(sdk: int, stamp: str) -> None:
    assert f"Timestamp: {stamp}" in block(CRASH, phone(sdk), STAMP)


def test_the_frame_of_an_unreadable_program_is_explained() -> None:
    lines = block(CRASH, phone(34), STAMP)
    assert lines[-2] == "  NOTE:   /data/local/tmp/runner"
    system = dataclasses.replace(CRASH, frame=Frame(0x10, "/system/bin/sh"))
    assert not [line for line in block(system, phone(34), STAMP) if "NOTE" in line]


def test_a_null_pointer_is_called_one() -> None:
    null = dataclasses.replace(CRASH, address=0x10)
    assert "Cause: null pointer dereference" in block(null, phone(34), STAMP)
    assert "Cause: null pointer dereference" not in block(CRASH, phone(34), STAMP)
