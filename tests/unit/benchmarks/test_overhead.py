from __future__ import annotations

import subprocess
from pathlib import Path

from benchmarks.overhead import CORES, GATE, ZONES, interval, phone_tree, verdict
from harness.payload.probe_build import build_probe
from harness.payload.probe_facts import parse_facts


def test_one_share_above_the_gate_misses_it() -> None:
    assert verdict([GATE, 0.001])
    assert not verdict([0.001, GATE * 1.01])


def test_an_interval_holds_the_median_and_widens_with_the_noise() -> None:
    quiet, noisy = interval([0.99, 1.0, 1.0, 1.0, 1.01]), interval([0.8, 0.9, 1.0, 1.1, 1.2])
    assert quiet[0] <= 1.0 <= quiet[1]
    assert noisy[1] - noisy[0] > quiet[1] - quiet[0]
    assert interval([1.0] * 8) == (1.0, 1.0)


def test_the_phone_that_is_watched_is_as_large_as_said(tmp_path: Path) -> None:
    argv = [str(build_probe("x86_64")), "facts", "--sysfs", str(phone_tree(tmp_path)), "--procfs", str(tmp_path)]
    facts = parse_facts(subprocess.run(argv, capture_output=True, timeout=10, check=True).stdout)
    assert (len(facts.cores), len(facts.zones), facts.clocks_readable) == (CORES, ZONES, True)
