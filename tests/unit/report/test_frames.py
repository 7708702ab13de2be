from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from harness.core.errors import ConfigError
from harness.core.reasons import Reason
from harness.report.frames import COLUMNS, MEASURED, cells_frame, write_csv


def test_there_is_one_row_a_cell_with_the_documented_columns(make: ModuleType) -> None:
    records = make.all_verdicts()
    frame = cells_frame(records)
    assert list(frame.columns) == [column.name for column in COLUMNS]
    assert len(set(frame.columns)) == len(COLUMNS)
    assert frame["cell_id"].tolist() == [record.cell_id for record in records]
    assert {str(dtype) for dtype in frame.dtypes} == {"string", "Int64", "Float64", "boolean"}


def test_an_ok_row_holds_what_was_measured(make: ModuleType) -> None:
    row = cells_frame([make.record(threads=2, tps=48.0, config={"engine": {"use_mmap": True}})]).iloc[0]
    assert (row["decode_tps"], row["decode_ci95_low_tps"], row["decode_ci95_high_tps"]) == (48.0, 46.5, 50.0)
    assert (row["ttft_p50_ms"], row["peak_rss_bytes"], row["throttled"]) == (187.25, 205520896, False)
    assert (row["threads"], row["backend_actual"], row["verdict"]) == (2, "cpu", "ok")
    assert row["engine_config"] == '{"use_mmap": true}'
    assert row["tuning_ms"] is pd.NA
    assert row["refused_decode_tps"] is pd.NA


def test_a_refused_row_has_no_figure_that_could_enter_a_median(make: ModuleType) -> None:
    frame = cells_frame([make.record(tps=40.0), make.fallback(tps=77.7)])
    refused = frame.iloc[1]
    assert [name for name, *_ in MEASURED if refused[name] is not pd.NA] == []
    assert refused["refused_decode_tps"] == 77.7
    assert refused["reason"] == "backend_fallback"
    assert frame["decode_tps"].median() == 40.0


def test_no_records_make_an_empty_frame_with_all_columns() -> None:
    frame = cells_frame([])
    assert len(frame) == 0
    assert list(frame.columns) == [column.name for column in COLUMNS]


def test_the_csv_reads_back_as_the_frame(make: ModuleType, tmp_path: Path) -> None:
    records = make.all_verdicts()
    run = make.run_folder(tmp_path / "run", make.info(), records)
    path = write_csv(run)
    assert path == run / "results.csv"
    back = pd.read_csv(path, dtype={column.name: column.dtype for column in COLUMNS})
    pd.testing.assert_frame_equal(back, cells_frame(records))


def test_the_csv_has_the_last_attempt_of_each_cell(make: ModuleType, tmp_path: Path) -> None:
    first = make.record(reason=Reason.DEVICE_LOST)
    run = make.run_folder(tmp_path / "run", make.info(), [first, make.record(attempt=2)])
    back = pd.read_csv(write_csv(run))
    assert back[["attempt", "verdict"]].to_numpy().tolist() == [[2, "ok"]]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", " =1+1"])
def test_a_text_that_a_spreadsheet_would_run_is_quoted(make: ModuleType, tmp_path: Path, text: str) -> None:
    cell = make.record(reason=Reason.CRASH, detail=text)
    back = pd.read_csv(write_csv(make.run_folder(tmp_path / "run", make.info(), [cell])))
    assert back["detail"][0].startswith("'")
    assert back["detail"][0].endswith(text.strip())


def test_control_characters_are_escapes_in_the_csv(make: ModuleType, tmp_path: Path) -> None:
    cell = make.record(reason=Reason.CRASH, detail='a\x00b\x1b[2J "quoted", c\nd')
    path = write_csv(make.run_folder(tmp_path / "run", make.info(), [cell]))
    assert b"\x00" not in path.read_bytes()
    assert pd.read_csv(path)["detail"][0] == 'a\\x00b\\x1b[2J "quoted", c\nd'


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is not a run folder"):
        write_csv(tmp_path)


def test_warnings_are_a_column_and_mere_notes_are_not(make: ModuleType) -> None:
    frame = cells_frame([cell for cell in make.a_night() if cell.phone.name == "atlas"])
    assert frame["warnings"].tolist() == ["lease;prepare_refused", "recovered", "recovered", pd.NA]
