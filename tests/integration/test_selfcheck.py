"""The self-check on virtual phones: a healthy one passes, and each broken assumption is named, by its check alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.adb.server import AdbServer
from harness.adb.transport import AdbTransport
from harness.bench.lease import lease_file
from harness.core.errors import ConfigError, FarmError, HostError
from harness.core.provider import Endpoint
from harness.core.reasons import Reason
from harness.payload.probe import Probe
from harness.selfcheck import alone, run
from harness.selfcheck.report import exit_status
from harness.selfcheck.result import Outcome, Result
from harness.selfcheck.run import ALL, run_checks
from harness.selfcheck.subject import Subject
from harness.virtual.control import PhoneControl

PHONES = ("high", "denied", "android6")
CPUS = len(os.sched_getaffinity(0))


@pytest.fixture
def healthy(virtual_phones: list[Endpoint]) -> Iterator[Endpoint]:
    """The phone that breaks nothing of its own accord; healed afterwards, and free."""
    yield virtual_phones[0]
    PhoneControl(virtual_phones[0].name).heal()
    subject = subject_of(virtual_phones[0])
    file = lease_file(subject.transport.base_dir)
    holder = subject.probe.show_lease(file).holder
    if holder is not None:  # a phone that was lost could not be given back
        subject.probe.end_lease(file, holder.id)


def subject_of(endpoint: Endpoint) -> Subject:
    return Subject(AdbTransport(endpoint), AdbServer(endpoint.adb_host, endpoint.adb_port))


def check(endpoint: Endpoint, *only: str, when: tuple[str, str] | None = None) -> dict[str, Result]:
    """Run checks; ``when`` is what it says and which fault the phone is given at that moment."""
    subject = subject_of(endpoint)

    def say(text: str) -> None:
        if when is not None and text.startswith(when[0]):
            PhoneControl(endpoint.name).inject(when[1])

    subject.say = say
    return {result.check.name: result for result in run_checks(subject, only)}


def names(results: dict[str, Result], outcome: Outcome) -> list[str]:
    return [name for name, result in results.items() if result.outcome is outcome]


def evidence(results: dict[str, Result], name: str) -> str:
    return results[name].finding.evidence


def mnn_farm(endpoint: Endpoint, *words: str) -> subprocess.Popen[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("ANDROID_")}
    env = {**clean, "ANDROID_ADB_SERVER_PORT": str(endpoint.adb_port)}
    argv = [sys.executable, "-m", "harness.cli", "selfcheck", *words]
    return subprocess.Popen(
        argv, env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_a_healthy_phone_passes_with_its_cable_pulled_on_request(healthy: Endpoint, tmp_path: Path) -> None:
    serial = healthy.transport_serial
    with mnn_farm(healthy, "--device", serial, "--ask-cable", "--json", "--out", str(tmp_path)) as program:
        assert program.stderr is not None
        assert program.stdout is not None
        for line in program.stderr:
            if line.startswith("Now pull the cable"):
                PhoneControl(healthy.name).inject("cut=0.3")
        told: dict[str, Any] = json.loads(program.stdout.read())
    bad = {one["name"]: one["evidence"] for one in told["results"] if one["outcome"] != "pass"}
    lacking = {} if CPUS > 1 else {"affinity": bad.get("affinity")}
    assert (bad, program.returncode, told["ok"]) == (lacking, 0, True)
    assert [one["name"] for one in told["results"]] == [one.name for one in ALL]
    with zipfile.ZipFile(told["zip"]) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    assert {"results.json", "facts.json", "getprop.txt", "logcat.txt", "raw/detached.jsonl"} < set(files)
    assert json.loads(files["results.json"])["results"] == told["results"]
    serialno = AdbTransport(healthy).shell(["getprop", "ro.serialno"], deadline=subject_of(healthy).deadline).stdout
    assert not [name for name, content in files.items() if serialno.strip() in content or serial.encode() in content]
    assert [line for line in told["redacted"] if line.startswith("serial: ")]


@pytest.mark.skipif(CPUS < 2, reason="one core is all there is")
def test_affinity_that_is_taken_away_is_named(healthy: Endpoint) -> None:
    PhoneControl(healthy.name).inject("affinity-lost")
    results = check(healthy, "affinity")
    assert names(results, Outcome.FAIL) == ["affinity"]
    assert "it may run on 0" in evidence(results, "affinity")


def test_a_phone_that_sleeps_when_nobody_is_on_adb_is_named(healthy: Endpoint) -> None:
    PhoneControl(healthy.name).inject("sleeps-alone")
    results = check(healthy, "no-sleep")
    assert names(results, Outcome.FAIL) == ["no-sleep"]
    assert "the phone stood still: longest pause between samples 2." in evidence(results, "no-sleep")


def test_a_phone_that_does_not_wake_again_is_named_and_woken(
    healthy: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alone, "_FOLLOW_S", 2.0)
    results = check(healthy, "no-sleep", when=("leaving the phone alone", "asleep"))
    assert names(results, Outcome.FAIL) == ["no-sleep"]
    assert "it stands still (mWakefulness=Asleep, mIsPowered=false)" in evidence(results, "no-sleep")


def test_runs_that_die_with_the_connection_are_named_and_so_is_the_lease(healthy: Endpoint) -> None:
    PhoneControl(healthy.name).inject("detached-die")
    results = check(healthy, "detached-run", "lease-kept")
    assert names(results, Outcome.FAIL) == ["detached-run", "lease-kept"]
    assert "the run did not outlive the connection" in evidence(results, "detached-run")
    assert "is gone, though nobody gave it back" in evidence(results, "lease-kept")


def test_sensors_that_are_denied_are_named_with_path_and_errno(virtual_phones: list[Endpoint]) -> None:
    results = check(virtual_phones[1], "temperature", "clocks", "clock-caps", "memory", "battery")
    assert names(results, Outcome.FAIL) == ["temperature", "clocks", "clock-caps"]
    assert "/sys/class/thermal/thermal_zone0/temp (EACCES)" in evidence(results, "temperature")
    assert "cpu0/cpufreq/scaling_cur_freq (EACCES)" in evidence(results, "clocks")
    assert "cpu0/cpufreq/scaling_max_freq (EACCES)" in evidence(results, "clock-caps")


def test_an_adbd_without_exit_codes_ends_it_and_says_so(virtual_phones: list[Endpoint]) -> None:
    results = check(virtual_phones[2])
    assert names(results, Outcome.FAIL) == ["shell-protocol"]
    assert len(names(results, Outcome.UNKNOWN)) == len(ALL) - 1
    assert evidence(results, "nothing-left") == "not tried, because shell-protocol failed"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("garbage", "exit code, stdout and stderr came as (7, "),
        ("truncated", "came as (7, b'', b'to stderr"),
        ("exit-lost", "adb lists the phone as usable, but: "),
    ],
)
def test_a_shell_that_cannot_be_trusted_is_named_and_ends_it(healthy: Endpoint, fault: str, said: str) -> None:
    PhoneControl(healthy.name).inject(fault)
    results = check(healthy, "bytes")
    assert names(results, Outcome.FAIL) == ["exit-codes"]
    assert said in evidence(results, "exit-codes")
    assert evidence(results, "bytes") == "not tried, because exit-codes failed"


def test_a_storage_that_takes_nothing_is_named(healthy: Endpoint) -> None:
    PhoneControl(healthy.name).inject("read-only")
    results = check(healthy, "lease-kept")
    assert names(results, Outcome.FAIL) == ["folder", "lease-kept"]
    assert "EROFS" in evidence(results, "lease-kept")
    assert "Read-only file system" in evidence(results, "folder")
    assert results["program-runs"].outcome is Outcome.PASS, "the probe was there before"


def test_what_this_computer_cannot_try_is_neither_passed_nor_the_phones_fault(
    healthy: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_more: object) -> Probe:
        raise HostError("the compiler is missing")

    with monkeypatch.context() as patch:
        patch.setattr(Probe, "install", refuse)
        results = check(healthy, "boot-id")
    assert names(results, Outcome.FAIL) == []
    assert evidence(results, "program-runs") == "this computer cannot try it: the compiler is missing"
    assert evidence(results, "boot-id") == "the probe is not on the phone (the compiler is missing)"
    assert exit_status(list(results.values())) == 3


def test_a_phone_that_is_lost_in_the_middle_is_named_and_ends_it(
    healthy: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "RETURN_S", 0.5)
    results = check(healthy, "boot-id", "memory", "known-times", when=("checking memory", "cut"))
    assert names(results, Outcome.FAIL) == ["memory"]
    assert "the phone was lost" in evidence(results, "memory")
    assert "did not come back" in evidence(results, "memory")
    assert results["boot-id"].outcome is Outcome.PASS
    assert evidence(results, "known-times") == "not tried: the phone was lost during memory"


def test_a_phone_that_was_gone_for_a_moment_is_named_and_the_rest_goes_on(healthy: Endpoint) -> None:
    results = check(healthy, "memory", "battery", when=("checking memory", "cut=0.2"))
    assert names(results, Outcome.FAIL) == ["memory"]
    assert "the phone was lost for a moment" in evidence(results, "memory")
    assert results["battery"].outcome is Outcome.PASS


def test_a_phone_that_restarts_meanwhile_is_named(healthy: Endpoint) -> None:
    results = check(healthy, "logcat", "same-boot", when=("checking logcat", "reboot=0.2"))
    assert results["same-boot"].outcome is Outcome.FAIL
    assert evidence(results, "same-boot") == "the phone restarted during the check"


def test_somebody_elses_phone_is_left_alone(healthy: Endpoint) -> None:
    transport = AdbTransport(healthy)
    probe, file = Probe.install(transport), lease_file(transport.base_dir)
    theirs = probe.take_lease(file, owner="ann", host="lab-1", purpose="a night run", ttl_s=60)
    assert theirs.holder is not None
    try:
        with pytest.raises(FarmError, match="in use by ann on lab-1 for a night run") as caught:
            check(healthy, "memory")
        assert caught.value.reason is Reason.BUSY
        assert probe.show_lease(file).holder is not None
    finally:
        probe.end_lease(file, theirs.holder.id)


def test_a_serial_that_nobody_has_is_wrong_usage(virtual_phones: list[Endpoint]) -> None:
    with mnn_farm(virtual_phones[0], "--device", "nobody") as program:
        _, stderr = program.communicate(timeout=60)
    assert program.returncode == 2
    assert "--device nobody: adb lists no such phone: it lists 127.0.0.1:" in stderr


def test_a_check_that_does_not_exist_is_wrong_usage(healthy: Endpoint) -> None:
    with pytest.raises(ConfigError, match="no check is called 'sleep': choose of shell-protocol, "):
        check(healthy, "sleep")


def settings(endpoint: Endpoint) -> Callable[[], bytes]:
    subject = subject_of(endpoint)
    return lambda: subject.shell("settings", "list", "global").stdout


def test_interrupted_in_the_middle_the_phone_is_as_it_was(healthy: Endpoint) -> None:
    now = settings(healthy)
    before = now()

    def say(text: str) -> None:
        if text == "checking affinity":
            assert now() != before, "it is prepared by now"
            raise KeyboardInterrupt

    subject = subject_of(healthy)
    subject.say = say
    with pytest.raises(KeyboardInterrupt):
        run_checks(subject, ["affinity"])
    assert now() == before
    assert subject.probe.show_lease(lease_file(subject.transport.base_dir)).state == "free"
    assert subject.shell("ls", "-d", subject.work).exit_code != 0
