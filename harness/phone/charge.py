"""The wait-to-charge gate: no cell begins on a phone that is about to switch off or to save power."""

from __future__ import annotations

import time
from collections.abc import Callable

from harness.core.deadline import Deadline
from harness.core.errors import PhoneError
from harness.core.reasons import Reason
from harness.core.transport import Transport
from harness.phone.battery import Battery, parse_battery

POLL_S = 15.0


def read_battery(transport: Transport, deadline: Deadline) -> Battery:
    """Ask a phone for its battery. What it does not tell is unknown in the answer.

    Raises:
        PhoneError: the phone was lost.
    """
    return parse_battery(transport.shell(["dumpsys", "battery"], deadline=deadline).stdout)


def charge_gate(
    read: Callable[[], Battery],
    floor_pct: int,
    timeout_s: float,
    say: Callable[[str], None],
    *,
    phone: str,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Wait until the battery is at ``floor_pct`` or above, as long as it charges.

    Returns:
        What there is to note: the level is unknown, or its readings are not the phone's own. Mostly ``""``.

    Raises:
        PhoneError: with reason ``low_battery``: it is below and does not charge, or not enough in ``timeout_s``.
    """
    if floor_pct <= 0:
        return ""
    end = clock() + timeout_s
    while True:
        battery = read()
        if battery.level_pct is None:
            return f"the battery's level is unknown ({battery.nulls.get('level_pct', 'it was not read')})"
        if battery.level_pct >= floor_pct:
            return "the battery's readings are frozen (dumpsys battery reset thaws them)" if battery.overridden else ""
        if not _may_rise(battery):
            raise _too_low(phone, battery, floor_pct, "")
        if clock() >= end:
            raise _too_low(phone, battery, floor_pct, f" after {timeout_s:g} s")
        say(f"charging: {battery.level_pct} %, waiting for {floor_pct} %")
        sleep(max(0.0, min(POLL_S, end - clock())))


def refuse_for_ever_low(battery: Battery | None, floor_pct: int, phone: str) -> None:
    """Refuse a phone whose battery is below the floor and not about to rise; what is not known speaks for it.

    Raises:
        PhoneError: with reason ``low_battery``.
    """
    if battery is None or battery.level_pct is None or battery.level_pct >= floor_pct or _may_rise(battery):
        return
    raise _too_low(phone, battery, floor_pct, "")


def _may_rise(battery: Battery) -> bool:
    """Whether waiting makes sense; a phone that does not tell whether it charges may, if something is plugged in."""
    if battery.overridden:
        return False
    return battery.charging or (battery.status in (None, "unknown") and battery.plugged not in (None, "none"))


def _too_low(phone: str, battery: Battery, floor_pct: int, waited: str) -> PhoneError:
    plug = {None: "charger unknown", "none": "on no charger"}.get(battery.plugged, f"on {battery.plugged}")
    status = (battery.status or "status unknown").replace("_", " ")
    frozen = ", readings frozen by dumpsys battery" if battery.overridden else ""
    return PhoneError(
        phone,
        f"the battery is at {battery.level_pct} %{waited}, below the floor of {floor_pct} % ({plug}, {status}{frozen})",
        remedy="charge it, or lower battery_floor_pct in the plan's [prepare]",
        reason=Reason.LOW_BATTERY,
    )
