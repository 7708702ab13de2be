"""Readers of exit statuses, of tables, of records, and of what a file is."""

from __future__ import annotations

import json

import pytest

from harness.triage.entry import Entry, read_entry
from harness.triage.readers.benched import bench_rows
from harness.triage.readers.exits import read_exits
from harness.triage.readers.kind import kind_of
from harness.triage.readers.listing import listing_entries
from harness.triage.readers.record import event_entries, record_entries
from harness.triage.readers.tables import table_entries
from harness.triage.triage import Source, triage


def entries(text: str) -> list[Entry]:
    return [read_entry(line.encode(), "x", number, "text") for number, line in enumerate(text.splitlines(), 1)]


def shown(text: str) -> list[Entry]:
    """What the tables of a text show."""
    found = entries(text)
    return list(table_entries(found, bench_rows(found)))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("llm_bench exit code: 139", ["exit: status=139 signal=SIGSEGV"]),
        ("rc=137", ["exit: status=137 signal=SIGKILL"]),
        ("subprocess ended, returncode=-4", ["exit: status=-4 signal=SIGILL"]),
        ("# exit status: 126", ["exit: status=126"]),
        ("start failed, ret code: 126. try again", ["exit: status=126"]),
        ("Exited with code 139", ["exit: status=139 signal=SIGSEGV"]),
        ("Command '['./x']' died with <Signals.SIGBUS: 7>.", ["exit: status=135 signal=SIGBUS"]),
        (
            "process didn't exit successfully: `x` (signal: 4, SIGILL: illegal instruction)",
            ["exit: status=132 signal=SIGILL"],
        ),
        ("run failed: signal: illegal instruction (core dumped)", ["exit: status=132 signal=SIGILL"]),
        ("qemu: uncaught target signal 6 (Aborted) - core dumped", ["exit: status=134 signal=SIGABRT"]),
        ("Floating point exception (core dumped)", ["exit: status=136 signal=SIGFPE"]),
        ("took 1.5 s, rc=1.39, the signal: killed it is not", []),
        ("$ adb shell ./x; echo $?\n134", ["exit: status=134 signal=SIGABRT"]),
        (
            "$ adb shell ./x; echo $?\n/system/bin/sh: ./x: not found\n0",
            ["exit: lost: the command failed, its status is 0"],
        ),
        ("$ adb shell ls; echo $?\na\n0", []),
        ("exit code: 0\nprocess exited with 0\nexit 127\nreturn 139;", []),
    ],
)
def test_exit_statuses_are_told_as_signals(text: str, told: list[str]) -> None:
    assert [entry.text for entry in read_exits(entries(text))] == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "threads tok_per_s\n1 10\n2 20\n4 30\n5 0.3",
            "threads: cliff before=4 after=5 fast=30 slow=0.3 times=100 best=4",
        ),
        ("| threads | t/s |\n|---|---|\n| 8 | 1.0 |\n| 4 | 30 |\n| 2 | 18 |", "threads: cliff before=4 after=8"),
        (
            "with 1 thread: 9 tok/s\nwith 2 threads: 16 tok/s\nwith 8 threads: 1 tok/s",
            "threads: cliff before=2 after=8",
        ),
        ("threads,tps\n1,10\n4,30\n8,20", "threads: slower most=8 slow=20 best=4 best_speed=30"),
        ("threads tok/s\n1 10\n8 1", "threads: slower most=8 slow=1 best=1 best_speed=10 unit=tok/s"),
        (
            "Using 1 threads, time is 400 ms\nUsing 2 threads, time is 410 ms\nUsing 8 threads, time is 800 ms",
            "threads: slower most=8 slow=1.25 best=1 best_speed=2.5 unit=runs/s",
        ),
        ("numThread = 1时20ms；numThread = 4时50ms", "threads: slower most=4 slow=20 best=1"),
        ("default threads (8): eval time: 4.1 tokens per second\n-t 4: eval time: 8 t/s", "threads: slower most=8"),
        ("runs | memory\n1 | 8 MB\n5 | 150 MB\n9 | 190 MB\n20 | 600 MB", "memory: grows first=8 last=600 runs=4"),
        ("threads avg_ms\n1 20\n4 40", "threads: slower most=4 slow=25 best=1 best_speed=50 unit=runs/s"),
        ("minute median_ms thermal_status\n1 200 0\n5 240 1\n10 300 2\n20 400 3", "decay: from=5 to=2.5 left=50%"),
        ("run tok/s\n1 20\n2 19\n3 12\n4 10", "series: slower first=20 last=10 times=2.0 count=4"),
        (
            "minute zone_c tok/s\n1 36 20\n5 41 15\n9 46 11\n20 49 10",
            "decay: from=20 to=10 left=50% heat_from=36 heat_to=49",
        ),
        (
            "run cpu_mhz tps\n1 2800 20\n2 2800 19\n3 1800 12\n4 1500 10",
            "decay: from=20 to=10 left=50% clock_from=2800",
        ),
    ],
)
def test_tables_of_people_show_cliffs_and_decay(text: str, told: str) -> None:
    assert [entry.text[: len(told)] for entry in shown(text)] == [told]


