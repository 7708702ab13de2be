from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.virtual.droid import meminfo

Droid = Callable[..., Any]

STATUS = {"VmRSS": 70_000, "RssAnon": 50_000, "RssFile": 20_000, "VmStk": 132, "VmSwap": 40}


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A ``/proc`` with one runner in it."""
    root = tmp_path / "proc"
    (root / "4711").mkdir(parents=True)
    (root / "4711" / "cmdline").write_bytes(b"/data/local/tmp/runner\0--model\0x\0")
    rows = "".join(f"{key}:\t{value:>8} kB\n" for key, value in STATUS.items())
    (root / "4711" / "status").write_text(f"Name:\trunner\n{rows}Threads:\t4\n")
    (root / "uptime").write_text("12.5 20.0\n")
    (root / "meminfo").write_text(
        "MemTotal: 8000 kB\nMemFree: 1000 kB\nMemAvailable: 3000 kB\nCached: 2500 kB\n"
        "SwapTotal: 90 kB\nSwapFree: 40 kB\n"
    )
    return root


def column(lines: list[str], row: str, top: str, below: str) -> int:
    """Read one cell as a reader must: by the two header lines, whose words end where the numbers end."""
    tops, belows = lines[0], lines[1]
    ends = [index for index in range(len(tops) + 1) if tops[:index].endswith(top) and belows[:index].endswith(below)]
    cells = next(line for line in lines if line.strip().startswith(row))
    return int(cells[: ends[0]].split()[-1])


@pytest.mark.parametrize("sdk", [26, 29, 30, 36])
def test_numbers_stand_under_their_two_header_lines(sdk: int) -> None:
    lines = meminfo.one_process(STATUS, sdk)
    assert column(lines, "TOTAL", "Pss", "Total") == 70_040
    assert column(lines, "TOTAL", "Private", "Dirty") == 50_000
    assert column(lines, "TOTAL", "SwapPss", "Dirty") == 40
    if sdk >= 30:
        assert column(lines, "TOTAL", "Rss", "Total") == 70_000
    else:
        assert "Rss" not in lines[0]


def test_the_footer_changed_with_android_11() -> None:
    old, new = (" ".join(meminfo.one_process(STATUS, sdk)[-2].split()) for sdk in (29, 30))
    assert old == "TOTAL: 70040 TOTAL SWAP PSS: 40"
    assert new == "TOTAL PSS: 70040 TOTAL RSS: 70000 TOTAL SWAP PSS: 40"


@pytest.mark.parametrize("word", ["4711", "/data/local/tmp/runner", "runner"])
def test_a_process_is_found_by_number_and_by_name(droid: Droid, proc: Path, word: str) -> None:
    lines = meminfo.dump(droid("high").store(), [word], str(proc))
    assert lines[:4] == [
        "Applications Memory Usage (in Kilobytes):",
        "Uptime: 12500 Realtime: 12500",
        "",
        "** MEMINFO in pid 4711 [/data/local/tmp/runner] **",
    ]


@pytest.mark.parametrize("word", ["1", "com.example.app"])
def test_a_process_that_is_gone_is_said_to_be(droid: Droid, proc: Path, word: str) -> None:
    assert meminfo.dump(droid("high").store(), [word], str(proc)) == [f"No process found for: {word}"]


def test_the_whole_phone_is_listed_by_size(droid: Droid, proc: Path) -> None:
    text = "\n".join(meminfo.dump(droid("high").store(), [], str(proc)))
    assert "      70,000K: /data/local/tmp/runner (pid 4711)" in text
    assert "Total RAM:       8,000K (status normal)" in text
    assert "Used RAM:       5,000K" in text


def test_our_own_status_is_read() -> None:
    assert meminfo.status_table(os.getpid())["VmRSS"] > 1000
    assert meminfo.status_table(2**22 + 1) == {}
