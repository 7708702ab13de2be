"""``results.json``: the rows of the table as one JSON document, with the head of the run. Schema 1.

As in ``results.csv``, what is not ``ok`` has no figures but ``refused_*``; what is unknown is ``null``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from harness.report.frames import COLUMNS, cells_frame
from harness.store.head import RunInfo
from harness.store.runfolder import RunFolder, write_atomically
from harness.store.schema import CellRecord

SCHEMA: Final = 1
# Of a run's head; facts of phones and the plan stay in run.json.
_HEAD: Final = frozenset(
    {"run_id", "started", "command", "harness_version", "versions", "host", "plan_name", "cells", "models", "bundle"}
)


def results_document(info: RunInfo, records: Sequence[CellRecord]) -> dict[str, Any]:
    """Return ``{"schema", "run", "columns", "cells"}``: a run's head, what each column holds, and a row per cell."""
    frame = cells_frame(records).astype(object)
    rows = frame.where(frame.notna(), None).to_dict("records")
    return {
        "schema": SCHEMA,
        "run": info.model_dump(mode="json", include=set(_HEAD)),
        "columns": {column.name: column.says for column in COLUMNS if column.says},
        "cells": [{str(name): value for name, value in row.items()} for row in rows],
    }


def write_results_json(run_dir: Path | RunFolder) -> Path:
    """Write ``results.json`` into the run folder: the last attempt of each cell.

    Raises:
        ConfigError: ``run_dir`` is not a run folder.
    """
    folder = RunFolder.open(run_dir)
    document = results_document(folder.read_info(), folder.latest())
    target = folder.path / "results.json"
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    write_atomically(target, f"{text}\n".encode())
    return target