def test_rows_of_llm_bench_that_differ_in_threads_are_a_table() -> None:
    head = "| model | modelSize | backend | threads | precision | test | t/s |\n" + "| --- " * 7 + "|\n"
    rows = "".join(
        f"| m | 1.20 GiB | CPU | {threads} | Low | tg64 | {speed} ± 0.10 |\n"
        for threads, speed in ((8, "0.90"), (6, "1.20"), (4, "24.00"), (2, "15.00"))
    )
    (entry,) = shown(head + rows)
    assert entry.text.startswith("threads: cliff before=4 after=6 fast=24 slow=1.2 times=20 best=4")
    assert [one.line for one in entry.evidence] == [3, 4, 5, 6]


@pytest.mark.parametrize(
    "text",
    [
        "threads tok/s\n1 10\n2 18\n4 30\n8 29",
        "run temp tok/s\n1 36 20\n2 37 20\n3 38 19\n4 39 20",
        "name speed\nred fast\nblue slow",
        "1 2 3\n4 5 6",
        "a 0.6B model, 2 threads: 50 tok/s\nx\ny\nz\na 4B model, 8 threads: 10 tok/s",
        "runs memory\n1 600\n5 610\n9 600\n20 620",
    ],
)
def test_tables_in_which_nothing_is_wrong_tell_nothing(text: str) -> None:
    assert shown(text) == []


def test_a_record_tells_its_verdict_and_each_line_of_its_detail() -> None:
    told = {"record": "cell", "verdict": "failed", "reason": "crash", "fault": "product", "detail": "SIGSEGV\nsecond"}
    lines = [
        entry.text for entry in record_entries(json.dumps({**told, "config": {"backend": "opencl"}}).encode(), "r", 4)
    ]
    assert lines == [
        "SIGSEGV",
        "second",
        "record: asked backend=opencl threads=None precision=None",
        "record: verdict=failed reason=crash fault=product detail=[SIGSEGV\ufffdsecond]",
    ]


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[1]", b'{"record":"cell","verdict":"ok"}', b'{"record":"run"}', b"[" * 9000]
)
def test_other_lines_of_a_run_folder_tell_nothing(raw: bytes) -> None:
    assert list(record_entries(raw, "r", 1)) == []


def test_an_error_event_of_our_runner_is_read_as_its_message() -> None:
    raw = json.dumps({"event": "error", "stage": "load", "message": "one\ntwo"}).encode()
    assert [(entry.text, entry.line) for entry in event_entries(raw, "stdout", 3)] == [
        ("one", 3),
        ("two", 3),
        ("runner: stage=load message=[one\ufffdtwo]", 3),
    ]
    assert list(event_entries(b'{"event": "error"', "stdout", 3)) == []
    assert list(event_entries(b'{"event": "load"}', "stdout", 3)) == []


