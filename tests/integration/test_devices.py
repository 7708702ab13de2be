"""Which phones, and why not: ``mnn-farm devices`` and ``pytest --devices`` with phones in every state, on real adb."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.adb.server import AdbServer
from harness.bench.lease import lease_file
from harness.bench.phone import open_transport
from harness.cli import app
from harness.core.adbprogram import find_adb
from harness.core.deadline import Deadline
from harness.core.provider import Endpoint
from harness.core.resources import data_root
from harness.payload.probe import Probe
from harness.store.runfolder import RunFolder
from harness.virtual.control import PhoneControl

PHONES = ("high", "low")


class Lab:
    """Two phones on a server of their own, and our programs with the same cache and state."""

    def __init__(self, endpoints: list[Endpoint], home: Path) -> None:
        self.high, self.low = endpoints
        self.adb = f"{self.high.adb_host}:{self.high.adb_port}"
        self.adb_program = [str(find_adb()), "-P", str(self.high.adb_port)]
        self.home = home

    def control(self, endpoint: Endpoint) -> PhoneControl:
        return PhoneControl(endpoint.name)

    def state(self, serial: str) -> str | None:
        server = AdbServer(self.high.adb_host, self.high.adb_port)
        return next((info.state for info in server.transports() if info.serial == serial), None)

    def tell_adb(self, *words: str) -> None:
        subprocess.run([*self.adb_program, *words], capture_output=True, timeout=30, check=False)

    def break_low(self, fault: str) -> None:
        """Give the second phone a fault that has the name of adb's state for it."""
        self.control(self.low).inject(fault)

        def listed() -> bool:
            state = self.state(self.low.transport_serial)
            if state is None:
                # A server that is told to connect while it still lets go of the phone forgets it.
                subprocess.run(
                    [*self.adb_program, "connect", self.low.transport_serial], capture_output=True, timeout=30
                )
            return state == fault

        until(listed, f"the state {fault}")

    def farm(self, *args: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(app, args, env={"MNN_FARM_STATE": str(self.home / "state")})
        return result.exit_code, result.stdout, result.stderr

    def seen(self) -> dict[str, dict[str, Any]]:
        status, out, err = self.farm("devices", "--json", "--adb", self.adb)
        assert (status, err) == (0, "")
        return {phone["name"]: phone for phone in json.loads(out)["phones"]}

    def pytest(self, *args: str) -> tuple[int, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "ANDROID_"))}
        env = {**kept, "COLUMNS": "250", "MNN_FARM_STATE": str(self.home / "state")}
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--adb", self.adb, "--plan", "smoke"]
        done = subprocess.run(
            [*argv, *args], env=env, cwd=self.home, capture_output=True, text=True, timeout=120, check=False
        )
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout + done.stderr


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = Deadline(60, what, "the test")
    while not condition():
        deadline.remaining_s()
        time.sleep(0.05)


