from __future__ import annotations

from typing import Any, cast

import pytest

from harness.bench.phone_log import (
    LogReader,
    PhoneLog,
    engine_lines,
    killed_apps,
    memory_kill,
    since,
    worth_keeping,
    writer_of,
)
from harness.core.errors import DeadlineError, PhoneLostError
from harness.core.kept import LEFT_OUT
from harness.core.transport import ShellResult

LINES = {
    "Android 14": b"06-01 10:00:00.123   411   411 I lowmemorykiller: Kill 'farm_runner' (4711), uid 2000, "
    b"oom_score_adj 0 to free 2400000kB rss, 2300000kB anon rss, 0kB swap; reason: low watermark is breached",
    "Android 8": b"06-01 10:00:00.123     0     0 I lowmemorykiller: Killing 'farm_runner' (4711), adj 0,",
    "brief": b"I/lowmemorykiller(  411): Killing 'farm_runner' (4711), adj 0,",
    "kernel": b"[ 312.004] Out of memory: Killed process 4711 (farm_runner) total-vm:9000000kB",
    "old kernel": b"[ 312.004] Out of memory: Kill process 4711 (farm_runner) score 900 or sacrifice child",
    "cgroup": b"[ 312.004] Memory cgroup out of memory: Killed process 4711 (farm_runner) total-vm:90kB",
}
OLD = b"06-01 09:59:58.000     1     1 I other   : long ago\n"
MARK = b"06-01 09:59:59.500    12    12 I other   : the newest line\n"
NEW = b"06-01 10:00:07.000    12    12 I other   : meanwhile\n"


@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_a_kill_for_want_of_memory_is_found_in_every_androids_words(line: bytes) -> None:
    log = b"06-01 10:00:00.100   1   1 I other: noise\n" + line + b"\r\n06-01 10:00:01.000   1   1 I other: more\n"
    assert memory_kill(log, 4711) == line.decode()
    assert memory_kill(log, 471) is None
    assert memory_kill(log, 47110) is None
    assert [(kill.pid, kill.name) for kill in killed_apps(log, {1})] == [(4711, "farm_runner")]
    assert killed_apps(log, {4711}) == ()


def test_a_log_of_odd_bytes_is_read_too() -> None:
    assert memory_kill(b"\xff\xfe\n" + LINES["kernel"] + b"\xff\n", 4711) == LINES["kernel"].decode() + "\ufffd"
    assert memory_kill(b"", 1) is None
    assert engine_lines(b"\xff\n06-01 10:00:00.100 7 7 E MNNJNI : \xff!\n", {7}) == b"\xff!"


def test_an_app_that_was_killed_twice_over_is_one_and_apps_that_were_closed_are_none() -> None:
    log = LINES["Android 14"] + b"\n" + LINES["kernel"] + b"\n"
    log += b"06-01 10:00:02.000  1500  1610 I ActivityManager: Killing 9:com.a/u0a1 (adj 905): empty #17\n"
    log += LINES["Android 14"].replace(b"4711", b"80").replace(b"farm_runner", b"com.example.mail") + b"\n"
    assert [(kill.pid, kill.name) for kill in killed_apps(log, ())] == [(4711, "farm_runner"), (80, "com.example.mail")]


@pytest.mark.parametrize(
    "line",
    [
        b"06-01 10:00:00.100  4711  4720 E MNNJNI  : Can't Find type=3 backend, use 0 instead",
        b"2026-06-01 10:00:00.100123  4711  4720 E MNNJNI: Can't Find type=3 backend, use 0 instead",
        b"06-01 10:00:00.100 +0200 shell 4711  4720 E MNNJNI  : Can't Find type=3 backend, use 0 instead",
        b"06-01 10:00:00.100 E/MNNJNI  ( 4711): Can't Find type=3 backend, use 0 instead",
        b"E/MNN_DEBUG( 4711): Can't Find type=3 backend, use 0 instead",
    ],
)
def test_the_engines_words_are_found_in_every_format_of_the_log(line: bytes) -> None:
    log = b"--------- beginning of main\r\n" + line + b"\r\n"
    assert engine_lines(log, {4711}) == b"Can't Find type=3 backend, use 0 instead"
    assert engine_lines(log, {4720}) == b"", "4720 is a thread, or nobody"


def test_another_process_or_another_tag_is_not_the_engine() -> None:
    log = b"06-01 10:00:00.100  900  900 E MNNJNI  : another app's\n06-01 10:00:00.100  7  7 E linker  : no\n"
    assert engine_lines(log, {7}) == b""
    assert worth_keeping(OLD + log, {7}) == b"06-01 10:00:00.100  7  7 E linker  : no\n"


