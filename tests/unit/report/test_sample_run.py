"""The sample run that comes with the repository can be read by this version."""

from __future__ import annotations

from pathlib import Path

from harness.report.html import write_report
from harness.store.runfolder import RunFolder

SAMPLE = Path(__file__).parents[3] / "reports" / "sample"


def test_every_record_of_the_sample_is_read() -> None:
    folder = RunFolder.open(SAMPLE)
    records = folder.latest()
    assert len(records) == folder.read_info().cells == 16
    assert sorted({record.verdict.value for record in records}) == ["ok", "rejected", "unsupported"]


def test_a_report_is_made_from_it_alone(tmp_path: Path) -> None:
    page = write_report(SAMPLE, tmp_path / "report.html").read_text()
    assert "2 phones, 16 cells: 8 ok, 2 rejected (backend_fallback), 6 unsupported" in page