@pytest.fixture
def lab(virtual_phones: list[Endpoint], tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(virtual_phones, tmp_path)
    yield lab
    for endpoint in virtual_phones:
        lab.control(endpoint).heal()


def serial(endpoint: Endpoint) -> str:
    return endpoint.transport_serial


def test_healthy_phones_are_shown_with_what_is_known_of_them(lab: Lab) -> None:
    high, low = (lab.seen()[serial(endpoint)] for endpoint in (lab.high, lab.low))
    assert (high["state"], high["usable"], high["tier"], high["why"]) == ("device", True, "high", None)
    assert (low["state"], low["usable"], low["tier"]) == ("device", True, "low")
    assert high["ram_bytes"] > low["ram_bytes"] > 2**30
    assert (high["android_release"], high["sdk"]) == ("14", 34)
    assert 0 < high["battery_pct"] <= 100
    assert 10 < high["battery_c"] < 60
    assert (high["lease"], high["hold"]) == (None, None)
    assert set(high["nulls"]) <= {"id"}
    status, out, _ = lab.farm("devices", "--adb", lab.adb)
    [line] = [line for line in out.splitlines() if line.split()[:1] == [serial(lab.high)]]
    assert (status, line.split()[1], line.split()[-1]) == (0, "device", "yes")


def test_a_lease_is_shown_with_its_holder_and_makes_the_phone_busy(lab: Lab) -> None:
    transport = open_transport(lab.high)
    probe = Probe.install(transport)
    taken = probe.take_lease(lease_file(transport.base_dir), owner="ada", host="lab9", purpose="soak", ttl_s=60)
    assert taken.holder is not None
    try:
        phone = lab.seen()[serial(lab.high)]
        assert (phone["usable"], phone["why"]["code"]) == (False, "busy")
        assert (phone["lease"]["owner"], phone["lease"]["host"], phone["lease"]["purpose"]) == ("ada", "lab9", "soak")
        assert phone["why"]["reason"].startswith("in use by ada on lab9 for soak, at least ")
        status, text = lab.pytest("--devices", serial(lab.high))
        assert status == 11
        assert f"{serial(lab.high)} was left out: in use by ada on lab9 for soak" in text
        assert "reading facts" not in text
    finally:
        probe.end_lease(lease_file(transport.base_dir), taken.holder.id)


@pytest.mark.parametrize(("fault", "code"), [("offline", "device_offline"), ("unauthorized", "unauthorized")])
def test_a_phone_that_cannot_be_used_is_shown_with_reason_and_remedy(lab: Lab, fault: str, code: str) -> None:
    lab.break_low(fault)
    phones = lab.seen()
    bad = phones[serial(lab.low)]
    assert (bad["state"], bad["usable"], bad["tier"], bad["why"]["code"]) == (fault, False, None, code)
    assert bad["why"]["remedy"]
    assert bad["nulls"]["tier"] == f"not asked: adb lists it as {fault}"
    assert phones[serial(lab.high)]["usable"] is True


def test_a_held_phone_is_known_again_released_and_in_the_history(lab: Lab) -> None:
    name = serial(lab.high)
    status, out, err = lab.farm("devices", "hold", name, "--reason", "new battery ordered", "--adb", lab.adb)
    assert (status, out, err) == (0, f"{name} is held by a person until it is released: new battery ordered\n", "")
    phone = lab.seen()[name]
    assert (phone["usable"], phone["why"]["code"], phone["hold"]["by"]) == (False, "held", "person")
    status, text = lab.pytest("--devices", f"{name},{serial(lab.low)}", "--strict-health")
    assert status == 10
    assert f"{name} was left out: held by a person until it is released: new battery ordered" in text
    assert f"(mnn-farm devices release {name})" in text
    assert not (lab.home / "reports").exists()
    status, out, _ = lab.farm("devices", "history", name, "--json")
    assert [row["hold"]["detail"] for row in json.loads(out)["phones"]] == ["new battery ordered"]
    assert lab.farm("devices", "release", name)[:2] == (
        0,
        f"{name} is released; it was held by a person until it is released: new battery ordered\n",
    )
    assert lab.farm("devices", "release", name)[:2] == (0, f"{name} was not held\n")
    assert lab.seen()[name]["usable"] is True


def test_who_is_left_out_is_in_the_run_folder_and_does_not_stop_the_others(lab: Lab) -> None:
    lab.break_low("unauthorized")
    lab.adb = f"127.0.0.1:1,{lab.adb}"
    status, text = lab.pytest("--devices", "tier=high", "--run-dir", "out", "--threads=1", "--repeats=1")
    assert status == 0, text
    info = RunFolder(lab.home / "out").read_info()
    assert [member.phone.tier for member in info.fleet] == ["high"]
    silent, low = info.left_out
    assert (silent.name, silent.code) == ("adb server 127.0.0.1:1", "adb_error")
    assert (low.name, low.code, low.reason) == (serial(lab.low), "unauthorized", "adb lists it as unauthorized")
    assert f"left out: {serial(lab.low)}: adb lists it as unauthorized (unlock the phone" in text


@pytest.mark.parametrize(
    ("spec", "there"), [("R58M", "no phone has this serial"), ("all,not:usb:9-9", "no phone is meant by it")]
)
def test_a_name_nobody_has_is_wrong_usage_and_lists_what_is_there(lab: Lab, spec: str, there: str) -> None:
    status, text = lab.pytest("--devices", spec)
    assert status == 4
    assert f"--devices {spec.rpartition(',')[2]}: {there}; there are: " in text
    assert f"{serial(lab.high)} (device, Fennel_F24_Pro)" in text


def test_a_phone_under_two_addresses_takes_part_once(lab: Lab) -> None:
    port = serial(lab.high).partition(":")[2]
    lab.tell_adb("connect", f"localhost:{port}")
    try:
        until(lambda: lab.state(f"localhost:{port}") == "device", "the second address")
        status, text = lab.pytest("--devices", "model=Fennel*", "--dry-run-plan", "--strict-health")
        assert status == 0, text
        assert "1 phones, about" in text
    finally:
        subprocess.run(
            [*lab.adb_program, "disconnect", f"localhost:{port}"], capture_output=True, timeout=20, check=True
        )


def test_no_server_that_answers_is_no_phone(lab: Lab) -> None:
    lab.adb = "127.0.0.1:1"
    status, text = lab.pytest("--devices", "all")
    assert status == 11
    assert "none of --adb can be used: no adb server answers at 127.0.0.1:1" in text


def test_a_phone_that_is_given_up_is_named_at_the_end_and_in_the_report(lab: Lab) -> None:
    plan = lab.home / "short.toml"
    smoke = (data_root() / "profiles" / "plans" / "smoke.toml").read_text()
    plan.write_text(f"{smoke}\n[recovery]\nwait_s = 1\ntries = 1\n")
    transport = open_transport(lab.low)
    Probe.install(transport)
    models = f"{transport.base_dir}/models"
    transport.shell(["rm", "-rf", models], deadline=Deadline(30, "removing models", "low"))
    lab.control(lab.low).inject("cut-push=100000")
    both = f"{serial(lab.high)},{serial(lab.low)}"
    status, text = lab.pytest("--devices", both, "--plan", str(plan), "--backends=cpu", "--run-dir", "out")
    assert status == 10, text
    assert f"{serial(lab.low)} was given up (device_lost): 2 cells unfinished, finish with --resume" in text
    reasons = [record.reason for record in RunFolder(lab.home / "out").records() if record.phone.tier == "low"]
    assert reasons == ["device_lost", "phone_gone"]
    assert "cost 2 cells, has not measured since" in (lab.home / "out" / "report.html").read_text(encoding="utf-8")
