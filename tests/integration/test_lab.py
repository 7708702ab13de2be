"""A whole lab on this computer: a scheduler, three hosts with four phones each, controllers; processes as people start
them. The phones are virtual ones behind a real adb server; the runner waits as long as it is told and computes nothing.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchmarks.ordered import ordered_bundle
from harness.adb.transport import AdbTransport
from harness.bench.lease import lease_file
from harness.core.provider import Endpoint
from harness.payload.probe import Probe
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord

PHONES = ["mid*12"]
HOSTS, PHONES_A_HOST, CELLS = 3, 4, 2
DEADLINE_S = 180
PLAN = """
schema = 1
models = ["tiny-llama"]
backends = ["cpu"]
cold_start = false
threads = [1, 2]
prompt_tokens = [16]
generate_tokens = [8]
warmups = 0
repeats = 1
[roofline]
measure = false
[reference]
policy = "off"
[prepare]
screen = "keep"
stay_awake = false
doze_off = false
[lab]
by = "model"
"""
ORDERS = ("load_ms=50", "prefill_ms=20", "first_token_ms=1", "token_ms=100")


@dataclass
class Lab:
    """Its processes; ``said`` is what each wrote."""

    env: dict[str, str]
    files: Path
    phones: list[Endpoint]
    address: str
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def start(self, name: str, *words: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "harness.cli", "lab", *words]
        with (self.files / f"{name}.out").open("w") as out:
            process = subprocess.Popen(
                argv, env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, text=True, start_new_session=True
            )
        self.processes[name] = process
        return process

    def said(self, name: str) -> str:
        return (self.files / f"{name}.out").read_text()

    def host(self, number: int) -> subprocess.Popen[str]:
        mine = self.phones[number * PHONES_A_HOST : (number + 1) * PHONES_A_HOST]
        devices = ",".join(phone.transport_serial for phone in mine)
        server = f"127.0.0.1:{mine[0].adb_port}"
        words = ["--scheduler", self.address, "--devices", devices, "--adb", server, "--name", f"host{number}"]
        return self.start(f"host{number}", "host", *words)

    def run(self, name: str, *words: str) -> RunFolder:
        folder = self.files / name
        self.start(name, "run", "--scheduler", self.address, "--run-dir", str(folder), *words)
        return RunFolder(folder)

    @property
    def new(self) -> list[str]:
        return ["--plan", str(self.files / "plan.toml"), "--bundle", str(self.files / "bundle")]

    def ended(self, name: str) -> int:
        status = self.processes[name].wait(DEADLINE_S)
        assert "Traceback" not in self.said(name), self.said(name)
        return status

    def wait_for(self, name: str, what: str, condition: Callable[[], object]) -> None:
        end = time.monotonic() + DEADLINE_S
        while not condition():
            assert self.processes[name].poll() is None, f"{name} ended before {what}: {self.said(name)}"
            assert time.monotonic() < end, f"{what} did not come: {self.said(name)}"
            time.sleep(0.02)

    def status(self) -> list[dict[str, object]]:
        argv = [sys.executable, "-m", "harness.cli", "lab", "status", "--scheduler", self.address, "--json"]
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
        hosts: list[dict[str, object]] = json.loads(done.stdout)["hosts"]
        return hosts

    def lease_holders(self, phones: list[Endpoint]) -> list[str]:
        """Who holds these phones, as the phones say."""
        holders = []
        for phone in phones:
            transport = AdbTransport(phone)
            transport.state()
            holder = Probe.install(transport).show_lease(lease_file(transport.base_dir)).holder
            if holder is not None:
                holders.append(holder.purpose)
        return holders


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def lab(virtual_phones: list[Endpoint], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    files = tmp_path_factory.mktemp("lab")
    ordered_bundle(files / "bundle", ORDERS)
    (files / "plan.toml").write_text(PLAN)
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "ANDROID_", "COLUMNS"))}
    lab = Lab(env, files, virtual_phones, f"tcp://127.0.0.1:{free_port()}")
    try:
        lab.start("scheduler", "scheduler", "--listen", lab.address)
        for number in range(HOSTS):
            lab.host(number)
        for number in range(HOSTS):
            name = f"host{number}"
            lab.wait_for(name, "its phones are served", lambda name=name: "serves 4 phones" in lab.said(name))
        yield lab
    finally:
        for process in lab.processes.values():
            process.kill()
            process.wait()


def test_two_controllers_at_once_share_no_phone(lab: Lab) -> None:
    first = lab.run("first", *lab.new)
    lab.wait_for("first", "its first record", lambda: list(first.records()))
    second = lab.run("second", *lab.new, "--wait-lease", "120")
    holders: set[str] = set()

    def look() -> bool:
        now = lab.lease_holders(lab.phones[:1])
        holders.update(now)
        return lab.processes["first"].poll() is not None

    end = time.monotonic() + DEADLINE_S
    while not look():
        assert time.monotonic() < end
    assert (lab.ended("first"), lab.ended("second")) == (0, 0), lab.said("first") + lab.said("second")
    assert [all_once(first), all_once(second)] == [HOSTS * PHONES_A_HOST * CELLS] * 2
    assert any(first.read_info().run_id in holder for holder in holders)
    for phone in first.read_info().fleet:
        runs = sorted(span for folder in (first, second) for span in spans(folder, phone.phone.id))
        assert len(runs) == 2 * CELLS
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(runs)), "two runs at once on a phone"


def spans(folder: RunFolder, phone_id: str) -> list[tuple[int, int]]:
    """When runs of ours were on a phone, by its own clock (ns) and its own log."""
    found = []
    for record in folder.records():
        if record.phone.id == phone_id:
            lines = (folder.path / (record.raw or "none") / "events.jsonl").read_bytes().splitlines()
            found.append((json.loads(lines[0])["mono_ns"], json.loads(lines[-1])["mono_ns"]))
    return found


def all_once(folder: RunFolder) -> int:
    """Return how many cells there are, each ok and there once, with its raw output."""
    records = list(folder.records())
    assert Counter(record.cell_id for record in records) == dict.fromkeys((one.cell_id for one in records), 1)
    assert {record.reason or "ok" for record in records} == {"ok"}
    assert all((folder.path / (record.raw or "none") / "events.jsonl").is_file() for record in records)
    return len(records)


def test_cells_of_a_killed_host_are_done_elsewhere_each_once(lab: Lab) -> None:
    folder = lab.run("killed", *lab.new)

    def of_host(number: int) -> list[CellRecord]:
        names = {one.transport_serial for one in lab.phones[number * PHONES_A_HOST : (number + 1) * PHONES_A_HOST]}
        return [record for record in folder.records() if record.phone.name in names]

    lab.wait_for("killed", "a record of the host", lambda: of_host(2))
    lab.processes["host2"].send_signal(signal.SIGKILL)
    assert lab.ended("killed") == 0, lab.said("killed")
    assert all_once(folder) == HOSTS * PHONES_A_HOST * CELLS
    moved = [record for record in folder.latest() if record.planned_phone is not None]
    members = {member.phone.id: member.phone.name for member in folder.read_info().fleet}
    theirs = {phone.transport_serial for phone in lab.phones[2 * PHONES_A_HOST :]}
    assert moved
    assert {members[record.planned_phone or ""] for record in moved} <= theirs
    assert not {record.phone.name for record in moved} & theirs
    assert "host2 was lost" in lab.said("killed")
    assert (folder.path / "report.html").is_file()


def test_stopping_the_lab_ends_hosts_and_scheduler_and_leaves_the_phones(lab: Lab) -> None:
    assert {str(host["host"]) for host in lab.status()} == {"host0", "host1"}
    lab.start("stop", "stop", "--scheduler", lab.address)
    assert lab.ended("stop") == 0
    assert "the lab is down: 2 hosts" in lab.said("stop")
    assert [lab.ended(name) for name in ("host0", "host1", "scheduler")] == [0, 0, 0]
    assert lab.lease_holders(lab.phones[: 2 * PHONES_A_HOST]) == []
