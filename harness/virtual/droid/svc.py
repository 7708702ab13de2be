"""``svc``: power, and switches that are accepted and change nothing here (there is no radio)."""

from __future__ import annotations

from . import keys, settings
from .store import Store, complain, say

_STAY_ON = {"true": "15", "false": "0", "usb": "2", "ac": "1", "wireless": "4", "dock": "8"}


def run(_name: str, arguments: list[str]) -> int:
    """Answer ``svc COMMAND WORD``."""
    if arguments[:1] in (["wifi"], ["data"], ["bluetooth"], ["nfc"]) and arguments[1:] in (["enable"], ["disable"]):
        return 0
    if arguments[:2] == ["power", "stayon"] and arguments[2:3] and arguments[2] in _STAY_ON:
        settings.put(Store(), "global", "stay_on_while_plugged_in", _STAY_ON[arguments[2]])
        return 0
    if arguments[:2] == ["usb", "getFunctions"]:
        say("adb")
        return 0
    if arguments == ["power", "forcesuspend"]:
        keys.set_wakefulness(Store(), "Asleep")
        return 0
    for line in (
        "Available commands:", "    help     Show information about the subcommands",
        "    power    Control the power manager", "    data     Control mobile data connectivity",
        "    wifi     Control the Wi-Fi manager", "    usb      Control Usb state",
    ):  # fmt: skip
        complain(line)
    return 0 if arguments in ([], ["help"]) else 1
