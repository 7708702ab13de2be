"""Two builds of known speed that take turns on a virtual phone behind the real adb server, and what is said of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.known import plan_of
from benchmarks.ordered import ordered_bundle
from harness.bench.context import RunContext
from harness.bench.phone import connect
from harness.bench.session import PhoneSession
from harness.cli import app
from harness.core.provider import Endpoint
from harness.payload.bundle import read_bundle
from harness.payload.models import find_model, read_model
from harness.plan.matrix import Block, arms_of, cells_of
from harness.plan.tiers import load_tier_rules
from harness.report.compare import compare_builds
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord

DEADLINE_S = 120
TOKEN_MS = 5.0
SLOWER = 1.25
PLAN = """
schema = 1
models = ["tiny-llama"]
backends = ["cpu"]
cold_start = false
threads = [1]
prompt_tokens = [8]
generate_tokens = [16]
warmups = 0
repeats = 3
[reference]
policy = "off"
[roofline]
measure = false
"""


def build(folder: Path, token_ms: float) -> Path:
    """A build that takes so long for a token."""
    orders = ("load_ms=10", "prefill_ms=20", "first_token_ms=1", f"token_ms={token_ms:.6f}")
    return ordered_bundle(folder, orders, {"name": folder.name})


@dataclass(frozen=True)
class Done:
    """A run of pytest that has ended well."""

    folder: Path
    records: list[CellRecord]
    text: str


@pytest.fixture(scope="module")
def done(virtual_phone: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Done:
    files = tmp_path_factory.mktemp("files")
    plan, run = files / "plan.toml", files / "run"
    plan.write_text(PLAN)
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "ANDROID_"))}
    env |= {"ANDROID_ADB_SERVER_PORT": str(virtual_phone.adb_port), "COLUMNS": "200", "CI": "true"}
    builds = f"{build(files / 'old', TOKEN_MS)},{build(files / 'new', TOKEN_MS * SLOWER)}"
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--devices", virtual_phone.transport_serial]
    argv += ["--plan", str(plan), "--ab", builds, "--run-dir", str(run)]
    ended = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    # Every turn was measured well, which is what pytest's status speaks of; compare's speaks of the change.
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return Done(run, list(RunFolder(run).records()), ended.stdout)


def test_two_builds_take_turns_on_the_phone(done: Done) -> None:
    assert [record.bundle.name for record in done.records] == ["old", "new", "new", "old", "new", "old", "old", "new"]
    assert {record.verdict.value for record in done.records} == {"ok"}
    assert [record.attempt for record in done.records if record.bundle.name == "new"] == [1, 2, 3, 4]
    assert [record.ab.block for record in done.records if record.ab is not None] == list(range(8))
    assert len(RunFolder(done.folder).latest()) == RunFolder(done.folder).read_info().cells == 2


def test_the_slower_build_is_called_slower_in_the_end_in_its_file_and_by_compare(done: Done) -> None:
    told: dict[str, Any] = json.loads((done.folder / "ab.json").read_text())
    decode = next(figure for figure in told["cells"][0]["figures"] if figure["name"] == "decode_tps")
    assert decode["verdict"] == "slower"
    low, high = decode["ci95"]
    assert low - 0.01 < 1 / SLOWER < high + 0.01
    assert "1 cell compared: 1 worse" in done.text
    said = CliRunner().invoke(app, ["compare", str(done.folder)])
    assert said.exit_code == 1
    assert "1 cell compared: 1 worse" in said.output


def one_build(done: Done, folder: Path, name: str) -> Path:
    """A run of one of the builds, as it would have been without the other: its first turn."""
    record = next(record for record in done.records if record.bundle.name == name)
    head = RunFolder(done.folder).read_info()
    assert head.ab is not None
    assert head.bundle is not None
    bundle = next(one for one in (head.bundle, head.ab.bundle) if one.name == name)
    run = RunFolder.create(folder / name)
    run.write_info(head.model_copy(update={"bundle": bundle, "ab": None}))
    run.append(record.model_copy(update={"ab": None}))
    return run.path


def test_what_got_worse_is_measured_again_on_the_phone_that_has_its_id(
    done: Done, virtual_phone: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(virtual_phone.adb_port))
    base, new = one_build(done, tmp_path, "old"), one_build(done, tmp_path, "new")
    said = CliRunner().invoke(app, ["compare", str(base), str(new), "--verify", "--json"])
    assert said.exit_code == 1, said.output
    told = json.loads(said.stdout)["cells"][0]
    again = tmp_path / f"new-verify-{told['cell_id'][:6]}"
    assert (told["check"], told["checked"]) == ("confirmed", str(again))
    turns = list(RunFolder(again).records())
    assert [record.ab.arm for record in turns if record.ab is not None] == ["A", "B", "B", "A", "B", "A", "A", "B"]
    assert {record.phone.id for record in turns} == {done.records[0].phone.id}
    assert {record.cell_id for record in turns} == {record.cell_id for record in done.records}


def test_what_drifts_by_a_tenth_cancels_to_within_a_percent(virtual_phone: Endpoint, tmp_path: Path) -> None:
    plan = plan_of(repeats=3, generate_tokens=[16])
    models = {name: read_model(find_model(name)) for name in plan.models}
    folder = RunFolder.create(tmp_path / "run")
    session: PhoneSession | None = None
    arms = arms_of(2)
    for turn, arm in enumerate(arms):
        drift = 1 - 0.1 * turn / (len(arms) - 1)
        token_ms = TOKEN_MS * (SLOWER if arm == "B" else 1.0) / drift
        bundle = read_bundle(build(tmp_path / f"turn-{turn}", token_ms))
        context = RunContext("drifting", folder.path, plan, bundle, models, ab=bundle)
        if session is None:
            session = PhoneSession(connect(virtual_phone, load_tier_rules()), context, lambda _: None)
        session.context = context
        session.run_cell(replace(cells_of(plan)[0], block=Block("toy", arm, turn, len(arms))))
    assert session is not None
    session.close()
    [cell] = compare_builds(folder.records()).cells
    decode = cell.figure("decode_tps")
    assert decode is not None
    assert decode.change.ratio is not None
    assert decode.change.ci95 is not None
    # On a computer that has other things to do turns differ by more than a hundredth, and the interval says so.
    half = (decode.change.ci95[1] - decode.change.ci95[0]) / 2
    assert decode.change.ratio == pytest.approx(1 / SLOWER, abs=max(0.01, half))
