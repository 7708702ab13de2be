from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from harness.payload.probe_bandwidth import parse_bandwidth


def test_bandwidth_is_told_by_number_of_threads(probe: Path) -> None:
    argv = [str(probe), "bandwidth", "--threads", "2,1", "--seconds", "0.05", "--mb", "16"]
    done = subprocess.run(argv, capture_output=True, timeout=20, check=True)
    told = json.loads(done.stdout)
    assert told["mb"] == 16
    assert [entry["threads"] for entry in told["results"]] == [2, 1]
    for entry in told["results"]:
        assert entry["bytes"] % 8 == 0
        assert entry["bytes"] >= 512 * 1024
    speeds = parse_bandwidth(done.stdout)
    assert list(speeds) == [2, 1]
    assert all(0.01 < speed < 10_000 for speed in speeds.values()), "in GB/s, not in bytes or MB"


def test_what_was_read_agrees_with_the_speed(probe: Path) -> None:
    argv = [str(probe), "bandwidth", "--threads", "1", "--seconds", "0.1", "--mb", "8"]
    [entry] = json.loads(subprocess.run(argv, capture_output=True, timeout=20, check=True).stdout)["results"]
    # it goes on until the time is over, and then finishes its piece: never shorter
    assert entry["gb_per_s"] * 1e9 * 0.1 <= entry["bytes"] * 1.001


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--threads", "0"), 2, "--threads takes numbers from 1 to 64"),
        (("--threads", "1,,2"), 2, "--threads takes numbers"),
        (("--seconds", "0"), 2, "--seconds takes 0.01 to 60; got 0"),
        (("--mb", "x"), 2, "--mb takes 1 to 16384; got x"),
        (("--gb", "1"), 2, "bandwidth knows --threads, --seconds, --mb; got --gb"),
    ],
)
def test_wrong_usage_gets_one_sentence(probe: Path, words: tuple[str, ...], status: int, said: str) -> None:
    done = subprocess.run([str(probe), "bandwidth", *words], capture_output=True, timeout=10)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (status, b"", 1)
    assert said in done.stderr.decode()


@pytest.mark.parametrize(
    "line", [b"{}", b'{"results":[]}', b'{"results":[{"threads":1,"gb_per_s":0}]}', b'{"results":[{"threads":1}]}']
)
def test_what_is_no_answer_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="bandwidth"):
        parse_bandwidth(line)
