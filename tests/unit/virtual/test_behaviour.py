"""One phone's life with a clock of our own and real processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.virtual import tree
from harness.virtual.adbd.logring import LogRing
from harness.virtual.behaviour import BUSY_POLL_S, IDLE_POLL_S, Behaviour, BehaviourLoop
from harness.virtual.mailbox import asked_folder, now_folder
from harness.virtual.memory import meminfo
from harness.virtual.proctree import Process
from harness.virtual.profile import load_profile
from harness.virtual.state import FolderLock, PhoneState

CAP = "sys/devices/system/cpu/cpufreq/policy6/scaling_max_freq"
SLEEPER = "import time; time.sleep(60)"
SPINNER = "while True: pass"


class Life:
    """A behaviour, its phone's files, and a clock that is turned by hand."""

    def __init__(self, folder: Path, sandbox: Any) -> None:
        self.profile = load_profile("low-hot")
        state = PhoneState("virtual-test", folder, FolderLock(folder))
        self.run, logs = state.run, folder / "logs"
        logs.mkdir()
        tree.write_tree(
            [*tree.sysfs(self.profile), tree.Node("/proc/meminfo", meminfo(self.profile.memory).encode())], state.run
        )
        for place in (now_folder(state.run), asked_folder(state.run)):
            place.mkdir()
        self.sandbox, self.log, self.now_s = sandbox, LogRing(logs), 1000.0
        self.behaviour = Behaviour(self.profile, state, sandbox.process.pid, self.log, self.now_s)

    def step(self, seconds: float = BUSY_POLL_S) -> float:
        """Let time pass and return how long the phone wants to be left alone."""
        self.now_s += seconds
        return self.behaviour.step(self.now_s) - self.now_s

    def guests(self) -> tuple[Process, ...]:
        found: tuple[Process, ...] = self.sandbox.tree.snapshot().guests
        return found

    def wait_for(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.005)


@pytest.fixture
def life(tmp_path: Path, sandbox: Any) -> Life:
    return Life(tmp_path, sandbox)


def test_an_idle_phone_is_looked_at_less_often_and_written_once(life: Life) -> None:
    assert 0 < life.step() <= IDLE_POLL_S
    before = {path: path.stat().st_mtime_ns for path in life.run.rglob("*") if path.is_file()}
    for _ in range(50):
        assert life.step(IDLE_POLL_S) > BUSY_POLL_S - 0.001
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_phone_that_runs_something_is_looked_at_within_the_lag_of_lmkd(life: Life) -> None:
    life.step()
    life.sandbox.say(SLEEPER)
    life.step(IDLE_POLL_S)
    assert life.step() <= 0.05


def test_a_hot_phone_lowers_its_clock_and_stops_what_is_busy_in_turns(life: Life) -> None:
    life.sandbox.say(SPINNER)
    life.sandbox.say(SLEEPER)
    (busy, idle) = life.guests()
    highest = (life.run / CAP).read_text()
    life.step()
    life.behaviour.warm_to(60.0)
    states = set()

    def both_seen() -> bool:
        life.step(0.005)  # as long as a look takes: load is real processor time in the phone's time
        states.update((one.pid == busy.pid, one.state) for one in life.guests())
        return {(True, "R"), (True, "T")} <= states

    life.wait_for(both_seen)
    assert int((life.run / CAP).read_text()) <= int(highest) / 2
    assert (False, "T") not in states
    life.behaviour.stop()
    life.wait_for(lambda: [one.state for one in life.guests() if one.pid == busy.pid] == ["R"])
    assert idle.pid in {one.pid for one in life.guests()}


def test_cooling_gives_the_clock_back(life: Life) -> None:
    highest = (life.run / CAP).read_text()
    life.behaviour.warm_to(60.0)
    for _ in range(4):
        life.step(0.5)
    assert (life.run / CAP).read_text() != highest
    for _ in range(40):
        life.step(0.5)
    assert int((life.run / CAP).read_text()) == int(highest)
    assert life.behaviour.heat.is_cold


