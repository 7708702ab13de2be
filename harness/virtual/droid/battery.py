"""``dumpsys battery`` and ``cmd battery``.

Wording: AOSP ``BatteryService.dumpInternal``. An override stays until ``reset``, and the first line then says so.
Samsung's service prints its own log after it, in lines that look alike; some phones leave lines out.
"""

from __future__ import annotations

from .store import Store, Table, complain, say

_AC, _USB, _WIRELESS = 1, 2, 4
_SETTABLE = ("ac", "usb", "wireless", "status", "level", "counter", "temp", "present", "invalid")


def dump(store: Store) -> list[str]:
    """Return the lines of ``dumpsys battery``."""
    spec, battery = store.spec["battery"], store.battery()
    plugged = int(battery["plugged"])
    lines = ["Current Battery Service state:"]
    if "battery" in store.asked:
        lines.append("  (UPDATES STOPPED -- use 'reset' to restart)")
    lines.append(f"  AC powered: {_word(plugged & _AC)}")
    lines.append(f"  USB powered: {_word(plugged & _USB)}")
    if spec["layout"] != "plain":
        lines.append(f"  Wireless powered: {_word(plugged & _WIRELESS)}")
    if store.sdk >= 33 and spec["layout"] != "plain":
        lines.append("  Dock powered: false")
    lines.append(f"  Max charging current: {spec['charge_ua'] if plugged else 0}")
    if spec["layout"] != "plain":
        lines.append(f"  Max charging voltage: {5_000_000 if plugged else 0}")
    lines += [
        f"  Charge counter: {battery['counter']}",
        f"  status: {battery['status']}",
        "  health: 2",
        "  present: true",
        f"  level: {battery['level']}",
        "  scale: 100",
        f"  voltage: {battery['voltage']}",
        f"  temperature: {battery['temperature']}",
        f"  technology: {spec['technology']}",
    ]
    if store.sdk >= 35 and spec["layout"] == "aosp":
        lines += ["  Charging state: 0", "  Charging policy: 0"]
    if store.sdk >= 34 or spec["layout"] == "samsung":
        lines.append("  Capacity level: -1")
    if spec["layout"] == "samsung":
        lines += _samsung_log(battery)
    return lines


def _samsung_log(battery: Table) -> list[str]:
    older = int(battery["level"]) - 3
    return [
        "[EventLogBuffer]",
        f"01-01 00:00:07.318  Sending ACTION_BATTERY_CHANGED: level:{older}, health:2, voltage:3991, temperature:299",
        f"  level: {older}",
        "  temperature: 299",
    ]


def _word(value: int) -> str:
    return "true" if value else "false"


def command(store: Store, arguments: list[str]) -> int:
    """Answer ``cmd battery`` and the same words after ``dumpsys battery``."""
    words = [word for word in arguments if word != "-f"]
    if words == ["reset"]:
        store.ask(lambda table: table.pop("battery", None))
        return 0
    if words == ["unplug"]:
        store.ask(lambda table: _override(store, table).update(plugged=0, status=3))
        return 0
    if words[:1] == ["get"] and len(words) == 2:
        return _get(store, words[1])
    if words[:1] == ["set"] and len(words) == 3:
        return _set(store, words[1], words[2])
    for line in (
        "Battery service (battery) commands:",
        "  get [-f] [ac|usb|wireless|status|level|temp|present|counter|invalid]",
        "  set [-f] [ac|usb|wireless|status|level|temp|present|counter|invalid] <value>",
        "    Force a battery property value, freezing battery state.",
        "  unplug [-f]",
        "    Force battery unplugged, freezing battery state.",
        "  reset [-f]",
        "    Unfreeze battery state, returning to current hardware values.",
    ):
        say(line)
    return 0 if words in ([], ["help"], ["-h"]) else 255


def _override(store: Store, table: Table) -> Table:
    """Freeze all readings as they are: the real service stops looking at the hardware."""
    held: Table = table.get("battery") or dict(store.now["battery"])
    table["battery"] = held
    return held


def _get(store: Store, key: str) -> int:
    battery = store.battery()
    plugged = int(battery["plugged"])
    known = {
        "ac": _word(plugged & _AC), "usb": _word(plugged & _USB), "wireless": _word(plugged & _WIRELESS),
        "status": battery["status"], "level": battery["level"], "counter": battery["counter"],
        "temp": battery["temperature"], "present": "true", "invalid": 0,
    }  # fmt: skip
    if key not in known:
        complain(f"Unknown get option: {key}")
        return 255
    say(str(known[key]))
    return 0


def _set(store: Store, key: str, word: str) -> int:
    if key not in _SETTABLE:
        complain(f"Unknown set option: {key}")
        return 255
    if not word.lstrip("-").isdigit():
        complain(f"Bad value: {word}")
        return 255
    value = int(word)

    def change(table: Table) -> None:
        held = _override(store, table)
        bits = {"ac": _AC, "usb": _USB, "wireless": _WIRELESS}
        if key in bits:
            held["plugged"] = held["plugged"] | bits[key] if value else held["plugged"] & ~bits[key]
        else:
            held[{"temp": "temperature"}.get(key, key)] = value

    store.ask(change)
    return 0
