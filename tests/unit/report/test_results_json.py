"""``results.json``: the same rows as the table, proven figures apart from refused ones."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

from harness.core.reasons import Reason
from harness.report.frames import COLUMNS
from harness.report.results_json import results_document, write_results_json


def test_a_row_has_every_column_and_a_refused_one_no_figures(make: ModuleType) -> None:
    document = results_document(
        make.info(), [make.record(tps=48.0), make.record(threads=2, reason=Reason.NOISY, tps=99.0)]
    )
    ok, noisy = document["cells"]
    assert list(ok) == [column.name for column in COLUMNS]
    assert (ok["decode_tps"], ok["decode_n"], ok["throttled"], ok["refused_decode_tps"]) == (48.0, 5, False, None)
    assert (noisy["decode_tps"], noisy["peak_rss_bytes"], noisy["refused_decode_tps"]) == (None, None, 99.0)
    assert (noisy["verdict"], noisy["reason"], noisy["fault"]) == ("rejected", "noisy", "infra")


def test_the_head_says_which_run_it_was(make: ModuleType) -> None:
    document = results_document(make.info(), [])
    assert (document["schema"], document["cells"]) == (1, [])
    assert document["run"]["run_id"] == make.RUN_ID
    assert document["run"]["command"] == ["pytest", "--devices", "all", "--plan", "my plan"]
    assert document["columns"]["decode_n"] == "timed generations"


def test_the_file_is_plain_json(make: ModuleType, tmp_path: Path) -> None:
    evil = "</script>\u2028\u202e\x00"
    folder = make.run_folder(tmp_path / "run", make.info(), [make.record(evil)])
    document = json.loads(write_results_json(folder).read_bytes())
    assert document["cells"][0]["phone"] == evil
