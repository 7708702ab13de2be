from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.made_up_run import write_run
from harness.core.reasons import Verdict
from harness.store.runfolder import RunFolder


def test_a_made_up_run_is_a_run_with_every_verdict(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_run(tmp_path / "run", cells=300, phones=4)
    folder = RunFolder.open(tmp_path / "run")
    records = folder.latest()
    assert (len(records), len(folder.read_info().fleet)) == (300, 4)
    assert {record.verdict for record in records} == set(Verdict)
    assert [record.config.kind for record in records].count("sustained") == 4
    assert caplog.text == ""


def test_the_same_numbers_make_the_same_run(tmp_path: Path) -> None:
    for name in ("one", "other"):
        write_run(tmp_path / name, cells=20, phones=2)
    one, other = ((tmp_path / name / "results.jsonl").read_bytes() for name in ("one", "other"))
    assert one == other