@pytest.mark.parametrize(
    ("reason", "rule"),
    [
        ("device_offline", "adb_offline"),
        ("unauthorized", "adb_unauthorized"),
        ("no_space", "no_space"),
        ("noexec", "exec_denied"),
        ("abi_mismatch", "wrong_abi"),
        ("illegal_instruction", "sigill"),
        ("out_of_memory", "killed_word"),
        ("thermal_shutdown", "thermal_shutdown"),
        ("load_error", "llm_load_error"),
        ("gpu_driver_error", "opencl_error"),
        ("link_error", "unsatisfied_link"),
        ("hang", "recorded"),
    ],
)
def test_a_records_reason_is_told_by_the_rule_for_it(reason: str, rule: str) -> None:
    record = {"record": "cell", "verdict": "failed", "reason": reason, "fault": "product", "detail": "see raw"}
    told = triage([Source.of_text("results.jsonl", json.dumps(record) + "\n")])
    assert [finding.rule for finding in told] == [rule]


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"05-05 10:00:00.100  8200  8200 I tag: x\n", "logcat"),
        (b"--------- beginning of main\nI/tag ( 12): x\nI/MNNJNI ( 12): y\nI/libc ( 3): z\n", "logcat"),
        (b"<6>[   12.123456] usb: x\n[   13.123456] y\n", "dmesg"),
        (b"*** *** *** *** *** ***\nBuild fingerprint: 'x'\n", "tombstone"),
        (b"List of devices attached\n", "adb"),
        (b"===== test session starts =====\n", "pytest"),
        (b'{"schema":1,"record":"cell"}\n', "record"),
        (b"[ro.product.model]: [x]\n", "facts"),
        (b"config path is x\nhello\n", "text"),
        (b"", "text"),
    ],
)
def test_what_a_file_is_is_told_by_its_beginning(head: bytes, kind: str) -> None:
    assert kind_of(head) == kind


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("List of devices attached\n\n", ["adb: none listed"]),
        ("List of devices attached\n* daemon started successfully\n\nqa@host:~$ adb version", ["adb: none listed"]),
        ("List of devices attached\n* daemon started successfully\nA1\tdevice\n\n", []),
        ("List of devices attached\n4f2a\tno permissions (missing udev rules?)\n", []),
        (
            "[10:00:01] [STDOUT] stdout: List of devices attached\n[10:00:01] [STDOUT] stdout: A1   offline usb:1-2\n",
            [],
        ),
        ("List of devices attached\nA1\tdevice\nA2\tdevice\nA1\toffline\n", ["adb: listed twice: A1"]),
        ("List of devices attached\n????????????\tno permissions\n????????????\tno permissions\n", []),
        (
            "$ docker exec farm adb devices\nList of devices attached\n\n"
            "$ adb devices\nList of devices attached\nA1\tdevice\n",
            ["adb: listed elsewhere: A1"],
        ),
        ("$ adb devices\nList of devices attached\n\n$ adb devices\nList of devices attached\nA1\tdevice\n", []),
    ],
)
def test_lists_of_phones_tell_when_they_are_empty_ambiguous_or_differ(text: str, told: list[str]) -> None:
    assert [entry.text for entry in listing_entries(entries(text))] == told


LOST = "exit: lost: the command failed, its status is 0"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("$ adb shell ls /nowhere\nls: /nowhere: No such file or directory\n$ echo $?\n0", [LOST]),
        ("$ adb shell ls /nowhere\nls: /nowhere: No such file or directory\n$ echo $?\n1", ["exit: status=1"]),
        ("$ adb shell 'exit 3'; echo $?\n0", [LOST]),
        ("$ adb shell exit 0; echo $?\n0", []),
        (
            "$ adb shell test -d /x; echo $?\n0\nshell@hero:/ $ test -d /x; echo $?\n1",
            ["exit: status=1", LOST],
        ),
        ("$ adb shell test -d /x; echo $?\n0\nshell@hero:/ $ test -d /y; echo $?\n1", ["exit: status=1"]),
        ("$ adb shell ./x\nsh: ./x: not found\n$ ls\na\n$ echo $?\n0", []),
        ("$ cp a b\nerror: no\n$ echo $?\n0", []),
        ("$ ./x\n/system/bin/sh: ./x: not found\n" + "a\n" * 8 + "$ adb shell ls; echo $?\n0", []),
        ("Error: Process completed with exit code 137.", ["exit: status=137 signal=SIGKILL"]),
        ("CalledProcessError: Command 'x' returned non-zero exit status 126.", ["exit: status=126"]),
    ],
)
def test_a_status_that_is_echoed_is_held_against_what_the_command_said(text: str, told: list[str]) -> None:
    assert [entry.text for entry in read_exits(entries(text))] == told


@pytest.mark.parametrize(
    ("line", "text", "kind"),
    [
        (b"2026-10-01T10:00:01.4642919Z adb: device offline", "adb: device offline", "text"),
        (b"[2026-10-01T10:00:01.464Z] - waiting for device -", "- waiting for device -", "text"),
        (b"2026-10-01T10:00:01.4642919Z I/DEBUG   (  77): pid: 1", "pid: 1", "logcat"),
    ],
)
def test_the_time_that_a_ci_puts_before_a_line_is_left_out(line: bytes, text: str, kind: str) -> None:
    entry = read_entry(line, "x", 1, "text")
    assert (entry.text, entry.kind) == (text, kind)
