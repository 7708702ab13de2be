"""What a running phone does by itself: it warms, slows down, drains, sleeps, and kills what holds too much memory.

One :class:`Behaviour` a phone, all stepped by the one thread of the supervisor through :class:`BehaviourLoop`. Nothing
sleeps here: :meth:`Behaviour.step` says when it wants to be called again. While nothing runs in a phone that costs two
reads ten times a second; while something runs its processes are looked at every 50 ms, which is also the longest that
lmkd is late.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
from collections.abc import Sequence

from harness.virtual import memory, proctree, vitals
from harness.virtual.adbd.logring import LogRing
from harness.virtual.battery import PLUGS, BatteryModel
from harness.virtual.duty import Duty
from harness.virtual.heat import HeatModel
from harness.virtual.mailbox import Mailbox
from harness.virtual.memory import LMKD_PID, Holder
from harness.virtual.power import PowerState
from harness.virtual.proctree import Process, ProcessTree, Snapshot
from harness.virtual.profile import Profile
from harness.virtual.sandbox import SHELL_UID
from harness.virtual.sensorfiles import SensorFiles
from harness.virtual.state import PhoneState

IDLE_POLL_S = 0.1
BUSY_POLL_S = 0.05
PHYSICS_S = 0.1
"""Processor time comes in ticks of 10 ms, so a shorter span would be mostly noise."""
COOLING_S = 0.5
PUBLISH_S = 0.5
_EARLY_S = 0.0005
_AFTER_TROUBLE_S = 5.0
_BUSY_CORES = 0.05
_BUSY_FOR_S = 0.5
_SLOWED_CORES = 0.05
"""Who uses less than this loses nothing by a slower clock and is not stopped: the probe that watches, a shell."""

log = logging.getLogger(__name__)


class Behaviour:
    """One phone's life. Call :meth:`step` when it says, :meth:`stop` at the end."""

    def __init__(self, profile: Profile, state: PhoneState, sandbox_pid: int, log: LogRing, now_s: float) -> None:
        self.heat = HeatModel(profile.heat)
        self.battery = BatteryModel(profile.battery)
        self.power = PowerState(now_s)
        self.sleeps_alone_s: float | None = None
        """A fault: what runs stands still when no adb shell was open for so long."""
        self.loses_affinity = False
        """A fault: processes may use all cores again, whatever they asked for."""
        self._profile = profile
        self._state = state
        self._log = log
        self._tree = ProcessTree(sandbox_pid)
        self._files = SensorFiles(state.run)
        self._mailbox = Mailbox(state.run)
        self._duty = Duty()
        self._slowed: tuple[int, ...] = ()
        self._suspended: set[int] = set()
        self._shell_s = now_s
        self._busy = False
        self._cores = 0.0
        self._cpu_s: float | None = None
        self._cpu_of: dict[int, float] = {}
        self._busy_at_s: dict[int, float] = {}
        self._hungry: set[int] = set()
        self._physics_s = now_s
        self._published_s = now_s
        self._published: vitals.Vitals | None = None
        self._poll_due_s = now_s
        self._duty_due_s = now_s
        self._victim: int | None = None

    # What faults and people do to a phone

    def plug(self, charger: str) -> None:
        """Put a charger on (``ac``, ``usb``, ``wireless``) or take it off (``none``).

        Raises:
            KeyError: there is no such charger.
        """
        PLUGS[charger]
        self.battery.plugged = charger  # type: ignore[assignment]
        self._published = None

    def warm_to(self, chip_c: float) -> None:
        """Set the chip's temperature, as if something else had warmed it."""
        self.heat.warm_to(chip_c)

    def sleep(self, now_s: float) -> None:
        """Put the phone to sleep as if it lay unplugged with its screen off: what runs stops until it is woken."""
        self.plug("none")
        self.power.fall_asleep(now_s, at_once=True)

    def wake(self, now_s: float) -> None:
        """Switch the screen on."""
        self.power.wake(now_s)

    def kill_biggest(self) -> int | None:
        """Let lmkd kill the biggest process now; return the PC's number of it, ``None`` if nothing runs."""
        return self._kill(self._tree.snapshot().guests)

    # The loop

    def step(self, now_s: float) -> float:
        """Do what is due and return when the next thing is."""
        if now_s >= self._poll_due_s - _EARLY_S:
            self._poll(now_s)
        if self._running_share < 1.0 and self._hungry:
            if now_s >= self._duty_due_s:
                self._take_turns(now_s)
            return min(self._poll_due_s, self._duty_due_s)
        if self._slowed or not self._duty.running:
            self._continue_all()
        return self._poll_due_s

    def stop(self) -> None:
        """Let everything run on, for whoever ends it."""
        self._continue_all()
        for pid in self._suspended:
            _signal(pid, signal.SIGCONT)
        self._suspended.clear()
        self._tree.close()
        with contextlib.suppress(OSError):  # closed to the shell while the phone ran; whoever clears up is no shell
            (self._state.data / "tombstones").chmod(0o700)

    def _poll(self, now_s: float) -> None:
        idle = self._tree.is_idle()
        if idle and not self._busy:
            self._poll_due_s = next_idle_poll(now_s)
            if self.power.advance(now_s, plugged=self.battery.plugged != "none"):
                self._published = None
            if now_s - self._physics_s >= (PUBLISH_S * 20 if self.heat.is_cold else COOLING_S):
                self._advance(now_s, 0.0)
                self._show(now_s, used_kb=0)
            elif self._published is None:
                self._show(now_s, used_kb=0)
            return
        snapshot = self._tree.snapshot()
        if not self._busy:  # something began less than a poll ago: until then nothing was used
            self._advance(now_s, 0.0)
            self._shell_s = now_s  # something from outside began it
        self._busy = not idle
        self._poll_due_s = next_idle_poll(now_s) if idle else now_s + BUSY_POLL_S
        self._watch_memory(snapshot)
        if asked := self._mailbox.new_request():
            self.power.apply(asked, now_s)
            self._published = None
        self.power.advance(now_s, plugged=self.battery.plugged != "none")
        self._suspend_or_resume(snapshot, now_s)
        if self.loses_affinity:
            _free_from_cores(snapshot)
        if now_s - self._physics_s >= PHYSICS_S or idle:
            self._advance(now_s, self._load(snapshot, now_s))
        self._show(now_s, used_kb=snapshot.guest_rss_kb)

    def _load(self, snapshot: Snapshot, now_s: float) -> float:
        """Return how many cores were busy since the last call, and note who used them."""
        seconds = max(1e-3, now_s - self._physics_s)
        total = snapshot.cpu_s
        if self._cpu_s is None:  # the start of the phone's own daemons is no load
            self._cpu_s = sum(one.cpu_s for one in snapshot.processes if one.is_daemon)
        # Times of children that nobody waited for are lost, so the sum may fall.
        used_s = max(0.0, total - self._cpu_s)
        self._cpu_s = total
        current = {one.pid: one.cpu_s for one in snapshot.guests}
        threshold = _SLOWED_CORES * seconds * self.heat.cap * self._profile.cpu.speed
        for pid, cpu_s in current.items():
            if cpu_s - self._cpu_of.get(pid, 0.0) > threshold:
                self._busy_at_s[pid] = now_s
        self._cpu_of = current
        # What was stopped for most of a look is busy nevertheless.
        self._busy_at_s = {
            pid: at_s for pid, at_s in self._busy_at_s.items() if pid in current and now_s - at_s < _BUSY_FOR_S
        }
        busy = set(self._busy_at_s)
        self._hungry = {
            one.pid for one in snapshot.guests if one.pid in busy or self._shares_terminal(one, snapshot, busy)
        }
        return used_s / seconds

    @staticmethod
    def _shares_terminal(one: Process, snapshot: Snapshot, busy: set[int]) -> bool:
        """A shell with job control would report that its child was stopped, unless it is stopped with it."""
        return one.tty != 0 and any(other.pid in busy and other.tty == one.tty for other in snapshot.guests)

    def _advance(self, now_s: float, cores: float) -> None:
        seconds, self._physics_s = now_s - self._physics_s, now_s
        self._cores = cores
        self.battery.advance(seconds, cores)
        while seconds > 0:
            span = min(seconds, self._profile.heat.step_s)
            self.heat.advance(span, cores)
            seconds -= span

    def _show(self, now_s: float, used_kb: int) -> None:
        self._files.put("/proc/meminfo", memory.meminfo(self._profile.memory, used_kb // 64 * 64))
        current = vitals.Vitals(
            vitals.charge_of(self.battery),
            self.heat.chip_rise_c,
            self.heat.skin_rise_c,
            self.heat.step,
            self._busy and self._cores > _BUSY_CORES,
            self.power.wakefulness,
            bool(self._suspended),
        )
        held = self._published
        urgent = held is None or (held.step, held.busy) != (current.step, current.busy) or not self._busy
        if current == held or not (urgent or now_s - self._published_s >= PUBLISH_S):
            return
        self._published, self._published_s = current, now_s
        for path, text in vitals.sysfs_texts(self._profile, current):
            self._files.put(path, text)
        self._mailbox.publish(vitals.service_state(self._profile, current, self._mailbox.last_number))

    # Throttling

    def _take_turns(self, now_s: float) -> None:
        was_running = self._duty.running
        self._duty_due_s = self._duty.next_change(now_s, self._running_share)
        if was_running and not self._duty.running:
            self._slowed = tuple(self._hungry - self._suspended)
            for pid in self._slowed:
                _signal(pid, signal.SIGSTOP)
        elif self._duty.running and not was_running:
            for pid in self._slowed:
                _signal(pid, signal.SIGCONT)
            self._slowed = ()

    @property
    def _running_share(self) -> float:
        """The part of the time that processes run: the fastest cores' clock, by the files, times the phone's speed."""
        cluster = self._profile.cpu.clusters[-1]
        return cluster.allowed_khz(self.heat.cap) / cluster.max_khz * self._profile.cpu.speed

    def _continue_all(self) -> None:
        for pid in self._slowed:
            if pid not in self._suspended:
                _signal(pid, signal.SIGCONT)
        self._slowed = ()
        self._duty.reset()

    # Sleep

    def _suspend_or_resume(self, snapshot: Snapshot, now_s: float) -> None:
        """Stop what ran when the phone fell asleep. What is started later runs: adb holds the phone awake for it."""
        suspends = self.power.suspends or self._was_left_alone(now_s)
        if suspends and not self._suspended:
            self._suspended = {one.pid for one in snapshot.guests}
            for pid in self._suspended:
                _signal(pid, signal.SIGSTOP)
        elif not suspends and self._suspended:
            for pid in self._suspended:
                _signal(pid, signal.SIGCONT)
            self._suspended = set()

    def _was_left_alone(self, now_s: float) -> bool:
        if self.sleeps_alone_s is None:
            return False
        if self._tree.has_shells():
            self._shell_s = now_s
        return now_s - self._shell_s >= self.sleeps_alone_s

    # Memory

    def _watch_memory(self, snapshot: Snapshot) -> None:
        guests = snapshot.guests
        if self._victim is not None and any(one.pid == self._victim for one in guests):
            return  # it is dying; its memory comes back when it is gone
        self._victim = None
        if snapshot.guest_rss_kb > self._profile.memory.limit_kb:
            self._victim = self._kill(guests)

    def _kill(self, guests: Sequence[Process]) -> int | None:
        if not guests:
            return None
        biggest = max(guests, key=lambda one: one.rss_kb)
        holder = _holder(biggest)
        _signal(biggest.pid, signal.SIGKILL)
        report = memory.kill_report(holder, self._profile.memory, self._profile.build.sdk, SHELL_UID)
        with contextlib.suppress(OSError):  # the phone may be going down
            pid = 0 if report.buffer == "kernel" else LMKD_PID
            self._log.append("lowmemorykiller", "I", pid, pid, report.text, buffer=report.buffer)
        return biggest.pid


def _holder(process: Process) -> Holder:
    status = proctree.status_numbers(process.pid)

    def kb(key: str) -> int:
        words = status.get(key)
        return int(words[0]) if words else 0

    inner = status.get("NSpid", [str(process.pid)])[-1]
    name = proctree.program_name(process.pid) or process.comm
    return Holder(int(inner), name, process.rss_kb, kb("RssAnon"), kb("VmSwap"))


def _free_from_cores(snapshot: Snapshot) -> None:
    every = os.sched_getaffinity(0)
    for one in snapshot.guests:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.sched_getaffinity(one.pid) != every:
                os.sched_setaffinity(one.pid, every)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def next_idle_poll(now_s: float) -> float:
    """Return the next of the times that all idle phones share, so that the supervisor wakes once for all of them."""
    return (math.floor(now_s / IDLE_POLL_S + 1e-3) + 1) * IDLE_POLL_S


class BehaviourLoop:
    """Steps all phones of one supervisor."""

    def __init__(self) -> None:
        self._due: dict[Behaviour, float] = {}

    def add(self, behaviour: Behaviour) -> None:
        """Let a phone live."""
        self._due[behaviour] = 0.0

    def remove(self, behaviour: Behaviour) -> None:
        """Let a phone go; harmless if it is not there."""
        if self._due.pop(behaviour, None) is not None:
            behaviour.stop()

    def step(self, now_s: float) -> float | None:
        """Step every phone that is due; return in how many seconds to call again, ``None`` if there is no phone."""
        if not self._due:
            return None
        for behaviour, due_s in self._due.items():
            if due_s <= now_s + _EARLY_S:
                try:
                    self._due[behaviour] = behaviour.step(now_s)
                except OSError as error:  # a full disk of this PC, say: the other phones live on
                    log.error("a phone's state cannot be written: %s", error)
                    self._due[behaviour] = now_s + _AFTER_TROUBLE_S
        return max(0.0, min(self._due.values()) - now_s)

    def stop(self) -> None:
        """Let all go."""
        for behaviour in list(self._due):
            self.remove(behaviour)
