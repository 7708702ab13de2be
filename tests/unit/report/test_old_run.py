"""A run folder that the first version wrote is still read, by everything that reads one.

``tests/data/old_run`` is a capture of ours (virtual phones, MNN 3.6.1), its records without any field that was added
since: no cold-load figures, no curve, no answers, no causes; its head without models, bundle and resumptions.
"""

from __future__ import annotations

import csv
import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.core.reasons import Verdict
from harness.report.frames import write_csv
from harness.report.history import trends_of
from harness.report.html import write_report
from harness.report.junit import write_junit
from harness.report.results_json import results_document
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord, Metrics, ModelInfo, Output, Sample, Thermal

OLD = Path(__file__).parents[2] / "data" / "old_run"
NAME = "virtual-high-opencl-1"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(OLD, tmp_path / "run"))


def test_the_sample_is_as_old_as_it_says() -> None:
    lines = [json.loads(line) for line in (OLD / "results.jsonl").read_text().splitlines()]
    for line in lines:
        for section, model in (("metrics", Metrics), ("thermal", Thermal), ("output", Output), ("model", ModelInfo)):
            later = {name for name, field in model.model_fields.items() if not field.is_required()}
            assert later.isdisjoint(line[section] or ())
        later = {name for name, field in Sample.model_fields.items() if not field.is_required()}
        assert all(later.isdisjoint(sample) for sample in line["samples"])
        assert {"duration_s", "load_rounds"}.isdisjoint(line["config"])
    assert {"models", "bundle", "resumptions"}.isdisjoint(json.loads((OLD / "run.json").read_text()))


def test_every_record_is_read_and_keeps_its_cell(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        records = RunFolder.open(OLD).latest()
    assert caplog.messages == []
    assert [(record.verdict.value, record.config.backend, record.config.threads) for record in records] == [
        ("ok", "cpu", 1), ("ok", "cpu", 2), ("rejected", "opencl", 68), ("unsupported", "vulkan", 4),
    ]  # fmt: skip
    assert records[0].cell_id.startswith("8f512f4abb549a03")
    assert records[0].metrics is not None
    assert records[0].metrics.first_use_ms is None


def test_nothing_that_nobody_measured_is_made_up_on_the_way() -> None:
    lines = (OLD / "results.jsonl").read_text().splitlines()
    for line, record in zip(lines, RunFolder.open(OLD).records(), strict=True):
        old, new = json.loads(line), json.loads(record.to_json_line())
        for section in ("metrics", "phone", "bundle", "nulls", "backend"):
            assert new[section] == old[section]
        assert CellRecord.model_validate(new) == record


def test_the_report_shows_it(run: Path, parse: Any) -> None:
    page = parse(write_report(run).read_text())
    assert (
        page.one("h1").text
        == "1 phone, 4 cells: 2 ok, 1 rejected (backend_fallback), 1 unsupported (no Vulkan on this phone)"
    )
    assert any("114 ± 19.8" in table.text for table in page.all("table", cls="cells"))
    write_junit(run)


def test_the_table_and_the_document_have_its_figures(run: Path) -> None:
    rows = list(csv.DictReader(write_csv(run).read_text().splitlines()))
    assert [row["decode_tps"][:6] for row in rows] == ["113.65", "70.690", "", ""]
    folder = RunFolder.open(run)
    cells = results_document(folder.read_info(), folder.latest())["cells"]
    assert [cell["verdict"] for cell in cells] == ["ok", "ok", "rejected", "unsupported"]
    assert (cells[0]["load_ms"], cells[0]["growth_bytes"]) == (pytest.approx(268.28, abs=0.01), None)


def test_a_run_of_today_goes_on_where_it_ended(run: Path) -> None:
    """The same cell of a new run, with all that is known today, is a further point of the same trend."""
    folder = RunFolder.open(run)
    info, records = folder.read_info(), folder.latest()
    newer = [
        record.model_copy(
            update={
                "run_id": "newer",
                "metrics": record.metrics and record.metrics.model_copy(update={"first_use_ms": 900.0}),
                "config": type(record.config).model_validate({**record.config.model_dump(), "load_rounds": 1}),
            }
        )
        for record in records
    ]
    later = info.model_copy(update={"run_id": "newer", "started": "2027-01-01T00:00:00Z"})
    trends = trends_of([(info, records), (later, newer)])
    assert len(trends) == 4
    decode = [[point.run_id for point in trend.series[0].points] for trend in trends if trend.series]
    assert decode == [[info.run_id, "newer"]] * 2
    assert {len(trend.gaps) for trend in trends if not trend.series} == {2}


def test_the_verbs_take_it(run: Path, tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["report", str(run)]).exit_code == 0
    other = Path(shutil.copytree(OLD, tmp_path / "other"))
    head = json.loads((other / "run.json").read_text())
    (other / "run.json").write_text(json.dumps({**head, "run_id": "another"}))
    done = CliRunner().invoke(app, ["report", str(run), str(other), "--out", str(tmp_path / "history.html")])
    assert done.exit_code == 0
    assert "2 runs, 1 phone: 0 steady, 8 with too few runs to tell" in (tmp_path / "history.html").read_text()


def test_its_ok_cells_are_ok_by_todays_rules_too() -> None:
    ok = [record for record in RunFolder.open(OLD).latest() if record.verdict is Verdict.OK]
    assert all(record.backend is not None and record.backend.strength == "engine" for record in ok)
