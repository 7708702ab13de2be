"""Runs that end before their time, by whatever hand, and are finished in the same folder: nothing lost, nothing twice.

The synthetic runner on two virtual phones behind the real adb server, which outlive every run as real phones do.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.core.provider import Endpoint
from harness.core.resources import data_root
from harness.payload.models import find_model
from harness.store.head import RunInfo
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord

PHONES = ("high", "mid")
KILLS = 10
SEED = 20260101
DEADLINE_S = 120
PLAN = """
schema = 1
models = ["tiny-llama"]
backends = ["cpu", "vulkan"]
cold_start = false
threads = [1, 2, 3]
prompt_tokens = [16, 32]
generate_tokens = [20]
warmups = 0
repeats = 2
[roofline]
measure = false
"""
# Neither phone has Vulkan; a GPU runs once whatever the threads.
CELLS = 8
CPU_CELLS = 6
# A quarter of a second a cell.
ORDERS = ("load_ms=50", "prefill_ms=5", "first_token_ms=1", "token_ms=5")


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and what its folder holds then."""

    status: int
    text: str
    folder: RunFolder

    @property
    def head(self) -> RunInfo:
        return self.folder.read_info()

    @property
    def verdicts(self) -> list[str]:
        return sorted(record.reason or "ok" for record in self.folder.latest())


class Farm:
    """Starts ``pytest --devices …`` with our plan and bundle."""

    def __init__(self, env: dict[str, str], files: Path) -> None:
        self.env = env
        self.plan = files / "plan.toml"
        self.plan.write_text(PLAN)
        self.bundle = Path(shutil.copytree(data_root() / "device_bins" / "runner" / "synthetic", files / "bundle"))
        manifest = self.bundle / "bundle.toml"
        words = [word for order in ORDERS for word in ("--synthetic", order)]
        manifest.write_text(manifest.read_text().replace("extra_args = []", f"extra_args = {json.dumps(words)}"))

    @property
    def new(self) -> list[str]:
        """The words that begin a run."""
        return ["--plan", str(self.plan), "--bundle", str(self.bundle)]

    def start(self, folder: Path, devices: str, *words: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--devices", devices]
        return subprocess.Popen(
            [*argv, "--run-dir", str(folder), *words],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, folder: Path, devices: str, *words: str) -> Outcome:
        process = self.start(folder, devices, *words)
        try:
            text, _ = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
        assert "Traceback" not in text, text
        return Outcome(process.returncode, text, RunFolder(folder))


@pytest.fixture(scope="module")
def farm(virtual_phones: list[Endpoint], farm_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Farm:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "ANDROID_"))}
    env |= {"MNN_FARM_CACHE": str(farm_cache), "ANDROID_ADB_SERVER_PORT": str(virtual_phones[0].adb_port)}
    return Farm({**env, "COLUMNS": "200", "CI": "true"}, tmp_path_factory.mktemp("files"))


