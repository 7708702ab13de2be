"""Why a phone cannot be used: adb's states, and what the phone itself tells before it is connected. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.bench.lease import describe
from harness.core.errors import FarmError
from harness.core.reasons import Reason
from harness.payload.probe_lease import Lease
from harness.phone.health import Hold
from harness.store.head import LeftOut

EXCLUDED = Reason.EXCLUDED.code
SAME_PHONE = "same_phone"
"""The code of a second connection to a phone that takes part by another one."""
BOOTING = "booting"
MIN_FREE_BYTES = 500 * 1024**2
"""Android itself calls its storage low below 500 MiB (StorageManager's default threshold)."""


@dataclass(frozen=True)
class Why:
    """Why a phone takes no part: a code for programs (of ``core.reasons`` where one fits), a clause, what to do."""

    code: str
    reason: str
    remedy: str = ""

    def left_out(self, name: str) -> LeftOut:
        """Return it as the run folder keeps it."""
        return LeftOut(name=name, code=self.code, reason=self.reason, remedy=self.remedy)


def why_error(error: FarmError, name: str) -> Why:
    """Return an error of ours as a reason; the phone's name is not said twice."""
    return Why(error.reason.code, error.message.removeprefix(f"{name}: "), error.remedy)


_ACCEPT = "unlock the phone and accept this computer's key (tick always allow)"
_REBOOT = "reboot it to Android"
# adb's states (transport.cpp, to_string of ConnectionState) by how they begin: "no permissions (…)" goes on.
_STATES = {
    "unauthorized": (Reason.UNAUTHORIZED.code, _ACCEPT),
    "authorizing": (Reason.UNAUTHORIZED.code, _ACCEPT),
    "offline": (Reason.DEVICE_OFFLINE.code, "replug it, or run: adb reconnect offline"),
    "connecting": (Reason.DEVICE_OFFLINE.code, "wait a moment and run again"),
    "recovery": ("recovery", _REBOOT),
    "rescue": ("rescue", _REBOOT),
    "sideload": ("sideload", _REBOOT),
    "bootloader": ("bootloader", "reboot it to Android: fastboot reboot"),
    "fastboot": ("bootloader", "reboot it to Android: fastboot reboot"),
    "no permissions": ("no_permissions", "mnn-farm doctor says which udev rule or group is missing"),
    "host": ("host_mode", "it is a computer's end of a cable: connect the phone's other port or switch its USB mode"),
    "detached": ("detached", "give it back to this adb server: adb attach, with its serial by -s"),
}


def why_state(state: str) -> Why | None:
    """Return why a phone in this state of adb's cannot be used; ``None`` for ``device``."""
    if state == "device":
        return None
    for beginning, (code, remedy) in _STATES.items():
        if state.startswith(beginning):
            return Why(code, f"adb lists it as {state}", remedy)
    return Why("unknown_state", f"adb lists it as {state}", "replug it")


def why_booting(properties: Mapping[str, str]) -> Why | None:
    """Return that a phone is still booting.

    Android sets ``sys.boot_completed`` to 1 at the end of its start and has no such property before. What does not
    claim to be Android (a PC) has no such end to wait for.
    """
    if "ro.build.version.sdk" not in properties or properties.get("sys.boot_completed") == "1":
        return None
    return Why(BOOTING, "it has not finished booting", "wait until its home screen is there and run again")


def why_full(free_bytes: int | None) -> Why | None:
    """Return that a phone's storage is (nearly) full; what is not known is not held against it."""
    if free_bytes is None or free_bytes >= MIN_FREE_BYTES:
        return None
    mib = free_bytes // 1024**2
    return Why(
        Reason.NO_SPACE.code,
        f"only {mib} MiB are free on its storage; {MIN_FREE_BYTES // 1024**2} are needed",
        "free storage on the phone",
    )


def why_held(hold: Hold, name: str) -> Why:
    """Return a hold as the reason why a phone takes no part."""
    return Why(Reason.HELD.code, hold.text, f"mnn-farm devices release {name}")


def why_held_by(holder: Lease) -> Why:
    """Return somebody's lease as the reason why a phone takes no part."""
    return Why(Reason.BUSY.code, f"in use by {describe(holder)}", "wait for them, or run without it")
