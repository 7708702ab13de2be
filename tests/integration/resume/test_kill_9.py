"""Runs that are killed at any moment and gone on with in the same folder: nothing lost, nothing twice."""

from __future__ import annotations

import json
import random
import subprocess
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord

PHONES = ("high", "mid")
KILLS = 10
SEED = 20260101


def union(folder: RunFolder) -> dict[str, tuple[str, str | None]]:
    """What a run says of each cell in the end."""
    return {record.cell_id: (record.verdict.value, record.reason) for record in folder.latest()}


def raw_is_whole(folder: RunFolder, record: CellRecord) -> bool:
    """Whether the raw files that a record names are all there, of this attempt alone."""
    if record.raw is None:
        return True
    raw = folder.path / record.raw
    events = [json.loads(line) for line in (raw / "events.jsonl").read_bytes().splitlines()]
    names = {"command.json", "events.jsonl", "stdout", "stderr"}
    return (
        {file.name for file in raw.iterdir()} >= names
        and [event["ev"] for event in events if event["ev"] in ("start", "end")] == ["start", "end"]
        and b'"end"' in (raw / "stdout").read_bytes()
    )


def test_after_kill_9_at_ten_moments_and_resume_it_is_as_if_nothing_had_happened(
    farm: Any, parts: ModuleType, tmp_path: Path
) -> None:
    begun = time.monotonic()
    undisturbed = farm.run(tmp_path / "undisturbed", "all", *farm.new)
    whole_s = time.monotonic() - begun
    assert undisturbed.status == 0, undisturbed.text
    assert len(union(undisturbed.folder)) == 2 * parts.CELLS
    cells_s = sum(record.elapsed_s for record in undisturbed.folder.records()) / 2

    chance = random.Random(SEED)  # noqa: S311
    kills = 0
    number = 0
    while kills < KILLS:
        number += 1
        folder = RunFolder(tmp_path / f"disturbed-{number}")
        while True:
            # A start that was killed before its head was written began no run.
            words = ["--resume"] if (folder.path / "run.json").exists() else farm.new
            process = farm.start(folder.path, "all", *words)
            # Half the moments lie anywhere in the run, half where cells are run.
            among_cells = chance.random() < 0.5
            moment_s = chance.uniform(0, cells_s if among_cells else whole_s)
            if kills == KILLS:
                moment_s = parts.DEADLINE_S
            elif among_cells:
                parts.wait_for_growth(folder, process)
            try:
                text, _ = process.communicate(timeout=moment_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                kills += 1
                continue
            assert process.returncode == 0, text
            break
        records = list(folder.records())
        assert union(folder) == union(undisturbed.folder)
        finals = [record.cell_id for record in records if record.final]
        assert len(finals) == len(set(finals)) == 2 * parts.CELLS
        assert all(raw_is_whole(folder, record) for record in records)
        assert (folder.path / "report.html").exists()
        assert len({record.run_id for record in records}) == 1
