"""``dumpsys``: finds the service and prints what it says. Wording of errors: AOSP ``cmds/dumpsys/dumpsys.cpp``."""

from __future__ import annotations

from . import battery, gpu, meminfo, powerdump, thermal
from .store import Store, complain, say

_SERVICES = (
    "SurfaceFlinger", "activity", "battery", "connectivity", "deviceidle", "display", "gpu", "input", "meminfo",
    "power", "thermalservice", "window",
)  # fmt: skip
_THERMAL_SDK, _GPU_SDK = 29, 29


def run(_name: str, arguments: list[str]) -> int:
    """Answer ``dumpsys SERVICE [ARGUMENT…]``."""
    store = Store()
    words = _without_timeout(arguments)
    if words in ([], ["-l"]):
        say("Currently running services:")
        for service in services(store):
            say(f"  {service}")
        return 0
    service, rest = words[0], words[1:]
    if service not in services(store):
        complain(f"Can't find service: {service}")
        return 0
    if service == "battery" and rest:
        return battery.command(store, rest)
    if service == "deviceidle" and rest:
        return powerdump.deviceidle(store, rest)
    dumps = {
        "battery": battery.dump,
        "thermalservice": thermal.dump,
        "power": powerdump.power,
        "display": powerdump.display,
        "window": powerdump.window,
        "activity": powerdump.activity,
        "gpu": gpu.memory,
        "SurfaceFlinger": gpu.surface_flinger,
    }
    if service == "meminfo":
        lines = meminfo.dump(store, rest)
    elif service in dumps:
        lines = dumps[service](store)
    else:
        lines = []
    for line in lines:
        say(line)
    return 0


def services(store: Store) -> list[str]:
    """Return the services of this Android."""
    missing = set()
    if store.sdk < _THERMAL_SDK:
        missing.add("thermalservice")
    if store.sdk < _GPU_SDK:
        missing.add("gpu")
    return [name for name in _SERVICES if name not in missing]


def _without_timeout(arguments: list[str]) -> list[str]:
    words = list(arguments)
    while words[:1] in (["-t"], ["-T"]):
        del words[:2]
    return words
