"""``input``: keys that switch the screen. Everything else is accepted and wakes it, as a touch does."""

from __future__ import annotations

from .store import Store, Table, complain

_KEYS = {"26": "toggle", "POWER": "toggle", "223": "Asleep", "SLEEP": "Asleep", "224": "Awake", "WAKEUP": "Awake"}
_SOURCES = ("keyboard", "touchscreen", "mouse", "dpad", "stylus", "trackball", "gamepad", "touchnavigation", "joystick")


def set_wakefulness(store: Store, wanted: str) -> None:
    """Ask for the screen to be on (``Awake``) or off (``Asleep``)."""

    def change(table: Table) -> None:
        table["wakefulness"] = wanted

    store.ask(change)


def run(_name: str, arguments: list[str]) -> int:
    """Answer ``input [SOURCE] COMMAND ARGUMENT…``."""
    words = arguments[1:] if arguments[:1] and arguments[0] in _SOURCES else list(arguments)
    store = Store()
    if words[:1] == ["keyevent"] and len(words) > 1:
        for word in words[1:]:
            if word.startswith("--"):
                continue
            wanted = _KEYS.get(word.removeprefix("KEYCODE_"))
            if wanted == "toggle":
                wanted = "Asleep" if store.wakefulness == "Awake" else "Awake"
            if wanted is not None:
                set_wakefulness(store, wanted)
        return 0
    if words[:1] and words[0] in ("tap", "swipe", "text", "press", "roll"):
        set_wakefulness(store, store.wakefulness)
        return 0
    complain("Usage: input [<source>] <command> [<arg>...]")
    return 255 if words else 0