def test_a_log_is_cut_after_the_newest_line_from_before_the_run() -> None:
    assert since(OLD + MARK + NEW, MARK) == (NEW, False)
    assert since(OLD + MARK.replace(b"\n", b"\r\n") + NEW, MARK) == (NEW, False)
    assert since(OLD + NEW, MARK) == (NEW, True), "the line itself is gone: the log had rolled over"
    assert since(OLD, MARK) == (b"", True)
    assert since(OLD, b"") == (OLD, False), "it was empty before"


def test_lines_of_a_clock_that_was_set_back_or_of_a_new_year_are_of_the_run_too() -> None:
    assert since(OLD + MARK + NEW + OLD, MARK) == (NEW + OLD, False)
    eve, later, year = (
        b"%s     1     1 I other: x\n" % stamp
        for stamp in (b"12-31 23:59:59.000", b"12-31 23:59:59.900", b"01-01 00:00:01.000")
    )
    assert since(later + year, eve) == (later + year, True)
    assert since(year, eve) == (year, True)


class Phone:
    name = "toy-1"

    def __init__(self, *answers: ShellResult | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []

    def shell(self, argv: list[str], **_: object) -> ShellResult:
        self.asked.append(argv[argv.index("threadtime") + 1 :])
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def said(stdout: bytes) -> ShellResult:
    return ShellResult(0, stdout, b"")


REFUSED = ShellResult(1, b"", b"Unable to open log device")


def read(sdk: int, *answers: ShellResult | Exception) -> tuple[PhoneLog, list[list[str]]]:
    phone = Phone(*answers)
    reader = LogReader(cast("Any", phone), sdk)
    reader.begin()
    return reader.read(), phone.asked


def test_the_log_is_read_from_its_newest_line_before_the_run() -> None:
    log, asked = read(34, said(b"--------- beginning of main\n" + MARK), said(MARK + NEW))
    assert log == PhoneLog(NEW, "", mark=MARK.rstrip())
    assert asked == [["-b", "all", "-t", "8"], ["-b", "all", "-t", "06-01 09:59:59.500"]]


def test_old_phones_know_neither_all_buffers_nor_times_nor_show_the_kernels_log() -> None:
    log, asked = read(19, REFUSED, said(MARK), REFUSED, said(OLD + MARK + NEW))
    assert log.lines == NEW
    assert log.gap == "before Android 9 the kernel's log tells it, which this phone does not show"
    assert asked == [["-b", "all", "-t", "8"], ["-t", "8"], ["-t", "06-01 09:59:59.500"], ["-t", "3000"]]


def test_an_old_phone_that_shows_the_kernels_log_tells_its_kills() -> None:
    assert read(26, said(MARK), said(MARK + b"--------- beginning of kernel\n"))[0].gap == ""


@pytest.mark.parametrize("answer", [PhoneLostError("toy-1", "gone"), ShellResult(1, b"junk", b"")])
def test_a_phone_that_gives_no_log_costs_nothing_but_the_log(answer: Any) -> None:
    phone = Phone(answer, answer, answer, answer)
    reader = LogReader(cast("Any", phone), 34)
    reader.begin()
    assert reader.read() == PhoneLog(b"", "the phone's log was not read")


def test_a_log_that_is_too_long_to_be_kept_or_read_whole_proves_nothing_by_what_it_lacks() -> None:
    log, _ = read(34, said(MARK), said(MARK + NEW + LEFT_OUT + NEW))
    assert log.lines == NEW + LEFT_OUT + NEW
    assert (log.gap, log.rolled) == ("the phone's log had more than 24 MiB, and its middle was left out", False)
    log, asked = read(34, said(MARK), DeadlineError("toy-1", "reading the phone's log", 20), said(NEW))
    assert (log.lines, log.gap) == (NEW, "the phone's log was not read whole within 20 s")
    assert asked[-1] == ["-b", "all", "-t", "3000"], "its newest lines are worth most"


def test_a_log_whose_begin_is_not_known_is_evidence_of_our_own_process_only() -> None:
    log, _ = read(34, PhoneLostError("toy-1", "gone"), said(OLD + NEW))
    assert log == PhoneLog(OLD + NEW, "where the run begins in the phone's log is not known")


class Signing(Phone):
    """A phone with a `log`: its lines come back in the answers, where these have a place for them."""

    def shell(self, argv: list[str], **how: object) -> ShellResult:
        result = super().shell(argv, **how)
        if argv[0] == "sh":
            assert "log -p i -t mnn-farm " in argv[2]
            self.written = getattr(self, "written", b"") + ours(argv[4])
        return ShellResult(0, result.stdout.replace(b"OURS\n", getattr(self, "written", b"")), b"")


def ours(text: str) -> bytes:
    return f"06-01 10:00:00.000  4000  4000 I mnn-farm: {text}\n".encode()


def test_where_the_phone_has_a_log_the_run_is_what_stands_between_our_own_lines() -> None:
    phone = Signing(said(OLD + MARK + b"OURS\n"), said(MARK + NEW + b"OURS\n"))
    reader = LogReader(cast("Any", phone), 34)
    reader.begin()
    log = reader.read(sign=True)
    begin, end = phone.written.splitlines()
    assert (log.signed, log.ended, log.rolled, log.gap) == (True, True, False, "")
    assert (log.mark, log.lines) == (begin, end + b"\n"), "what came before our line is not of the run"


def test_that_our_line_is_gone_again_shows_that_the_log_went_round() -> None:
    phone = Signing(said(MARK + b"OURS\n"), said(NEW))
    reader = LogReader(cast("Any", phone), 34)
    reader.begin()
    log = reader.read()
    assert (log.signed, log.rolled, log.ended, log.lines) == (True, True, False, NEW)
    assert log.gap == "the phone's log was full and had lost the run's begin"


def test_a_log_that_does_not_show_our_line_is_read_from_its_newest_one() -> None:
    phone = Signing(said(MARK), said(MARK + NEW))
    reader = LogReader(cast("Any", phone), 34)
    reader.begin()
    log = reader.read(sign=True)
    assert (log.signed, log.rolled, log.mark, log.lines) == (False, False, MARK.rstrip(), NEW)


class Telling(Signing):
    """Tells the time with each line of ours, as phones do; ``ours`` of the log's lines are its answers, too."""

    def __init__(self, time: bytes, *answers: ShellResult | Exception) -> None:
        super().__init__(*answers)
        self.time, self.calls = time, 0

    def shell(self, argv: list[str], **how: object) -> ShellResult:
        self.calls += 1
        if "threadtime" not in argv:
            self.written = getattr(self, "written", b"") + ours(argv[4])
            return ShellResult(0, self.time, b"")
        result = super().shell(argv, **how)
        return ShellResult(0, (self.time if argv[0] == "sh" else b"") + result.stdout, b"")


TIME = b"06-01 10:00:00.000\n"


def test_a_phone_that_has_shown_our_line_once_is_only_told_to_write_it_from_then_on() -> None:
    phone = Telling(TIME, said(b"OURS\n"), said(b"OURS\n" + NEW), said(b"OURS\n" + NEW))
    reader = LogReader(cast("Any", phone), 34)
    reader.begin()
    first = reader.read()
    assert phone.calls == 2
    reader.begin()
    assert phone.asked == [["-b", "all", "-t", "8"], ["-b", "all", "-t", "06-01 10:00:00.000"]]
    second = reader.read()
    assert (first.lines, first.signed, second.lines, second.signed, second.rolled) == (NEW, True, NEW, True, False)
    assert phone.asked[2:] == [["-b", "all", "-t", "06-01 10:00:00.000"]]
    assert (first.mark, second.mark) == tuple(phone.written.splitlines()), "each run has a line of its own"


def test_that_a_line_we_did_not_read_back_is_gone_shows_that_the_log_went_round() -> None:
    phone = Telling(TIME, said(b"OURS\n"), said(NEW))
    reader = LogReader(cast("Any", phone), 34)
    reader.begin()
    reader.begin()
    log = reader.read()
    assert (log.signed, log.rolled, log.lines) == (True, True, NEW)


@pytest.mark.parametrize("time", [b"", b"06-01 12:00:00.000\n", b"06-01 09:00:00.000\n", b"date: not found\n"])
def test_a_phone_whose_time_is_not_that_of_its_log_is_always_read_back(time: bytes) -> None:
    phone = Telling(time, said(b"OURS\n"), said(b"OURS\n"))
    reader = LogReader(cast("Any", phone), 34)
    reader.begin()
    reader.begin()
    assert len(phone.asked) == 2


def test_who_wrote_a_line_is_read_in_every_format() -> None:
    assert writer_of(MARK) == 12
    assert writer_of(b"I/lowmemorykiller(  411): x") == 411
    assert writer_of(b"--------- beginning of main") is None
