"""Virtual phones are prepared and put back through the real adb: whatever happens in between, they are as before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pytest

from harness.bench.phone import open_transport
from harness.core.deadline import Deadline
from harness.core.errors import PhoneError
from harness.core.provider import Endpoint
from harness.core.transport import ShellResult, Transport
from harness.phone.charge import charge_gate, read_battery
from harness.phone.ledger import FILE
from harness.phone.prepare import Prepared, Restored, prepare, restore
from harness.plan.model import Preparation
from harness.virtual.control import PhoneControl

PHONES = ("high", "kirin")

# Prepares a phone and dies without a word, as a harness that is killed does.
DIES = """
import json, os, signal, sys
from harness.bench.phone import open_transport
from harness.core.deadline import Deadline
from harness.core.provider import Endpoint
from harness.phone.prepare import prepare
from harness.plan.model import Preparation
transport = open_transport(Endpoint(**json.loads(sys.argv[1])))
prepare(transport, Preparation(), print, Deadline(60, "preparing", transport.name))
os.kill(os.getpid(), signal.SIGKILL)
"""


class Phone:
    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.control = PhoneControl(endpoint.name)
        self.transport: Transport = open_transport(endpoint)

    def deadline(self) -> Deadline:
        return Deadline(60, "the test", self.transport.name)

    def says(self, *argv: str) -> str:
        result = self.transport.shell(argv, deadline=self.deadline())
        assert result.exit_code == 0, result
        return result.stdout.decode()

    def state(self) -> dict[str, Any]:
        """All that a preparation may touch, and all settings that it may not."""
        screen = next(line for line in self.says("dumpsys", "power").splitlines() if "mWakefulness=" in line)
        settings = {space: self.says("settings", "list", space).splitlines() for space in ("system", "global")}
        doze = [self.says("dumpsys", "deviceidle", "enabled", mode) for mode in ("deep", "light")]
        return {**settings, "screen": screen, "doze": doze}

    def prepare(self, preparation: Preparation | None = None, transport: Transport | None = None) -> Prepared:
        return prepare(transport or self.transport, preparation or Preparation(), lambda _: None, self.deadline())

    def restore(self) -> Restored:
        return restore(self.transport, self.deadline())

    def owes(self) -> bool:
        path = f"{self.transport.base_dir}/{FILE}"
        return self.transport.shell(["test", "-e", path], deadline=self.deadline()).exit_code == 0


class Interrupted:
    """A transport on which something happens just before the first command that begins so."""

    def __init__(self, phone: Phone, command: str, happens: Any) -> None:
        self._transport = phone.transport
        self._command = command
        self._happens = happens
        self.name, self.serial, self.base_dir = phone.transport.name, phone.transport.serial, phone.transport.base_dir

    def shell(
        self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"", most: int | None = None
    ) -> ShellResult:
        if " ".join(argv).startswith(self._command):
            self._happens()
        return self._transport.shell(argv, deadline=deadline, stdin=stdin, most=most)


@pytest.fixture(scope="module")
def phones(virtual_phones: list[Endpoint]) -> list[Phone]:
    return [Phone(endpoint) for endpoint in virtual_phones]


@pytest.fixture
def high(phones: list[Phone]) -> Phone:
    return asleep(phones[0])


@pytest.fixture
def kirin(phones: list[Phone]) -> Phone:
    return asleep(phones[1])


def asleep(phone: Phone) -> Phone:
    """The phone as most are found: dark."""
    phone.says("input", "keyevent", "KEYCODE_SLEEP")
    return phone


@pytest.mark.parametrize("which", [0, 1], ids=PHONES)
def test_a_phone_is_as_before_after_a_good_run(phones: list[Phone], which: int) -> None:
    phone = asleep(phones[which])
    before = phone.state()
    prepared = phone.prepare(Preparation(animations_off=True))
    assert (prepared.refused, prepared.screen, prepared.notes) == ({}, "on", ())
    assert prepared.foreground == "com.android.launcher3/com.android.launcher3.Launcher"
    assert len(prepared.changes) == 8
    during = phone.state()
    assert "stay_on_while_plugged_in=7" in during["global"]
    assert during["doze"] == ["0\n", "0\n"]
    restored = phone.restore()
    assert len(restored.back) == 8
    assert (restored.left_alone, restored.owed, restored.notes) == ({}, {}, ())
    assert phone.state() == before
    assert not phone.owes()


@pytest.mark.parametrize("command", ["settings put", "dumpsys deviceidle disable light", "input keyevent"])
def test_a_phone_is_as_before_after_an_interruption_in_the_middle(high: Phone, command: str) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    before = high.state()
    with pytest.raises(KeyboardInterrupt):
        high.prepare(transport=Interrupted(high, command, interrupt))  # type: ignore[arg-type]
    assert high.owes()
    assert high.restore().owed == {}
    assert high.state() == before


def test_a_phone_whose_cable_is_pulled_in_the_middle_is_put_back_when_it_is_seen_again(high: Phone) -> None:
    before = high.state()
    cut = Interrupted(high, "dumpsys deviceidle disable", lambda: high.control.inject("cut"))
    with pytest.raises(PhoneError):
        high.prepare(transport=cut)  # type: ignore[arg-type]
    high.control.heal()
    assert high.owes()
    assert high.restore().owed == {}
    assert high.state() == before


def test_after_a_reboot_only_what_is_missing_is_done_and_the_first_values_go_back(high: Phone) -> None:
    before = high.state()
    high.prepare()
    high.control.inject("reboot=0.1")
    high.control.heal()
    kept = high.state()
    assert "stay_on_while_plugged_in=7" in kept["global"]
    assert "screen_off_timeout=86400000" in kept["system"]
    assert kept["doze"] == ["1\n", "1\n"]
    # It boots with the screen on, as it was prepared, and found dark.
    assert [one.what for one in high.prepare().changes] == ["doze deep", "doze light"]
    assert high.restore().owed == {}
    assert high.state() == before


def test_what_a_killed_harness_changed_is_put_back_from_the_phone_alone(high: Phone) -> None:
    before = high.state()
    endpoint = json.dumps(asdict(high.endpoint))
    killed = subprocess.run([sys.executable, "-c", DIES, endpoint], env=os.environ, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert high.state() != before
    assert len(high.restore().back) == 5
    assert high.state() == before


def test_what_somebody_changed_meanwhile_is_left_alone(high: Phone) -> None:
    high.prepare()
    high.says("settings", "put", "system", "screen_off_timeout", "30000")
    assert set(high.restore().left_alone) == {"setting system/screen_off_timeout"}
    assert high.says("settings", "get", "system", "screen_off_timeout") == "30000\n"
    assert not high.owes()
    high.says("settings", "put", "system", "screen_off_timeout", "600000")


def test_what_an_old_phone_refuses_is_told_and_the_rest_is_done(kirin: Phone) -> None:
    before = kirin.state()
    prepared = kirin.prepare(Preparation(airplane=True))
    assert set(prepared.refused) == {"airplane mode"}
    assert "it stayed 0 (java.lang.SecurityException: Permission Denial" in prepared.refused["airplane mode"]
    assert len(prepared.changes) == 5
    kirin.restore()
    assert kirin.state() == before


def test_airplane_mode_goes_on_and_off(high: Phone) -> None:
    before = high.state()
    assert high.prepare(Preparation(airplane=True)).refused == {}
    assert high.says("cmd", "connectivity", "airplane-mode") == "enabled\n"
    high.restore()
    assert high.state() == before


def test_nothing_is_changed_that_cannot_be_noted(high: Phone) -> None:
    before = high.state()
    high.control.inject("read-only")
    try:
        prepared = high.prepare()
    finally:
        high.control.heal()
    assert prepared.changes == ()
    assert len(prepared.refused) == 5
    assert "Read-only file system" in prepared.refused["doze deep"]
    assert high.state() == before


@pytest.mark.parametrize("which", [0, 1], ids=PHONES)
def test_the_charge_gate_reads_a_phones_own_words(phones: list[Phone], which: int) -> None:
    phone = phones[which]

    def check() -> str:
        return charge_gate(
            lambda: read_battery(phone.transport, phone.deadline()), 20, 0.0, print, phone=phone.transport.name
        )

    assert check() == ""
    try:
        phone.says("dumpsys", "battery", "unplug")
        phone.says("dumpsys", "battery", "set", "level", "9")
        with pytest.raises(PhoneError, match="at 9 %, below the floor of 20 % \\(on no charger, discharging, readings"):
            check()
    finally:
        phone.says("dumpsys", "battery", "reset")
