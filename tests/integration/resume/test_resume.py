"""Runs that end before their time and are finished in the same folder: nothing lost, nothing twice."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.core.provider import Endpoint
from harness.payload.models import find_model
from harness.store.runfolder import RunFolder

PHONES = ("high", "mid")


@pytest.mark.parametrize(
    ("number", "send"), [(signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill)], ids=["Ctrl-C in a terminal", "SIGTERM"]
)
def test_a_run_that_is_told_to_stop_leaves_a_whole_folder_and_is_finished_later(
    farm: Any, parts: ModuleType, tmp_path: Path, number: signal.Signals, send: Callable[[int, int], None]
) -> None:
    folder = RunFolder(tmp_path / "run")
    # Cells of a second: on a busy computer it takes a while until a signal is heeded.
    process = farm.start(folder.path, "host", *farm.new, "--repeats", "8")
    try:
        parts.wait_for(lambda: any(folder.records()), "the first record", process)
        send(process.pid, number)
        text, _ = process.communicate(timeout=parts.DEADLINE_S)
    finally:
        process.kill()
    assert process.returncode == 2, text
    done = list(folder.records())
    # No cell was begun after it: the rest would have taken less than the time that workers get to end.
    assert 0 < len(done) < parts.CELLS
    assert all(record.final for record in done)
    assert (folder.path / "report.html").exists()
    assert (folder.path / "results.csv").exists()
    assert f"--run-dir {folder.path} --resume" in text
    finished = farm.run(folder.path, "host", "--resume")
    assert finished.status == 0, finished.text
    assert f"{parts.CELLS - len(done)} of {parts.CELLS} cells of these phones were to be done" in finished.text
    assert finished.verdicts == ["backend_missing_on_phone"] * 2 + ["ok"] * parts.CPU_CELLS
    assert list(folder.records())[: len(done)] == done
    assert len(list(folder.records())) == parts.CELLS


def test_what_did_not_fit_in_the_time_is_done_later_on_whatever_phones_are_there(
    farm: Any, parts: ModuleType, virtual_phones: list[Endpoint], tmp_path: Path
) -> None:
    one, other = (phone.transport_serial for phone in virtual_phones)
    short = farm.run(tmp_path / "run", one, *farm.new, "--budget", "1s")
    assert short.status == 0, short.text
    # That a cell is unsupported takes no time to say.
    assert short.verdicts == ["backend_missing_on_phone"] * 2 + ["out_of_time"] * parts.CPU_CELLS
    late = next(record for record in short.folder.records() if record.reason == "out_of_time")
    assert late.detail.startswith("the run's time ended at ") or "this cell takes about" in late.detail
    assert late.raw is None

    new_phone = farm.run(tmp_path / "run", other, "--resume")
    assert new_phone.status == 0, new_phone.text
    assert f"not here: {one}: {parts.CPU_CELLS} cells unfinished" in new_phone.text
    assert f"not here: {parts.CPU_CELLS} cells unfinished" in (new_phone.folder.path / "report.html").read_text()
    assert (
        new_phone.verdicts
        == ["backend_missing_on_phone"] * 4 + ["ok"] * parts.CPU_CELLS + ["out_of_time"] * parts.CPU_CELLS
    )

    both = farm.run(
        tmp_path / "run", "all", "--resume", "--until", "23:59" if time.localtime().tm_hour < 23 else "12:00"
    )
    assert both.status == 0, both.text
    assert f"{parts.CPU_CELLS} of {2 * parts.CELLS} cells of these phones were to be done" in both.text
    assert "2 phones, 16 cells: 12 ok, 4 unsupported" in both.text
    assert both.verdicts == ["backend_missing_on_phone"] * 4 + ["ok"] * 2 * parts.CPU_CELLS
    attempts = [record.attempt for record in both.folder.latest() if record.phone.name == one and record.reason is None]
    assert attempts == [2] * parts.CPU_CELLS
    assert [phone.phone.name for phone in both.head.fleet] == [one, other]
    assert [len(again.phones) for again in both.head.resumptions] == [1, 2]
    assert both.head.cells == 2 * parts.CELLS
    assert len((both.folder.path / "results.csv").read_text().splitlines()) == 1 + 2 * parts.CELLS


@dataclass(frozen=True)
class Red:
    """A run with nothing left to do, whose CPU cells are rejected; its model and bundle may be bent."""

    done: Any
    model: Path
    bundle: Path

    @property
    def model_hash(self) -> str:
        return str(next(iter(self.done.head.models.values())).hash)

    @property
    def bundle_hash(self) -> str:
        return str(self.done.head.bundle.hash)


@pytest.fixture(scope="module")
def red(farm: Any, tmp_path_factory: pytest.TempPathFactory) -> Red:
    files = tmp_path_factory.mktemp("red")
    model = Path(shutil.copytree(find_model("tiny-llama"), files / "toy"))
    bundle = Path(shutil.copytree(farm.bundle, files / "bundle"))
    manifest = bundle / "bundle.toml"
    manifest.write_text(manifest.read_text().replace('"token_ms=5"', '"token_ms=1", "--synthetic", "short_tokens=3"'))
    words = ["--plan", str(farm.plan), "--bundle", str(bundle), "--model", str(model), "--threads", "1"]
    done = farm.run(files / "run", "host", *words)
    return Red(done, model, bundle)


REJECTED = ["backend_missing_on_phone"] * 2 + ["token_count_short"] * 2


def test_nothing_left_to_do_is_said_and_the_status_is_that_of_the_records(farm: Any, red: Red) -> None:
    assert (red.done.status, red.done.verdicts) == (1, REJECTED), red.done.text
    before = red.done.folder.results.read_bytes()
    again = farm.run(red.done.folder.path, "host", "--resume")
    assert again.status == 1, again.text
    assert "nothing is left to do on these phones, no cell was run" in again.text
    assert "2 rejected (token_count_short), 2 unsupported" in again.text
    assert again.folder.results.read_bytes() == before


def test_rerun_does_only_what_it_names_as_a_new_attempt(farm: Any, red: Red, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(red.done.folder.path, tmp_path / "copy"))
    again = farm.run(folder, "host", "--rerun", "reason=token_count_short,noisy")
    assert again.status == 1, again.text
    assert "2 of 4 cells of these phones were to be done" in again.text
    attempts = [(record.reason, record.attempt) for record in again.folder.records()]
    assert attempts[:4] == [(record.reason, 1) for record in red.done.folder.records()]
    assert attempts[4:] == [("token_count_short", 2)] * 2
    assert again.verdicts == REJECTED
    shown = farm.run(folder, "host", "--resume", "--dry-run-plan")
    assert (shown.status, shown.text.count("done before")) == (0, 4)


def test_another_plan_model_or_bundle_is_refused_and_nothing_is_changed(farm: Any, red: Red) -> None:
    before = {path.name: path.read_bytes() for path in red.done.folder.path.iterdir() if path.is_file()}
    resume = ["--run-dir", str(red.done.folder.path), "--resume"]
    assert "the plan differs from the run's: threads was [1] and is [1, 2]: " in farm.refusal(*resume, "--threads=1,2")
    (red.model / "notes.txt").write_text("changed")
    said = farm.refusal(*resume)
    (red.model / "notes.txt").unlink()
    assert f"model toy is not what this run was begun with: its content was {red.model_hash[:12]} and is " in said
    assert "bring the old files back, or begin a new run folder" in said
    said = farm.refusal(*resume, "--bundle", str(farm.bundle))
    assert (
        f"bundle synthetic is not what this run was begun with: its content was {red.bundle_hash[:12]} and is" in said
    )
    assert before == {path.name: path.read_bytes() for path in red.done.folder.path.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--resume"], "--resume needs --run-dir: say which run"),
        (["--resume", "--run-dir", "EMPTY"], "is not a run folder (it has no run.json): name one below reports/"),
    ],
)
def test_resume_without_a_run_is_refused_in_one_sentence(
    farm: Any, tmp_path: Path, words: list[str], sentence: str
) -> None:
    assert sentence in farm.refusal(*[str(tmp_path) if word == "EMPTY" else word for word in words])
    assert list(tmp_path.iterdir()) == []
