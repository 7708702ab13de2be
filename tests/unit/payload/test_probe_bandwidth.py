from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.payload.probe_bandwidth import parse_bandwidth


def measure(probe: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run([str(probe), "bandwidth", *words], capture_output=True, timeout=20, check=True)
    assert parse_bandwidth(done.stdout)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.fixture
def no_caches(tmp_path: Path) -> tuple[str, ...]:
    """A phone that tells neither caches nor memory: what is asked for is what is read."""
    return ("--sysfs", str(tmp_path), "--procfs", str(tmp_path))


def test_bandwidth_is_told_by_number_of_threads(probe: Path, no_caches: tuple[str, ...]) -> None:
    told = measure(probe, "--threads", "2,1", "--seconds", "0.05", "--mb", "16", *no_caches)
    assert (told["mb"], told["llc_bytes"]) == (16, None)
    assert [entry["threads"] for entry in told["results"]] == [2, 1]
    for entry in told["results"]:
        assert entry["bytes"] >= 1 << 18
        assert 0.01 < entry["gb_per_s"] < 10_000, "in GB/s, not in bytes or MB"


def test_the_best_slice_is_the_roof_and_what_was_read_agrees_with_it(probe: Path, no_caches: tuple[str, ...]) -> None:
    told = measure(probe, "--threads", "1", "--seconds", "0.2", "--mb", "8", *no_caches)
    [entry] = told["results"]
    assert entry["median_gb_per_s"] <= entry["gb_per_s"]
    mean = entry["bytes"] / 0.2 / 1e9
    assert mean <= entry["gb_per_s"] * 1.001, "no slice is faster than the best one"
    assert entry["gb_per_s"] <= 4 * mean * 1.001, "of four slices the best has at most all"
    assert entry["way"] in ("one", "one_ahead", "four", "four_ahead")


@pytest.mark.parametrize(
    ("mb", "l3", "available_kb", "read_mb"),
    [
        ("16", "6144K", 1_000_000, 24),  # four times the caches
        ("32", "6144K", 1_000_000, 32),  # what was asked for is more
        ("32", "6144K", 40 * 1024, 10),  # a quarter of what is available, though the caches want more
        ("8", None, 1_000_000, 8),
    ],
)
def test_the_memory_that_is_read_is_beyond_the_caches_and_spares_the_phone(
    probe: Path, tmp_path: Path, mb: str, l3: str | None, available_kb: int, read_mb: int
) -> None:
    cache = tmp_path / "devices/system/cpu/cpu0/cache/index0"
    cache.mkdir(parents=True)
    (cache.parents[2] / "present").write_text("0\n")
    (cache / "level").write_text("3\n")
    (cache / "type").write_text("Unified\n")
    if l3 is not None:
        (cache / "size").write_text(f"{l3}\n")
    (tmp_path / "meminfo").write_text(f"MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable: {available_kb} kB\n")
    roots = ("--sysfs", str(tmp_path), "--procfs", str(tmp_path))
    assert measure(probe, "--threads", "1", "--seconds", "0.01", "--mb", mb, *roots)["mb"] == read_mb


def test_threads_stay_on_cores_of_their_own(probe: Path, no_caches: tuple[str, ...]) -> None:
    core = str(max(os.sched_getaffinity(0)))
    words = ("--threads", "1", "--seconds", "0.02", "--mb", "1", *no_caches)
    assert measure(probe, *words, "--cpus", core)["results"][0]["threads"] == 1
    refused = subprocess.run([str(probe), "bandwidth", *words, "--cpus", "511"], capture_output=True, timeout=10)
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert refused.stderr == b"probe: a thread could not be kept on core 511 (EINVAL)\n"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--threads", "0"), 2, "--threads takes numbers from 1 to 64"),
        (("--threads", "1,,2"), 2, "--threads takes numbers"),
        (("--seconds", "0"), 2, "--seconds takes 0.01 to 60; got 0"),
        (("--mb", "x"), 2, "--mb takes 1 to 16384; got x"),
        (("--cpus", "all"), 2, "--cpus takes a list of cores such as 0,4-7; got all"),
        (("--cpus", "0", "--threads", "2"), 2, "--cpus names 1 cores, too few for 2 threads"),
        (("--gb", "1"), 2, "bandwidth knows --threads, --seconds, --mb, --cpus, --sysfs, --procfs; got --gb"),
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
