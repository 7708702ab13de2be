from __future__ import annotations

from typing import Any, cast

import pytest

from harness.bench.phone_log import memory_kill, read_phone_log
from harness.core.errors import PhoneLostError
from harness.core.transport import ShellResult

LINES = {
    "Android 14": b"06-01 10:00:00.123   411   411 I lowmemorykiller: Kill 'farm_runner' (4711), uid 2000, "
    b"oom_score_adj 0 to free 2400000kB rss, 2300000kB anon rss, 0kB swap; reason: low watermark is breached",
    "Android 8": b"06-01 10:00:00.123     0     0 I lowmemorykiller: Killing 'farm_runner' (4711), adj 0,",
    "kernel": b"[ 312.004] Out of memory: Killed process 4711 (farm_runner) total-vm:9000000kB",
    "old kernel": b"[ 312.004] Out of memory: Kill process 4711 (farm_runner) score 900 or sacrifice child",
    "cgroup": b"[ 312.004] Memory cgroup out of memory: Killed process 4711 (farm_runner) total-vm:90kB",
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_a_kill_for_want_of_memory_is_found_in_every_androids_words(line: bytes) -> None:
    log = b"06-01 10:00:00.100   1   1 I other: noise\n" + line + b"\n06-01 10:00:01.000   1   1 I other: more\n"
    assert memory_kill(log, 4711) == line.decode()
    assert memory_kill(log, 471) is None
    assert memory_kill(log, 47110) is None


def test_a_log_of_odd_bytes_is_read_too() -> None:
    assert memory_kill(b"\xff\xfe\n" + LINES["kernel"] + b"\xff\n", 4711) == LINES["kernel"].decode() + "\ufffd"
    assert memory_kill(b"", 1) is None


class Phone:
    name = "toy-1"

    def __init__(self, *answers: ShellResult | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []

    def shell(self, argv: list[str], **_: object) -> ShellResult:
        self.asked.append(argv)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_all_buffers_are_read_and_the_default_ones_where_that_is_not_known() -> None:
    phone = Phone(ShellResult(1, b"", b"Unable to open log device"), ShellResult(0, b"lines\n", b""))
    assert read_phone_log(cast("Any", phone)) == b"lines\n"
    assert phone.asked == [["logcat", "-d", "-b", "all", "-t", "3000"], ["logcat", "-d", "-t", "3000"]]


@pytest.mark.parametrize("answer", [PhoneLostError("toy-1", "gone"), ShellResult(1, b"junk", b"")])
def test_a_phone_that_gives_no_log_costs_nothing_but_the_log(answer: Any) -> None:
    assert read_phone_log(cast("Any", Phone(answer, answer))) == b""
