"""``cmd SERVICE``: the shell commands of services. Without a service of that name: AOSP's sentence and code 20."""

from __future__ import annotations

from types import ModuleType

from . import activity, battery, connectivity, dumpsys, powerdump, settings, thermal, window
from .store import Store, complain, say

_COMMANDS_OF: dict[str, tuple[str, ModuleType]] = {
    "settings": ("settings", settings),
    "package": ("pm", activity),
    "activity": ("am", activity),
    "window": ("wm", window),
}
_SERVICES = {
    "battery": battery.command,
    "connectivity": connectivity.command,
    "thermalservice": thermal.command,
}


def run(_name: str, arguments: list[str]) -> int:
    """Answer ``cmd SERVICE [ARGUMENT…]``."""
    if not arguments:
        complain("cmd: No service specified; use -l to list all services")
        return 20
    store = Store()
    service, rest = arguments[0], arguments[1:]
    if service == "-l":
        say("Currently running services:")
        for name in sorted([*dumpsys.services(store), "package", "settings"]):
            say(f"  {name}")
        return 0
    if service in _COMMANDS_OF:
        name, module = _COMMANDS_OF[service]
        return int(module.run(name, rest))
    if service not in dumpsys.services(store):
        complain(f"cmd: Can't find service: {service}")
        return 20
    if service == "deviceidle" and rest:
        return powerdump.deviceidle(store, rest)
    if service in _SERVICES:
        return _SERVICES[service](store, rest)
    complain("No shell command implementation.")
    return 255
