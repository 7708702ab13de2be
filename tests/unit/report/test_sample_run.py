"""The sample run that comes with the repository can be read by this version, and its report leads to the raw output."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from harness.core.resources import data_root
from harness.report.html import write_report
from harness.store.runfolder import RunFolder

SAMPLE = Path(__file__).parents[3] / "reports" / "sample"
HEADLINE = "2 phones, 6 cells: 2 ok, 1 rejected (backend_fallback), 3 unsupported"


def test_every_record_of_the_sample_is_read() -> None:
    folder = RunFolder.open(SAMPLE)
    records = folder.latest()
    assert len(records) == folder.read_info().cells == 6
    assert sorted({record.verdict.value for record in records}) == ["ok", "rejected", "unsupported"]


def test_a_report_is_made_from_it_alone(tmp_path: Path) -> None:
    assert HEADLINE in write_report(SAMPLE, tmp_path / "report.html").read_text()


def test_the_report_that_lies_there_links_every_cell_that_ran_to_its_raw_output(parse: Callable[[str], Any]) -> None:
    text = (SAMPLE / "report.html").read_text()
    assert HEADLINE in text
    linked = {link.attributes["href"] for link in parse(text).all("a") if link.attributes["href"].startswith("raw/")}
    ran = {record.raw for record in RunFolder.open(SAMPLE).latest() if record.raw is not None}
    assert linked == ran
    for raw in ran:
        assert {"command.json", "events.jsonl", "stderr", "stdout"} <= {file.name for file in (SAMPLE / raw).iterdir()}


def test_its_tiers_are_what_the_schema_says() -> None:
    schema = json.loads((data_root() / "profiles" / "tiers.schema.json").read_text())
    jsonschema.validate(json.loads((SAMPLE / "tiers.json").read_text()), schema)


def test_it_is_small_and_names_nobodys_computer() -> None:
    files = [file for file in SAMPLE.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) <= 2 * 2**20
    for file in files:
        assert not re.search(rb"/root/|/work/main|(?<!/data/local)/tmp/", file.read_bytes().split(b'id="plotly"')[0]), (
            file
        )


@pytest.mark.parametrize("name", ["run.json", "results.jsonl", "results.csv", "junit.xml", "summary.md", "tiers.json"])
def test_what_a_run_leaves_is_there(name: str) -> None:
    assert (SAMPLE / name).stat().st_size > 0
