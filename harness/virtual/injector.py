"""Does to a running phone what :mod:`harness.virtual.faults` describes, and takes it back."""

from __future__ import annotations

import logging
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from harness.core.deadline import Deadline
from harness.core.errors import HostError
from harness.virtual.adbd.condition import Condition
from harness.virtual.adbserver import AdbServer
from harness.virtual.faults import KINDS, Fault
from harness.virtual.features import terminal_always
from harness.virtual.logbuffer import phone_log
from harness.virtual.phone import VirtualPhone
from harness.virtual.profile import load_profile

_REMOUNT = Path(__file__).with_name("remount.py")
_ACTION_SECONDS = 10.0
_SOON_S = 1.5
_DISK_FAULTS = {"full-disk": "not-full", "read-only": "writable", "noexec": "executable"}
"""What is mounted, and the action that takes it back; a reboot does too."""
_DEFAULT_BOOT_SECONDS = 1.0

log = logging.getLogger(__name__)

Later = Callable[[float, Callable[[], None]], None]
"""Calls a function after some seconds, from the supervisor's loop."""


class Injector:
    """The faults of one phone."""

    def __init__(self, phone: VirtualPhone, server: AdbServer, later: Later) -> None:
        self.active: dict[str, Fault] = {}
        self._phone = phone
        self._server = server
        self._later = later
        self._epoch = 0
        """Counts what makes planned returns void: a heal, another cut."""
        self._date: str | None = None

    def inject(self, fault: Fault) -> None:
        """Make it so.

        Raises:
            HostError: this computer cannot, or the phone is in no state for it.
            ConfigError: a profile that is to be loaded is wrong.
        """
        special = {
            "cut": self._cut,
            "reboot": self._reboot,
            "full-disk": self._mount,
            "read-only": self._mount,
            "noexec": self._mount,
            "clock-jumped": self._jump_clock,
            "asleep": self._sleep,
            "sleeps-alone": self._sleep_alone,
            "affinity-lost": self._lose_affinity,
            "adbd-restarted": self._restart_adbd,
            "thermal-shutdown": self._overheat,
            "corrupt": self._corrupt,
            "replaced": self._replace,
            "lmkd-kill": self._kill_largest,
        }
        name = fault.kind.name
        if name in special:
            special[name](fault)
            if not fault.kind.once:
                self.active[name] = fault
            return
        self.active[name] = fault
        self._apply(drop=name in ("offline", "unauthorized"))
        if name == "unauthorized":
            self._plug_in()

    def heal(self) -> None:
        """Take back everything and wait until adb can use the phone again.

        Raises:
            HostError: it does not come back.
        """
        self._epoch += 1
        was, self.active = self.active, {}
        phone = self._phone
        if "asleep" in was or "sleeps-alone" in was:
            self._wake()
        if "replaced" in was:
            phone.power_off()
            phone.state, phone.profile = phone.home, phone.own_profile
        if phone.process is None:
            phone.open_door()
            phone.boot("shutdown,thermal" if "thermal-shutdown" in was else "reboot", self.condition())
        else:
            for name in set(was) & set(_DISK_FAULTS):
                self._remount(_DISK_FAULTS[name])
            self._set_date(None)
            phone.behaviour.sleeps_alone_s = None
            phone.behaviour.loses_affinity = False
            phone.open_door()
            self._apply()
        self._ensure_usable()

    def adbd_said(self, event: str) -> None:
        """React to an event of the phone's adbd."""
        if event == "started":
            self._phone.tell_condition()
        elif event == "cut":
            for name in ("cut-push", "cut-run"):
                self.active.pop(name, None)
            self.inject(Fault(KINDS["cut"], None))
        elif event == "reboot":
            self._go_down_and_return(_DEFAULT_BOOT_SECONDS, "reboot,adb")

    def condition(self) -> Condition:
        """Return how adbd is to behave with the faults there are."""
        active = self.active
        key = self._server.public_key()

        def count(name: str) -> int | None:
            return active[name].count if name in active else None

        return Condition(
            auth=self._phone.profile.auth or "unauthorized" in active,
            keys=(key,) if key and "unauthorized" not in active else (),
            terminal_always=terminal_always(self._phone.profile.build.sdk),
            mute="offline" in active,
            stalled="stalled" in active,
            bytes_per_s=count("slow"),
            cut_push_bytes=count("cut-push"),
            cut_run_s=active["cut-run"].number if "cut-run" in active else None,
            lose_exit_code="exit-lost" in active,
            garbage_bytes=count("garbage") or 0,
            truncate_bytes=count("truncated"),
            detached_die="detached-die" in active,
        )

    def _apply(self, *, drop: bool = False) -> None:
        self._phone.condition = self.condition()
        self._phone.tell_condition(drop=drop, wait=True)

    def _deadline(self, what: str) -> Deadline:
        return Deadline(_ACTION_SECONDS, what, self._phone.state.name)

    def _plug_in(self) -> None:
        log.info("adb: %s", self._server.plug_in(self._phone.serial, self._deadline("plugging in")))

    def _unplug(self) -> None:
        self._server.unplug(self._phone.serial, self._deadline("pulling the cable"))

    def _ensure_usable(self) -> None:
        """Wait until adb can use the phone. Others may plug it in at the same time, and adb then drops one connection
        after it has told of it: what is not usable soon is plugged in again.
        """
        deadline = self._deadline("waiting for the healed phone")
        while True:
            if self._server.state(self._phone.serial, deadline) != "device":
                self._plug_in()
            try:
                self._server.wait_usable(self._phone.serial, deadline.within(_SOON_S, "the phone"))
            except HostError:
                if deadline.passed:
                    raise
            else:
                return

    def _cut(self, fault: Fault) -> None:
        self._phone.shut_door()
        self._apply(drop=True)
        self._unplug()
        if fault.argument is not None:
            self._return_after(fault.number, self._cut_is_over)

    def _cut_is_over(self) -> None:
        self.active.pop("cut", None)
        self._phone.open_door()
        self._phone.tell_condition()
        self._plug_in()

    def _return_after(self, seconds: float, come_back: Callable[[], None]) -> None:
        self._epoch += 1
        planned = self._epoch

        def if_still_wanted() -> None:
            if planned == self._epoch:
                come_back()

        self._later(seconds, if_still_wanted)

    def _go_down(self) -> None:
        self._phone.shut_door()
        self._phone.power_off()
        self._unplug()
        for name in (*_DISK_FAULTS, "asleep", "sleeps-alone", "affinity-lost", "clock-jumped"):
            self.active.pop(name, None)
        self._date = None

    def _go_down_and_return(self, seconds: float, reason: str) -> None:
        self._go_down()

        def come_back() -> None:
            self._phone.open_door()
            self._phone.boot(reason, self.condition())
            self._plug_in()

        self._return_after(seconds, come_back)

    def _reboot(self, fault: Fault) -> None:
        self._go_down_and_return(fault.number, "reboot")

    def _overheat(self, _fault: Fault) -> None:
        ring = phone_log(self._phone.state)
        ring.append("ThermalManagerService", "W", 1, 1, "Thermal shutdown: a sensor reports SHUTDOWN", buffer="system")
        ring.append("ShutdownThread", "I", 1, 1, "shutdown,thermal", buffer="system")
        self._go_down()

    def _replace(self, fault: Fault) -> None:
        profile = load_profile(str(fault.argument)) if fault.argument is not None else self._phone.own_profile
        self._go_down()
        self._phone.state, self._phone.profile = self._phone.home.other, profile
        self._phone.open_door()
        self._phone.boot("cold", self.condition())
        self._plug_in()

    def _mount(self, fault: Fault) -> None:
        if fault.kind.name in self.active:
            self._remount(_DISK_FAULTS[fault.kind.name])
        self._remount("full" if fault.kind.name == "full-disk" else fault.kind.name, str(fault.count))

    def _remount(self, action: str, *more: str) -> None:
        argv = [sys.executable, "-I", "-S", str(_REMOUNT), str(self._phone.init_pid()), action, *more]
        done = subprocess.run(
            argv, capture_output=True, timeout=_ACTION_SECONDS, check=False, stdin=subprocess.DEVNULL, text=True
        )
        if done.returncode != 0:
            raise HostError(
                f"the /data of {self._phone.state.name} cannot be mounted {action} ({done.stderr.strip()})",
                remedy="this needs Linux 5.11 with overlayfs in user namespaces",
            )

    def _jump_clock(self, fault: Fault) -> None:
        self._set_date(fault.count)

    def _set_date(self, offset_s: int | None) -> None:
        """Put a script in the place of ``date``, or the program back."""
        place = self._phone.state.run / "system" / "bin" / "date"
        if self._date is None and offset_s is not None:
            self._date = str(place.readlink())
        if self._date is None:
            return
        fresh = place.with_name(".date")
        if offset_s is None:
            fresh.symlink_to(self._date)
            self._date = None
        else:
            program = f"/system/bin/{self._date} date" if self._date == "toybox" else shlex.quote(self._date)
            fresh.write_text(f'#!/system/bin/sh\nexec {program} -d "@$(( $({program} +%s) + {offset_s} ))" "$@"\n')
            fresh.chmod(0o555)
        fresh.replace(place)

    def _sleep(self, _fault: Fault) -> None:
        self._phone.behaviour.sleep(time.monotonic())

    def _sleep_alone(self, fault: Fault) -> None:
        self._phone.behaviour.plug("none")
        self._phone.behaviour.sleeps_alone_s = fault.number

    def _lose_affinity(self, _fault: Fault) -> None:
        self._phone.behaviour.loses_affinity = True

    def _wake(self) -> None:
        behaviour = self._phone.behaviour
        behaviour.plug(self._phone.profile.battery.plugged)
        behaviour.wake(time.monotonic())

    def _restart_adbd(self, _fault: Fault) -> None:
        self._phone.order({"do": "exit"})
        self._phone.tell_condition(wait=True)
        self._plug_in()

    def _corrupt(self, fault: Fault) -> None:
        self._phone.order({"do": "corrupt", "path": fault.argument})

    def _kill_largest(self, _fault: Fault) -> None:
        if self._phone.behaviour.kill_biggest() is None:
            raise HostError(
                f"nothing runs on {self._phone.state.name} that lmkd could kill", remedy="start a run first"
            )
