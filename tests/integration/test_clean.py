"""``mnn-farm clean`` on a virtual phone through the real adb: what is ours goes, what is not stays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.bench.clean import clean
from harness.bench.lease import lease_file
from harness.bench.phone import connect, open_transport
from harness.cli import app
from harness.core.deadline import Deadline
from harness.core.errors import FarmError
from harness.core.provider import Endpoint
from harness.payload import room
from harness.payload.folder import read_folder
from harness.payload.probe import Probe, RunSpec
from harness.payload.store import ensure_on_phone
from harness.phone.ledger import Entry, LedgerFile
from harness.phone.prepare import prepare
from harness.plan.model import Preparation
from harness.plan.tiers import load_tier_rules
from harness.virtual.control import PhoneControl

SIZE = 3_000_000


class Phone:
    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.transport = open_transport(endpoint)
        self.base = self.transport.base_dir

    def says(self, *argv: str) -> str:
        return self.transport.shell(argv, deadline=self.deadline()).stdout.decode()

    def deadline(self) -> Deadline:
        return Deadline(60, "the test", self.transport.name)

    def ours(self) -> set[str]:
        return set(self.says("ls", "-A", self.base).split())

    def use(self, folder: Path) -> str:
        """Leave all that we ever leave on a phone: a payload, a changed setting, a run that goes on; return its id."""
        phone = connect(self.endpoint, load_tier_rules())
        (folder / "w.bin").write_bytes(b"\1" * SIZE)
        ensure_on_phone(self.transport, phone.probe, read_folder(folder), kind="models", label="model toy")
        prepare(self.transport, Preparation(animations_off=True), lambda _: None, self.deadline())
        self.says("mkdir", "-p", f"{self.base}/work/one")
        phone.probe.start(RunSpec(argv=("sleep", "600"), work_dir=f"{self.base}/work/one", deadline_s=600))
        assert phone.lease is not None
        phone.lease.give_back()
        return phone.identity.id

    def clean(self, *args: str) -> tuple[int, dict[str, Any]]:
        adb = f"{self.endpoint.adb_host}:{self.endpoint.adb_port}"
        words = ["clean", "--device", self.endpoint.transport_serial, "--adb", adb, "--json", *args]
        done = CliRunner().invoke(app, words, catch_exceptions=False)
        return done.exit_code, json.loads(done.stdout)


@pytest.fixture
def phone(virtual_phone: Endpoint) -> Phone:
    return Phone(virtual_phone)


def test_all_that_is_ours_goes_and_the_phone_is_as_before(phone: Phone, tmp_path: Path) -> None:
    settings = phone.says("settings", "list", "global")
    phone.says("sh", "-c", 'mkdir -p "$1" && echo mine >"$1/file"', "sh", "/data/local/tmp/other")
    phone_id = phone.use(tmp_path)
    assert phone.says("settings", "list", "global") != settings
    status, told = phone.clean()
    assert (status, told["ok"], told["left"], told["owed"]) == (0, True, [], [])
    assert told["freed_bytes"] >= SIZE
    assert "setting global/window_animation_scale" in told["back"]
    assert "new id" in told["notes"][0]
    assert phone.says("settings", "list", "global") == settings
    assert phone.says("ls", "/data/local/tmp").split() == ["other"]
    assert phone.says("cat", "/data/local/tmp/other/file") == "mine\n"
    assert "sleep" not in phone.says("ps", "-A", "-o", "ARGS")
    assert phone.use(tmp_path) != phone_id


def test_payloads_alone_leave_the_phone_its_id(phone: Phone, tmp_path: Path) -> None:
    phone_id = phone.use(tmp_path)
    status, told = phone.clean("--payloads")
    assert (status, told["notes"]) == (0, [])
    assert told["freed_bytes"] >= SIZE
    assert phone.ours() == {"bin", "lease", "phone-id.json"}
    assert phone.use(tmp_path) == phone_id
    assert phone.clean("--payloads")[1]["freed_bytes"] >= SIZE


def test_what_cannot_be_put_back_is_named_and_stays_written_on_the_phone(phone: Phone, tmp_path: Path) -> None:
    phone.use(tmp_path)
    ledger = LedgerFile(phone.transport, phone.deadline())
    odd = Entry("gravity", "mode", "1", "0", "lab9", "2026-01-01T00:00:00Z")
    ledger.write((*ledger.read()[0], odd))
    status, told = phone.clean()
    assert (status, told["ok"], told["left"]) == (1, False, ["owed.json"])
    assert told["owed"] == ["gravity mode: this version does not know how; the one that changed it does"]
    assert "setting global/window_animation_scale" in told["back"]
    assert ledger.read() == ((odd,), "")
    status, told = phone.clean("--force")
    assert (status, told["left"], phone.says("ls", phone.base)) == (1, [], "")


def test_a_phone_that_is_too_full_for_a_lease_is_given_room_first(phone: Phone, tmp_path: Path) -> None:
    phone.use(tmp_path)
    control = PhoneControl(phone.endpoint.name)
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if "full" in text:  # a virtual phone's disk stays full, whatever is removed
            control.heal()

    control.inject("full-disk")
    try:
        done = clean(phone.transport, say)
    finally:
        control.heal()
    assert "the phone is full: models and device binaries go first" in said
    assert (done.ok, done.left) == (True, ())
    assert done.freed_bytes is not None
    assert done.freed_bytes >= SIZE


def test_a_phone_that_somebody_uses_is_refused(phone: Phone, tmp_path: Path) -> None:
    phone.use(tmp_path)
    probe, file = Probe.install(phone.transport), lease_file(phone.base)
    taken = probe.take_lease(file, owner="ada", host="lab9", purpose="soak", ttl_s=60)
    assert taken.holder is not None
    with pytest.raises(FarmError, match=r"in use by ada on lab9 for soak, .*: clean it when it is free"):
        phone.clean()
    assert "models" in phone.ours()
    probe.end_lease(file, taken.holder.id)
    assert phone.clean()[0] == 0
    assert phone.clean()[1]["notes"] == ["there is nothing of ours on it"]


def test_the_store_on_the_phone_gives_room_by_last_use(
    phone: Phone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = Probe.install(phone.transport)
    payloads = []
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "w.bin").write_bytes(bytes([number + 1]) * SIZE)
        payloads.append(read_folder(folder))

    def bring(number: int, *, in_use: Sequence[str] = ()) -> str:
        payload = payloads[number]
        return ensure_on_phone(
            phone.transport, probe, payload, kind="models", label=f"model {number}", in_use=in_use
        ).path

    paths = [bring(0), bring(1)]
    for path, when in zip(paths, ("202601010000", "202501010000"), strict=True):
        phone.says("touch", "-t", when, path)
    bring(1)
    used = int(phone.says("du", "-sk", phone.base).split()[0]) * 1024
    monkeypatch.setattr(room, "CAP_BYTES", used + SIZE // 2)
    paths.append(bring(2))
    assert [path for path in paths if phone.says("ls", path)] == paths[1:]
