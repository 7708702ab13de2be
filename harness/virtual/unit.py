"""One phone as the supervisor has it: the phone, its faults, and the socket on which orders about it come."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.core.errors import HarnessError, HostError
from harness.virtual.faults import HEAL, parse_fault
from harness.virtual.injector import Injector
from harness.virtual.orders import OrderSocket
from harness.virtual.phone import VirtualPhone

log = logging.getLogger(__name__)


@dataclass
class Unit:
    """What belongs to one running phone."""

    phone: VirtualPhone
    injector: Injector
    orders: OrderSocket
    adb_port: int
    detached: bool
    is_over: bool = False
    """The phone was told to go down for good."""
    _keep_data: bool = field(default=True, repr=False)

    def handlers(self) -> dict[int, Callable[[], None]]:
        """Return what to call when which descriptor is readable."""
        found: dict[int, Callable[[], None]] = {self.orders.fd: self._serve_order}
        if self.phone.wire_fd >= 0:
            found[self.phone.wire_fd] = self._hear_adbd
        if self.phone.pidfd >= 0:
            found[self.phone.pidfd] = self._note_end
        return found

    def close(self) -> None:
        """Take the phone down; its data too, if that was ordered."""
        self.orders.close()
        self.phone.close()
        if not self._keep_data:
            # The claim is on the folder and still held, so nobody else is in it.
            shutil.rmtree(self.phone.home.folder, ignore_errors=True)

    def _note_end(self) -> None:
        log.error("%s ended by itself", self.phone.state.name)
        self.phone.power_off()

    def _hear_adbd(self) -> None:
        for event in self.phone.events():
            self.injector.adbd_said(event)

    def _serve_order(self) -> None:
        self.orders.answer_one(self._do)

    def _do(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carry out one order.

        Raises:
            FarmError: it cannot be done, or is none.
        """
        what = order.get("do")
        if what == "fault":
            text = str(order.get("fault"))
            if text == HEAL:
                self.injector.heal()
            else:
                self.injector.inject(parse_fault(text))
        elif what == "down":
            if not self.detached:
                raise HostError(
                    f"{self.phone.state.name} belongs to a running program", remedy="end that program to take it down"
                )
            self.is_over = True
            self._keep_data = bool(order.get("keep_data"))
        elif what != "info":
            raise HarnessError(f"{what!r} is no order to a virtual phone")
        return self._info()

    def _info(self) -> dict[str, Any]:
        phone = self.phone
        return {
            "name": phone.home.name,
            "profile": phone.profile.name,
            "model": phone.profile.build.model,
            "serial": phone.serial,
            "adb_port": self.adb_port,
            "supervisor_pid": os.getpid(),
            "detached": self.detached,
            "on": phone.process is not None,
            "faults": [str(fault) for fault in self.injector.active.values()],
        }