def test_an_unplugged_phone_asleep_stops_what_ran_until_it_is_woken(life: Life) -> None:
    life.sandbox.say(SLEEPER)
    life.step()
    life.behaviour.sleep(life.now_s)
    life.step()
    life.wait_for(lambda: life.guests()[0].state == "T")
    life.sandbox.say(SLEEPER)  # adb starts something meanwhile
    life.step()
    assert sorted(one.state for one in life.guests())[-1] == "T"
    assert len([one for one in life.guests() if one.state == "T"]) == 1
    life.behaviour.wake(life.now_s)
    life.step()
    life.wait_for(lambda: "T" not in {one.state for one in life.guests()})


def test_a_phone_on_a_charger_does_not_suspend(life: Life) -> None:
    life.sandbox.say(SLEEPER)
    life.step()
    life.behaviour.sleep(life.now_s)
    life.behaviour.plug("usb")
    for _ in range(5):
        life.step(1.0)
    life.wait_for(lambda: life.guests()[0].state == "S")


def test_lmkd_kills_the_biggest_and_says_so(life: Life) -> None:
    life.sandbox.say(SLEEPER)
    life.sandbox.say(
        "block = bytearray(180 << 20); block[::4096] = b'x' * len(block[::4096]); import time; time.sleep(60)"
    )
    life.wait_for(lambda: max(one.rss_kb for one in life.guests()) > 180_000)
    big = max(life.guests(), key=lambda one: one.rss_kb)
    life.step()
    life.wait_for(lambda: big.pid not in {one.pid for one in life.guests()})
    life.step()
    assert len(life.guests()) == 1
    lines = [line.decode() for _, line in life.log.lines()]
    assert len(lines) == 1
    assert f"I lowmemorykiller: Kill '{life.sandbox.process.args[0]}' ({big.pid}), uid 2000" in lines[0]


def test_available_memory_follows(life: Life) -> None:
    idle = (life.run / "proc" / "meminfo").read_text()
    life.sandbox.say(SLEEPER)
    life.wait_for(lambda: life.guests()[0].rss_kb > 1000)
    life.step()
    used = (life.run / "proc" / "meminfo").read_text()
    assert len(used) == len(idle)
    assert used.split()[7] != idle.split()[7]
    life.sandbox.say("end")
    life.step()
    life.step()
    assert (life.run / "proc" / "meminfo").read_text() == idle


def test_a_kill_that_is_ordered_takes_the_biggest_or_nothing(life: Life) -> None:
    assert life.behaviour.kill_biggest() is None
    life.sandbox.say(SLEEPER)
    (only,) = life.guests()
    assert life.behaviour.kill_biggest() == only.pid


def test_load_drains_an_unplugged_battery(life: Life) -> None:
    life.behaviour.plug("none")
    life.step()
    charge = life.behaviour.battery.charge_mah
    for _ in range(5):
        life.step(3600.0)
    assert life.behaviour.battery.charge_mah < charge - 200
    assert int((life.run / "sys/class/power_supply/battery/capacity").read_text()) < life.profile.battery.level


def test_phones_that_idle_are_stepped_together(life: Life) -> None:
    loop = BehaviourLoop()
    assert loop.step(0.0) is None
    loop.add(life.behaviour)
    now_s, wakes = life.now_s, 0
    while now_s < life.now_s + 1.0:
        wait_s = loop.step(now_s)
        assert wait_s is not None
        now_s += max(wait_s, 0.001)
        wakes += 1
    assert wakes <= 11
    loop.stop()
    assert loop.step(now_s) is None


def test_a_phone_whose_state_cannot_be_written_does_not_end_the_others(life: Life) -> None:
    loop = BehaviourLoop()
    loop.add(life.behaviour)
    life.behaviour.plug("ac")
    (now_folder(life.run) / "now.json.new").mkdir()
    assert loop.step(life.now_s) == pytest.approx(5.0)
    (now_folder(life.run) / "now.json.new").rmdir()
    life.behaviour.plug("usb")
    loop.step(life.now_s + 5.0)
    assert '"plugged":2' in (now_folder(life.run) / "now.json").read_text()
