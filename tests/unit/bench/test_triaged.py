"""What the logs of a cell that went wrong say about why."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

from harness.bench.triaged import texts_of, triaged

LINKER = b'CANNOT LINK EXECUTABLE "./farm_runner": library "libc++_shared.so" not found: needed by main executable\n'
CRASH = """\
11-30 10:00:01.000  {pid}  {pid} F libc    : Fatal signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x0
11-30 10:00:01.200  9900  9900 F DEBUG   : pid: {pid}, tid: {pid}, name: farm_runner  >>> farm_runner <<<
11-30 10:00:01.200  9900  9900 F DEBUG   : signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x0
11-30 10:00:01.201  9900  9900 F DEBUG   :       #00 pc 00000000000a1b2c  /vendor/lib64/libOpenCL_adreno.so
"""
OURS, THEIRS = 7, 4242


def test_what_the_linker_said_is_a_cause_with_what_to_do(make: ModuleType) -> None:
    [found] = triaged(texts_of(make.evidence(b"", stderr=LINKER)))
    assert (found.code, found.severity) == ("missing_shared_library", "info")
    assert "libc++_shared.so" in found.title
    assert found.evidence.startswith("stderr: CANNOT LINK EXECUTABLE")
    assert "NDK" in found.cause
    assert "LD_LIBRARY_PATH" in found.advice


def test_a_crash_in_the_phones_log_counts_where_it_is_ours(make: ModuleType) -> None:
    evidence = make.evidence(b"")
    assert evidence.pids == {OURS}
    [found] = triaged(texts_of(replace(evidence, phone_log=CRASH.format(pid=OURS).encode())))
    assert "libOpenCL_adreno.so" in found.evidence
    assert triaged(texts_of(replace(evidence, phone_log=CRASH.format(pid=THEIRS).encode()))) == ()


def test_logs_of_which_nothing_is_known_show_no_cause(make: ModuleType) -> None:
    assert triaged(texts_of(make.evidence(b"", stderr=b"all is well\n"))) == ()