def wait_for(condition: Callable[[], object], what: str, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition() and process.poll() is None:
        assert time.monotonic() < end, f"{what} did not come within {DEADLINE_S} s"
        time.sleep(0.01)


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


def test_after_kill_9_at_ten_moments_and_resume_it_is_as_if_nothing_had_happened(farm: Farm, tmp_path: Path) -> None:
    begun = time.monotonic()
    undisturbed = farm.run(tmp_path / "undisturbed", "all", *farm.new)
    whole_s = time.monotonic() - begun
    assert undisturbed.status == 0, undisturbed.text
    assert len(union(undisturbed.folder)) == 2 * CELLS
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
                moment_s = DEADLINE_S
            elif among_cells:
                before = folder.results.stat().st_size if folder.results.exists() else 0
                wait_for(lambda: folder.results.exists() and folder.results.stat().st_size > before, "a cell", process)  # noqa: B023
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
        assert len(finals) == len(set(finals)) == 2 * CELLS
        assert all(raw_is_whole(folder, record) for record in records)
        assert (folder.path / "report.html").exists()
        assert len({record.run_id for record in records}) == 1


@pytest.mark.parametrize(
    ("number", "send"), [(signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill)], ids=["Ctrl-C in a terminal", "SIGTERM"]
)
def test_a_run_that_is_told_to_stop_leaves_a_whole_folder_and_is_finished_later(
    farm: Farm, tmp_path: Path, number: signal.Signals, send: Callable[[int, int], None]
) -> None:
    folder = RunFolder(tmp_path / "run")
    process = farm.start(folder.path, "host", *farm.new)
    try:
        wait_for(lambda: any(folder.records()), "the first record", process)
        send(process.pid, number)
        text, _ = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
    assert process.returncode == 2, text
    done = list(folder.records())
    # No cell was begun after it: the rest would have taken less than the time that workers get to end.
    assert 0 < len(done) < CELLS
    assert all(record.final for record in done)
    assert (folder.path / "report.html").exists()
    assert (folder.path / "results.csv").exists()
    assert f"--run-dir {folder.path} --resume" in text
    finished = farm.run(folder.path, "host", "--resume")
    assert finished.status == 0, finished.text
    assert f"{CELLS - len(done)} of {CELLS} cells of these phones were to be done" in finished.text
    assert finished.verdicts == ["backend_missing_on_phone"] * 2 + ["ok"] * CPU_CELLS
    assert list(folder.records())[: len(done)] == done
    assert len(list(folder.records())) == CELLS


def test_what_did_not_fit_in_the_time_is_done_later_on_whatever_phones_are_there(
    farm: Farm, virtual_phones: list[Endpoint], tmp_path: Path
) -> None:
    one, other = (phone.transport_serial for phone in virtual_phones)
    short = farm.run(tmp_path / "run", one, *farm.new, "--budget", "1s")
    assert short.status == 0, short.text
    # That a cell is unsupported takes no time to say.
    assert short.verdicts == ["backend_missing_on_phone"] * 2 + ["out_of_time"] * CPU_CELLS
    late = next(record for record in short.folder.records() if record.reason == "out_of_time")
    assert late.detail.startswith("the run's time ended at ") or "this cell takes about" in late.detail
    assert late.raw is None

    new_phone = farm.run(tmp_path / "run", other, "--resume")
    assert new_phone.status == 0, new_phone.text
    assert f"not here: {one}: {CPU_CELLS} cells unfinished" in new_phone.text
    assert f"not here: {CPU_CELLS} cells unfinished" in (new_phone.folder.path / "report.html").read_text()
    assert new_phone.verdicts == ["backend_missing_on_phone"] * 4 + ["ok"] * CPU_CELLS + ["out_of_time"] * CPU_CELLS

    both = farm.run(
        tmp_path / "run", "all", "--resume", "--until", "23:59" if time.localtime().tm_hour < 23 else "12:00"
    )
    assert both.status == 0, both.text
    assert f"{CPU_CELLS} of {2 * CELLS} cells of these phones were to be done" in both.text
    assert "2 phones, 16 cells: 12 ok, 4 unsupported" in both.text
    assert both.verdicts == ["backend_missing_on_phone"] * 4 + ["ok"] * 2 * CPU_CELLS
    attempts = [record.attempt for record in both.folder.latest() if record.phone.name == one and record.reason is None]
    assert attempts == [2] * CPU_CELLS
    assert [phone.phone.name for phone in both.head.fleet] == [one, other]
    assert [len(again.phones) for again in both.head.resumptions] == [1, 2]
    assert both.head.cells == 2 * CELLS
    assert len((both.folder.path / "results.csv").read_text().splitlines()) == 1 + 2 * CELLS


@dataclass(frozen=True)
class Red(Outcome):
    """A run with nothing left to do, whose CPU cells are rejected; its model and bundle may be bent."""

    model: Path
    bundle: Path

    @property
    def model_hash(self) -> str:
        return next(iter(self.head.models.values())).hash

    @property
    def bundle_hash(self) -> str:
        assert self.head.bundle is not None
        return self.head.bundle.hash


@pytest.fixture(scope="module")
def red(farm: Farm, tmp_path_factory: pytest.TempPathFactory) -> Red:
    files = tmp_path_factory.mktemp("red")
    model = Path(shutil.copytree(find_model("tiny-llama"), files / "toy"))
    bundle = Path(shutil.copytree(farm.bundle, files / "bundle"))
    manifest = bundle / "bundle.toml"
    manifest.write_text(manifest.read_text().replace('"token_ms=5"', '"token_ms=1", "--synthetic", "short_tokens=3"'))
    words = ["--plan", str(farm.plan), "--bundle", str(bundle), "--model", str(model), "--threads", "1"]
    done = farm.run(files / "run", "host", *words)
    return Red(done.status, done.text, done.folder, model, bundle)


REJECTED = ["backend_missing_on_phone"] * 2 + ["token_count_short"] * 2


def test_nothing_left_to_do_is_said_and_the_status_is_that_of_the_records(farm: Farm, red: Red) -> None:
    assert (red.status, red.verdicts) == (1, REJECTED), red.text
    before = red.folder.results.read_bytes()
    again = farm.run(red.folder.path, "host", "--resume")
    assert again.status == 1, again.text
    assert "nothing is left to do on these phones, no cell was run" in again.text
    assert "2 rejected (token_count_short), 2 unsupported" in again.text
    assert again.folder.results.read_bytes() == before


def test_rerun_does_only_what_it_names_as_a_new_attempt(farm: Farm, red: Red, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(red.folder.path, tmp_path / "copy"))
    again = farm.run(folder, "host", "--rerun", "reason=token_count_short,noisy")
    assert again.status == 1, again.text
    assert "2 of 4 cells of these phones were to be done" in again.text
    attempts = [(record.reason, record.attempt) for record in again.folder.records()]
    assert attempts[:4] == [(record.reason, 1) for record in red.folder.records()]
    assert attempts[4:] == [("token_count_short", 2)] * 2
    assert again.verdicts == REJECTED
    shown = farm.run(folder, "host", "--resume", "--dry-run-plan")
    assert (shown.status, shown.text.count("done before")) == (0, 4)


def refusal(farm: Farm, *words: str) -> str:
    """Return what a command line is refused with."""
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--devices", "host", *words]
    done = subprocess.run(argv, env=farm.env, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    return done.stderr


def test_another_plan_model_or_bundle_is_refused_and_nothing_is_changed(farm: Farm, red: Red) -> None:
    before = {path.name: path.read_bytes() for path in red.folder.path.iterdir() if path.is_file()}
    resume = ["--run-dir", str(red.folder.path), "--resume"]
    assert "the plan differs from the run's: threads was [1] and is [1, 2]: " in refusal(farm, *resume, "--threads=1,2")
    (red.model / "notes.txt").write_text("changed")
    said = refusal(farm, *resume)
    (red.model / "notes.txt").unlink()
    assert f"model toy is not what this run was begun with: its content was {red.model_hash[:12]} and is " in said
    assert "bring the old files back, or begin a new run folder" in said
    said = refusal(farm, *resume, "--bundle", str(farm.bundle))
    assert (
        f"bundle synthetic is not what this run was begun with: its content was {red.bundle_hash[:12]} and is" in said
    )
    assert before == {path.name: path.read_bytes() for path in red.folder.path.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--resume"], "--resume needs --run-dir: say which run"),
        (["--resume", "--run-dir", "EMPTY"], "is not a run folder (it has no run.json): name one below reports/"),
    ],
)
def test_resume_without_a_run_is_refused_in_one_sentence(
    farm: Farm, tmp_path: Path, words: list[str], sentence: str
) -> None:
    assert sentence in refusal(farm, *[str(tmp_path) if word == "EMPTY" else word for word in words])
    assert list(tmp_path.iterdir()) == []
