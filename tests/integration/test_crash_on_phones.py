"""The crash bundle of cells that die on a virtual phone, and the zip for strangers that is made of it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.bench.context import RunContext
from harness.bench.leave import leave_as_found
from harness.bench.member import member_of
from harness.bench.phone import ConnectedPhone, connect
from harness.bench.session import PhoneSession
from harness.cli import app
from harness.core.adbprogram import find_adb
from harness.core.deadline import Deadline
from harness.core.provider import Endpoint
from harness.core.resources import data_root
from harness.payload.bundle import read_bundle
from harness.payload.models import find_model, read_model
from harness.payload.probe_events import Event, Output
from harness.plan.load import load_plan
from harness.plan.matrix import cells_of
from harness.plan.tiers import load_tier_rules
from harness.report.besides import known_cause
from harness.store.head import RunInfo
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord
from harness.virtual.control import PhoneControl

PLAN = """
schema = 1
models = ["tiny-llama"]
backends = ["cpu"]
cold_start = false
threads = [1]
prompt_tokens = [16]
generate_tokens = [8]
warmups = 0
repeats = 1
cell_timeout_s = 30
[roofline]
measure = false
[prepare]
screen = "keep"
stay_awake = false
doze_off = false
animations_off = true
"""
FAST = ("load_ms=5", "prefill_ms=5", "first_token_ms=1", "token_ms=1")
Crashed = tuple[CellRecord, Path]


@pytest.fixture(scope="module")
def connected(virtual_phone: Endpoint) -> Iterator[ConnectedPhone]:
    phone = connect(virtual_phone, load_tier_rules())
    yield phone
    leave_as_found(phone, lambda _: None)


@pytest.fixture(scope="module")
def measure(connected: ConnectedPhone, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Crashed]:
    """Run one cell with these orders; return its record and its run folder."""

    def run(
        *orders: str, say: Callable[[str], None] = lambda _: None, watch: Callable[[Event], None] = lambda _: None
    ) -> Crashed:
        folder = tmp_path_factory.mktemp("crash")
        source = folder / "bundle"
        shutil.copytree(data_root() / "device_bins" / "runner" / "synthetic", source)
        words = [word for order in (*FAST, *orders) for word in ("--synthetic", order)]
        text = (source / "bundle.toml").read_text()
        (source / "bundle.toml").write_text(text.replace("extra_args = []", f"extra_args = {json.dumps(words)}"))
        (folder / "plan.toml").write_text(PLAN)
        plan = load_plan(folder / "plan.toml")
        run_folder = RunFolder.create(folder / "run")
        models = {name: read_model(find_model(name)) for name in plan.models}
        context = RunContext("crash", run_folder.path, plan, read_bundle(source), models)
        command = ("pytest", "--devices", connected.transport.serial, "--run-dir", str(run_folder.path))
        head: dict[str, Any] = {"run_id": "crash", "started": "2026-01-01T00:00:00Z", "command": command}
        head |= {"harness_version": "0", "versions": {}, "host": {}, "plan_name": "p", "plan": {}}
        run_folder.write_info(RunInfo(fleet=(member_of(connected),), **head))
        [cell] = cells_of(plan)
        PhoneSession(connected, context, say, watch).run_cell(cell)
        [record] = run_folder.records()
        return record, run_folder.path

    return run


@pytest.fixture(scope="module")
def crashed(measure: Callable[..., Crashed]) -> Crashed:
    """A cell that died of SIGSEGV while it decoded."""
    return measure("fault=SIGSEGV", "at=decode")


def bundle_of(crashed: Crashed) -> tuple[Path, dict[str, Any]]:
    record, run = crashed
    assert record.raw is not None
    folder = run / record.raw / "crash"
    return folder, json.loads((folder / "crash.json").read_bytes())


def pid_of(crashed: Crashed) -> int:
    record, run = crashed
    assert record.raw is not None
    start = json.loads((run / record.raw / "events.jsonl").read_bytes().split(b"\n")[0])
    return int(start["pid"])


def farm(*words: str) -> Any:
    return CliRunner().invoke(app, ["crash", *words])


def findings_in(path: Path, *more: str) -> list[Any]:
    done = CliRunner().invoke(app, ["triage", str(path), "--json", *more])
    assert done.exit_code == 1, done.output
    found: list[Any] = json.loads(done.stdout)["findings"]
    return found


def test_the_bundle_of_a_crash_holds_what_the_phone_told_of_it(crashed: Crashed) -> None:
    record, _ = crashed
    assert (record.verdict.value, record.reason) == ("failed", "crash"), record.detail
    folder, told = bundle_of(crashed)
    assert told["log"] == {"begin": "seen", "end": "seen", "gap": None}
    assert (told["verdict"], told["reason"], told["findings"][0]["code"]) == ("failed", "crash", "crash")
    block = f"pid: {pid_of(crashed)}, tid: ".encode()
    assert block in (folder / "crash-buffer.log").read_bytes()
    assert block in (folder / "evidence" / "phone.log").read_bytes()
    assert b"MemAvailable:" in (folder / "meminfo-at-death.txt").read_bytes()
    assert (folder / "memory.csv").read_bytes().startswith(b"t_s,processes,rss_bytes,")
    missing = {one["what"]: one["why"] for one in told["missing"]}
    assert "ermission denied" in missing["/data/tombstones"]
    # Virtual phones show the kernel's log where this computer does.
    assert ("dmesg" in missing) != (folder / "dmesg.log").exists()


def test_the_log_between_our_own_lines_is_kept(crashed: Crashed) -> None:
    folder, _ = bundle_of(crashed)
    log = (folder / "logcat.log").read_bytes()
    assert re.search(rb"I mnn-farm: end [0-9a-f]{12}", log)
    assert b"Fatal signal 11 (SIGSEGV)" in log
    assert b": begin " not in log, "it is what the log is read from"


def test_the_command_repeats_the_crash(crashed: Crashed, connected: ConnectedPhone) -> None:
    folder, _ = bundle_of(crashed)
    text = (folder / "command.txt").read_text()
    host, port = connected.transport.server[0].split(":") if connected.transport.server else ("", "")
    assert f"adb -H {host} -P {port} -s {connected.transport.serial} shell " in text
    script = text.replace("adb -H", f"{shlex.quote(str(find_adb()))} -H")
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, timeout=60, check=False)
    assert b"exit code 139" in done.stdout, done.stdout + done.stderr


def test_the_zip_gives_the_records_first_finding_as_it_is_and_redacted(crashed: Crashed, tmp_path: Path) -> None:
    record, run = crashed
    known = known_cause(record)
    assert known is not None
    plain, masked = tmp_path / "plain.zip", tmp_path / "masked.zip"
    assert farm(str(run), "-o", str(plain)).exit_code == 0
    assert farm(str(run), record.cell_id[:8], "-o", str(masked), "--redact").exit_code == 0
    for path in (plain, masked):
        first = findings_in(path)[0]
        assert (first["code"], first["title"]) == (known.code, known.title)


def test_a_redacted_zip_names_the_phone_nowhere(crashed: Crashed, connected: ConnectedPhone, tmp_path: Path) -> None:
    record, run = crashed
    done = farm(str(run), "-o", str(tmp_path / "x.zip"), "--redact", "--json")
    [told] = json.loads(done.stdout)["zips"]
    secrets = {record.phone.serial, record.phone.name, record.phone.id, connected.transport.serial}
    with zipfile.ZipFile(told["zip"]) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    assert {"README.md", "crash.json", "record.json", "command.txt", "facts.json", "payload.json"} < set(files)
    for name, data in files.items():
        for secret in secrets:
            assert secret.encode() not in data, (name, secret)
            assert secret not in name
        if name.endswith(".json"):
            json.loads(data)
    assert b"<serial-1>" in files["command.txt"]
    assert b"SIGSEGV" in files["README.md"]
    listed = {one["name"]: one["bytes"] for one in json.loads(files["crash.json"])["files"]}
    assert listed == {name: len(data) for name, data in files.items() if name != "crash.json"}


def test_a_kill_for_want_of_memory_is_in_the_bundle_with_the_line_that_tells_it(
    measure: Callable[..., Crashed], virtual_phone: Endpoint, tmp_path: Path
) -> None:
    control = PhoneControl(virtual_phone.name)
    killed: list[str] = []

    def watch(event: Event) -> None:
        if isinstance(event, Output) and b'"load"' in event.data and not killed:
            control.inject("lmkd-kill")
            killed.append("once")

    crashed = measure("fault=hang", "at=decode", "peak_mb=64", watch=watch)
    record, _ = crashed
    assert (record.verdict.value, record.reason) == ("failed", "out_of_memory"), record.detail
    _, told = bundle_of(crashed)
    assert [line for line in told["deaths"] if "lowmemorykiller" in line and f"({pid_of(crashed)})" in line]
    known = known_cause(record)
    assert known is not None
    assert farm(str(crashed[1]), "-o", str(tmp_path / "x.zip"), "--redact").exit_code == 0
    assert findings_in(tmp_path / "x.zip")[0]["code"] == known.code == "out_of_memory"


def test_a_log_that_went_round_meanwhile_is_noticed(measure: Callable[..., Crashed], connected: ConnectedPhone) -> None:
    lines = "for _ in range(140): ring.append('flood', 'I', 1, 1, 'y' * 3000)"
    flood = f"from pathlib import Path; from adbd.logring import LogRing; ring = LogRing(Path('/dev/log'))\n{lines}"

    def say(what: str) -> None:
        if what.startswith("reading the phone's log"):
            argv = ["python3", "-c", f"import sys; sys.path.insert(0, '/system/lib')\n{flood}"]
            done = connected.transport.shell(argv, deadline=Deadline(60, "a flood", "it"))
            assert done.exit_code == 0, done.stderr

    crashed = measure("fault=SIGABRT", "at=load", say=say)
    folder, told = bundle_of(crashed)
    assert told["log"]["begin"] == "lost"
    assert told["log"]["end"] == "seen"
    assert {"what": "logcat", "why": told["log"]["gap"]} in told["missing"]
    assert f"pid: {pid_of(crashed)}, tid: ".encode() in (folder / "crash-buffer.log").read_bytes()


def test_a_phone_that_is_lost_while_it_is_asked_leaves_the_verdict_and_the_reason_why_less_is_there(
    measure: Callable[..., Crashed], virtual_phone: Endpoint
) -> None:
    control = PhoneControl(virtual_phone.name)

    def say(what: str) -> None:
        if what.startswith("collecting"):
            control.inject("offline")

    try:
        record, run = measure("fault=SIGSEGV", "at=load", say=say)
    finally:
        control.heal()
    assert (record.verdict.value, record.reason) == ("failed", "crash"), record.detail
    folder, told = bundle_of((record, run))
    assert "Fatal signal" in (folder / "logcat.log").read_text()
    assert {one["what"] for one in told["missing"]} >= {"logcat -b crash", "/proc/meminfo at death"}
