from __future__ import annotations

import pytest

from harness.virtual.memory import Holder, kill_report, meminfo
from harness.virtual.profile import load_profile, profile_names

VICTIM = Holder(4711, "/data/local/tmp/some_long_runner", 901_444, 880_120, 12)


def rows(text: str) -> dict[str, int]:
    return {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()}


def test_meminfo_is_aligned_as_the_kernel_does_it() -> None:
    assert meminfo(load_profile("low").memory).splitlines()[0] == "MemTotal:        3849216 kB"


@pytest.mark.parametrize("name", profile_names())
def test_what_processes_hold_is_missing_from_what_is_available(name: str) -> None:
    memory = load_profile(name).memory
    idle, used = rows(meminfo(memory)), rows(meminfo(memory, 500_000))
    assert idle["MemAvailable"] - used["MemAvailable"] == 500_000
    assert used["MemFree"] < idle["MemFree"]
    assert used["MemTotal"] == idle["MemTotal"]


def test_memory_comes_out_of_the_cache_when_little_is_free() -> None:
    memory = load_profile("low").memory
    used = rows(meminfo(memory, 600_000))
    assert used["MemFree"] == memory.free_kb // 8
    assert used["Cached"] == memory.cached_kb - (600_000 - (memory.free_kb - memory.free_kb // 8))


def test_meminfo_never_changes_its_length() -> None:
    memory = load_profile("low").memory
    assert len({len(meminfo(memory, used)) for used in (0, 1, 99_999, 2_000_000, 90_000_000)}) == 1


@pytest.mark.parametrize(
    ("sdk", "text"),
    [
        (
            29,
            "Kill '/data/local/tmp/some_long_runner' (4711), uid 2000, oom_score_adj 0 to free 901444kB rss, 12kb swap",
        ),
        (
            31,
            "Kill '/data/local/tmp/some_long_runner' (4711), uid 2000, oom_score_adj 0 to free 901444kB rss, 12kB swap;"
            " reason: min watermark is breached even after kill",
        ),
        (
            36,
            "Kill '/data/local/tmp/some_long_runner' (4711), uid 2000, oom_score_adj 0 to free 901444kB rss,"
            " 880120kB anon rss, 12kB swap, 0kB dmabuf_pss, 0kB dmabuf_rss; reason: min watermark is breached even"
            " after kill",
        ),
    ],
)
def test_lmkd_words_a_kill_as_its_release_does(sdk: int, text: str) -> None:
    report = kill_report(VICTIM, load_profile("low").memory, sdk, 2000)
    assert (report.text, report.buffer) == (text, "main")


def test_before_android_9_the_kernel_killed_and_said_so_in_its_own_log() -> None:
    report = kill_report(VICTIM, load_profile("kirin").memory, 26, 2000)
    lines = report.text.split("\n")
    assert report.buffer == "kernel"
    assert lines[0] == "Killing '/data/local/tmp' (4711), adj 0,"
    assert lines[1] == "   to free 901444kB on behalf of 'kswapd0' (97) because"
    assert lines[2].endswith("kB for oom_score_adj 0")
