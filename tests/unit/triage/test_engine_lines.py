"""What makes a cell fail by the engine's log is known to triage, too: two tables that must not part."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.bench.engine_log import find_errors, find_fallback, find_gpu_errors, find_load_errors
from harness.triage.triage import Source, triage

SAMPLES = sorted((Path(__file__).parents[2] / "data" / "mnn").glob("*.txt"))


def is_bad(log: bytes) -> bool:
    return bool(find_errors(log) or find_load_errors(log) or find_gpu_errors(log) or find_fallback(log))


@pytest.mark.parametrize("sample", SAMPLES, ids=[path.stem for path in SAMPLES])
def test_triage_finds_an_error_in_every_captured_output_in_which_a_cell_would(sample: Path) -> None:
    lines = sample.read_bytes().split(b"\n")
    log = b"\n".join(line for line in lines if not line.startswith(b"# "))
    found = [finding for finding in triage([Source.of_text("stdout", log)]) if finding.severity == "error"]
    assert bool(found) >= is_bad(log)


def test_some_of_them_are_bad_and_some_are_not() -> None:
    assert 10 < sum(is_bad(path.read_bytes()) for path in SAMPLES) < len(SAMPLES)
