"""Battery and thermal status around a phone's runs: asked of Android before and after each, never during one.

What was asked right after a run is also how the phone stands before the next, as long as that begins soon: Android's
battery service looks once a minute or when the charger changes, and the thermal status follows the skin, which needs
minutes. So two cells in a row cost a phone two questions, not four.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from harness.bench.status import read_status
from harness.core.deadline import Deadline
from harness.core.errors import PhoneError
from harness.core.log import phone_logger
from harness.core.transport import Transport
from harness.phone.battery import Battery
from harness.phone.charge import read_battery
from harness.phone.thermalservice import Status

# So long after a run what was asked then still counts.
FRESH_S = 5.0
ASK_S = 20.0


class Vitals:
    """Of one phone. Battery and status may be asked at once, from two threads."""

    def __init__(self, transport: Transport, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._transport = transport
        self._clock = clock
        self._battery: tuple[float, Battery] | None = None
        self._status: tuple[float, Status] | None = None

    def forget(self) -> None:
        """Let nothing count that was asked before: the phone was away."""
        self._battery = self._status = None

    def battery_before(self) -> Battery:
        """Return the battery as it is before a run.

        Raises:
            PhoneError: the phone was lost.
        """
        if self._battery is not None and self._is_fresh(self._battery[0]):
            return self._battery[1]
        return self._ask_battery()

    def status_before(self) -> Status:
        """Return the thermal status before a run. A phone that cannot be asked costs only this figure."""
        if self._status is not None and self._is_fresh(self._status[0]):
            return self._status[1]
        return read_status(self._transport)

    def battery_after(self) -> Battery | None:
        """Ask for the battery after a run; a phone that was lost just now costs only this figure."""
        self._battery = None
        try:
            battery = self._ask_battery()
        except PhoneError as error:
            phone_logger(__name__, self._transport.name).info("the battery could not be read after the run: %s", error)
            return None
        self._battery = (self._clock(), battery)
        return battery

    def status_after(self) -> Status:
        """Ask for the thermal status after a run; see :meth:`status_before`."""
        self._status = None
        status = read_status(self._transport)
        if status.value is not None:
            self._status = (self._clock(), status)
        return status

    def _ask_battery(self) -> Battery:
        return read_battery(self._transport, Deadline(ASK_S, "reading the battery", self._transport.name))

    def _is_fresh(self, asked_at: float) -> bool:
        return self._clock() - asked_at < FRESH_S
